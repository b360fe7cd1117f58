"""The summary of a run for a terminal: verdict, claim, expectations, key figures. Pure."""

from collections.abc import Iterator
from textwrap import wrap

from rlctl.drills.report.values import (
    UNMEASURED,
    Document,
    brief,
    count,
    label,
    lost,
    place,
    seen,
    timers,
    times,
    wanted,
)
from rlctl.drills.report.words import METRICS, TIMES
from rlctl.drills.scenario.model import Metric

WIDTH = 80
EXPECTED_HEADERS = ("", "figure", "expected", "seen")
FIGURE_HEADERS = ("figure", "measured")


def heading(run: Document) -> Iterator[str]:
    """The verdict, the reasons if it is not `pass`, and the claim."""
    yield from _folded(f"{run['verdict']} {label(run)}, {place(run)}, {timers(run)}")
    if run["verdict"] != "pass":
        for reason in run["reasons"]:
            yield from _folded(f"- {reason}")
    yield from _folded(f"claimed: {run['claim']}")


def expected_rows(run: Document) -> Iterator[tuple[str, str, str, str]]:
    """Each expectation with the measured value."""
    for one in run["expected"]:
        yield ("ok" if one["ok"] else "missed", METRICS[Metric(one["metric"])].label, wanted(one), seen(one))


def figure_rows(run: Document) -> Iterator[tuple[str, str]]:
    """The key figures."""
    ops = run["ops"]
    yield "acknowledged", f"{count(ops['acked'])} of {count(ops['attempted'])} attempted"
    yield "unanswered", f"{count(ops['refused'])} refused, {count(ops['indeterminate'])} indeterminate"
    yield "lost", lost(run)
    admission = run["admission"]
    if admission is not None:
        admitted = (
            f"{count(admission['admitted'])} at a limit of {count(admission['limit'])} ({times(admission['ratio'])})"
        )
        yield "admitted", f"{admitted}: over {count(admission['over'])}, under {count(admission['under'])}"
    for client in run["clients"]:
        yield f"longest gap, {client['name']}", brief(client["longest_gap_ms"])
    measured = [
        f"{word.label} {brief(run['times_ms'][name])}"
        for name, word in TIMES.items()
        if run["times_ms"][name] is not None
    ]
    yield "times", ", ".join(measured[:3]) or UNMEASURED
    if measured[3:]:
        yield "", ", ".join(measured[3:])


def closing(run: Document) -> Iterator[str]:
    """The report's path, and the command that repeats the run. Lines are not wrapped, so that they can be copied."""
    if run["report"]:
        yield f"report: {run['report']}"
    yield f"again: {run['rerun']}"


def _folded(text: str) -> Iterator[str]:
    yield from wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
