"""Output of `rlctl runbook`: the list, a page, a run, and the results of rehearsals."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rlctl.cli.app import App
from rlctl.files.units import format_duration
from rlctl.runbooks.page.blocks import filled
from rlctl.runbooks.page.expected import expected_answer
from rlctl.runbooks.page.model import PageSection, Runbook, Step
from rlctl.runbooks.rehearse import Omission, RehearsalReport
from rlctl.runbooks.run import RunResult, StepOutcome, StepRun
from rlctl.topology.model import Topology


def show_pages(app: App, pages: Sequence[Runbook]) -> None:
    if app.output.as_json:
        app.output.result({"schema": "rlctl.runbook-list/1", "runbooks": [_summary(page) for page in pages]})
        return
    rows = [[page.id, page.title, page.severity, " ".join(page.kinds), page.risk] for page in pages]
    app.output.table(["RUNBOOK", "INCIDENT", "SEVERITY", "KINDS", "RISK"], rows)


def _summary(page: Runbook) -> dict[str, object]:
    return {
        "id": page.id,
        "slug": page.slug,
        "title": page.title,
        "severity": page.severity,
        "kinds": list(page.kinds),
        "risk": page.risk,
        "symptoms": list(page.symptoms),
        "findings": list(page.findings),
        "error_codes": list(page.error_codes),
        "causes": list(page.causes),
        "drills": list(page.drills),
        "time_to_mitigate": format_duration(page.mitigate_ms),
        "escalate_after": format_duration(page.escalate_after_ms),
    }


def show_page(app: App, page: Runbook, values: Mapping[str, str]) -> None:
    """Show the page: formatted on a terminal, else as Markdown."""
    if app.output.as_json:
        steps = [_step(step, values) for step in page.steps]
        text = filled(page.text, values)
        app.output.result({"schema": "rlctl.runbook-show/1", **_summary(page), "steps": steps, "text": text})
        return
    text = filled(_with_answers(page), values)
    head = (
        f"{page.severity}, for {' and '.join(page.kinds)}, risk {page.risk}; mitigate within "
        f"{format_duration(page.mitigate_ms)}, escalate after {format_duration(page.escalate_after_ms)}; "
        f"owner {page.owner}\n"
        "`-o json` is for `rlctl runbook run`; without it the commands print tables and have the same exit codes"
    )
    if sys.stdout.isatty():
        from rich.markdown import Markdown  # noqa: PLC0415  slow to import, and only this command needs it

        app.output.line(head)
        app.output.console().print(Markdown(_without_attributes(text)))
    else:
        app.output.text(f"{text}\n{head}")


def show_steps(app: App, page: Runbook, steps: Sequence[Step], values: Mapping[str, str]) -> None:
    """Show the steps of a dry run, with the known variables filled in."""
    if app.output.as_json:
        planned = [_step(step, values) for step in steps]
        app.output.result({"schema": "rlctl.runbook-run/1", "dry_run": True, "runbook": page.id, "steps": planned})
        return
    rows = [(step.section, step.id, step.risk, filled(step.command, values)) for step in steps]
    app.output.table(["SECTION", "STEP", "RISK", "COMMAND"], rows)


def _step(step: Step, values: Mapping[str, str]) -> dict[str, object]:
    return {
        "id": step.id,
        "section": step.section,
        "risk": step.risk,
        "command": filled(step.command, values),
        "only": step.only,
        "when": None if step.when is None else {"step": step.when.step, "query": step.when.query},
        "expect_exit": sorted(step.exits),
        "expect": step.expect,
        "timeout": format_duration(step.timeout_ms),
        "sets": dict(step.sets),
        "says": step.prose,
        "answer": expected_answer(step),
    }


def _with_answers(page: Runbook) -> str:
    """Return the text of the page with the expected result after each command."""
    waiting = list(reversed(page.steps))
    lines: list[str] = []
    for line in page.text.splitlines():
        is_end = bool(waiting and lines) and lines[-1].strip() == waiting[-1].command
        lines.append(line)
        if is_end:
            lines += ["", f"{expected_answer(waiting.pop())}."]
    return "\n".join(lines) + "\n"


def _without_attributes(text: str) -> str:
    """Remove the attributes of code blocks, which only rlctl reads."""
    return "\n".join("```sh" if line.startswith("```sh ") else line for line in text.splitlines())


def show_start(app: App, page: Runbook, topology: Topology, transcript: Path) -> None:
    app.output.note(f"{page.id} {page.title}, on {topology.name} ({topology.kind}); transcript: {transcript}")


def show_step_start(app: App, step: Step, command: str) -> None:
    """Show a step before it runs, because some steps take minutes."""
    app.output.note(f"{step.section}: {step.id}: {command}")


def show_result(app: App, result: StepRun) -> None:
    """Print the outcome of a step to stderr, even with -o json."""
    if result.outcome is StepOutcome.SKIPPED:
        app.output.note(f"    skipped: {result.why}")
        return
    ending = result.why if result.why.startswith("exit ") else f"exit {result.exit_code}, {result.why}".rstrip(", ")
    app.output.note(f"    {result.outcome} after {result.elapsed_s:.1f} s, {ending}")
    for line in result.summary:
        app.output.note(f"    {line}")


def show_ending(app: App, page: Runbook, fleet: str, walked: RunResult, transcript: Path) -> None:
    """Show how the run ended, and what to do next if it failed."""
    failed = walked.failed
    if app.output.as_json:
        app.output.result(
            {
                "schema": "rlctl.runbook-run/1",
                "runbook": page.id,
                "fleet": fleet,
                "outcome": "failed" if failed else "recovered",
                "failed": failed.step.id if failed else None,
                "recovered_s": None if walked.recovered_s is None else round(walked.recovered_s, 1),
                "steps": [result.to_json() for result in walked.results],
                "transcript": str(transcript),
            }
        )
        return
    if failed is None:
        app.output.line(f"healthy again: {page.id} on {fleet}, {walked.recovered_s or 0:.1f} s after the first step")
    else:
        app.output.line(f"fail {page.id} on {fleet}, at step {failed.step.id}: {failed.why}")
        for line in _next_steps(page, walked):
            app.output.line(line)
    app.output.line(f"transcript: {transcript}")


def _next_steps(page: Runbook, walked: RunResult) -> Iterator[str]:
    """Yield the page's escalation and the steps to undo; other advice if the fleet lacks the page's fault."""
    if walked.failed is not None and walked.failed.step.section is PageSection.LOOK:
        yield f"nothing was changed: the fleet has no fault that {page.id} is for; `rlctl status` names the right page"
        yield f"to decide by hand: `rlctl runbook show {page.id}`, section {PageSection.DECIDE}"
        return
    yield from page.sections[PageSection.ESCALATE].splitlines()
    is_changed = any(result.step.mutates and result.outcome is StepOutcome.DONE for result in walked.results)
    left = [step for step in page.steps if step.section is PageSection.UNDO]
    if is_changed and left:
        yield f"still to undo, see section Undo: {', '.join(step.command for step in left)}"


def show_proof(app: App, proof: RehearsalReport, elapsed_s: float) -> None:
    """Show each rehearsal with its recovery time, then the steps that pages do not need or that were never run."""
    if app.output.as_json:
        app.output.result(
            {
                "schema": "rlctl.runbook-test/1",
                "verdict": "pass" if proof.holds else "fail",
                "elapsed_s": round(elapsed_s, 1),
                "passages": [passage.to_json() for passage in proof.rehearsals],
                "omissions": [omission.to_json() for omission in proof.omissions],
                "unused": [{"runbook": one.page.id, "kind": one.kind, "step": one.step.id} for one in proof.unused],
                "repeated": list(proof.repeated),
            }
        )
        return
    rows = [
        [
            "pass" if one.result.is_green else "fail",
            one.page.id,
            one.kind,
            one.rehearsal.fault,
            "-" if one.result.recovered_s is None else f"{one.result.recovered_s:.1f} s",
            str(sum(1 for step in one.result.steps if step["outcome"] == "done")),
        ]
        for one in proof.rehearsals
    ]
    app.output.table(["VERDICT", "RUNBOOK", "KIND", "FAULT", "RECOVERED IN", "STEPS"], rows)
    for passage in proof.rehearsals:
        if not passage.result.is_green:
            app.output.line(f"fail {passage.page.id} {passage.kind} {passage.rehearsal.fault}: {passage.result.reason}")
    for omission in proof.unnoticed:
        app.output.line(f"fail {_where(omission)} is dead: the fleet recovers without it")
    for omission in proof.unused:
        app.output.line(f"fail {_where(omission)} was not run in any rehearsal")
    for reason in proof.repeated:
        app.output.line(f"rehearsed twice: {reason}")
    noticed = len(proof.omissions) - len(proof.unnoticed)
    missed = f"{noticed} of {len(proof.omissions)} steps proved necessary" if proof.omissions else "no step left out"
    app.output.line(
        f"{'pass' if proof.holds else 'fail'}: {len(proof.rehearsals)} rehearsals, {missed}, {elapsed_s:.0f} s"
    )


def _where(omission: Omission) -> str:
    return f"{omission.page.id} {omission.kind}: step {omission.step.id}"
