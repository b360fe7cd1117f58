"""Notes on what the figures of a run prove and what they do not. Pure."""

from collections.abc import Iterator

from rlctl.drills.report.values import Document, brief, timers


def notes(run: Document, series: Document) -> tuple[str, ...]:
    """The notes that apply to a run."""
    return (*_where(run), *_timers(run), *_fault(run, series), *_figures(run))


def _where(run: Document) -> Iterator[str]:
    if run["live"]:
        yield "This was measured on the deployed fleet, which served other load at the same time."
        return
    yield (
        "This was measured on a twin: a throw-away fleet of the topology's shape and settings on one machine. Its "
        "nodes communicate over loopback: a real network adds its latency to every time and every lag."
    )
    if run["why_no_sandbox"]:
        yield f"The twin ran without namespaces of its own ({run['why_no_sandbox']})."


def _timers(run: Document) -> Iterator[str]:
    if run["timers"] == "short":
        yield (
            f"The twin ran with {timers(run)}. Detection and election take longer with "
            "longer timers, as in production. --stock-timers repeats the drill with the timers of the topology."
        )
    if run["periods"]:
        periods = ", ".join(f"{name} {value} ms" for name, value in run["periods"].items())
        yield (
            f"The periods of the sentinels were shortened with SENTINEL DEBUG ({periods}), a test setting. With stock "
            "periods the old primary is demoted later after the heal, and what it acknowledges until then is lost too."
        )


def _fault(run: Document, series: Document) -> Iterator[str]:
    names = {event["name"] for event in series["events"]}
    if "kill" in names:
        yield (
            "A kill is the crash of a process: the kernel still delivers what the process had written to its "
            "connections, so a kill without a cut loses almost nothing."
        )
    if {"kill", "cut"} <= names:
        cut_ms = run["fault"]["cut_ms"]
        lag = f"{cut_ms:,.1f} ms" if cut_ms is not None else "the injected time"
        yield (
            f"The cut before the kill simulates the crash of a host, or a replication lag of {lag}: "
            "writes that were acknowledged in that time are lost."
        )
    if "pause" in names:
        yield "A pause (SIGSTOP) stops a process while its connections stay open, as a stalled machine or disk does."
    if run["fault"]["verified"] is None and "cut" in names:
        yield "The cut was too short for probes, so they do not prove that it was in effect."


def _figures(run: Document) -> Iterator[str]:
    yield (
        "rlctl samples roles every 40 ms and records acknowledgements as they arrive: a promotion or demotion is "
        "recorded up to 40 ms late, and the first reply of the new primary may precede its promotion."
    )
    if run["ops"]["indeterminate"]:
        yield (
            f"{run['ops']['indeterminate']:,} operations are indeterminate: only the ledger shows whether they took "
            "effect. They count neither as acknowledged nor as lost."
        )
    if run["admission"] is not None:
        yield (
            "The window of the limiter was chosen so that it does not end during the run. Over-admission is that of "
            "one hot user in this window."
        )
    gap_ms = run["metrics"]["gap_ms"]
    if gap_ms is not None:
        yield f"Longest gaps include the end of the run: a client that never recovers has a long one ({brief(gap_ms)})."
    yield "One run is one sample: repeat it before you quote it as typical."
