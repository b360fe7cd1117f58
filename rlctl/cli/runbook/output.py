"""How runbooks are told in a terminal: the list, a page, a passage through one, the proof of all."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rlctl.cli.app import App
from rlctl.files.units import format_duration
from rlctl.runbooks.page.blocks import filled
from rlctl.runbooks.page.expected import answer
from rlctl.runbooks.page.model import Runbook, Section, Step
from rlctl.runbooks.rehearse import Omission, Proof
from rlctl.runbooks.run import Outcome, StepResult, Walked
from rlctl.topology.model import Topology


def show_pages(app: App, pages: Sequence[Runbook]) -> None:
    """One line for each page."""
    if app.output.as_json:
        app.output.result({"schema": "rlctl.runbook-list/1", "runbooks": [_summary(page) for page in pages]})
        return
    rows = [[page.id, page.title, page.severity, " ".join(page.kinds), page.risk] for page in pages]
    app.output.table(["RUNBOOK", "WHAT IS WRONG", "SEVERITY", "KINDS", "RISK"], rows)


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
    """The page as it is written; laid out where a person looks."""
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
        "commands print JSON for `rlctl runbook run`; without `-o json` they print tables, and end alike"
    )
    if sys.stdout.isatty():
        from rich.markdown import Markdown  # noqa: PLC0415  costs start-up time that only this command pays

        app.output.line(head)
        app.output.console().print(Markdown(_without_attributes(text)))
    else:
        app.output.text(f"{text}\n{head}")


def show_steps(app: App, page: Runbook, steps: Sequence[Step], values: Mapping[str, str]) -> None:
    """What would be carried out, with the names filled in that are known before."""
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
        "answer": answer(step),
    }


def _with_answers(page: Runbook) -> str:
    """The page with a line after each command that says how it ends when all goes as expected."""
    waiting = list(reversed(page.steps))
    lines: list[str] = []
    for line in page.text.splitlines():
        is_end = bool(waiting and lines) and lines[-1].strip() == waiting[-1].command
        lines.append(line)
        if is_end:
            lines += ["", f"{answer(waiting.pop())}."]
    return "\n".join(lines) + "\n"


def _without_attributes(text: str) -> str:
    """What a fence says for machines; for readers it stands above it."""
    return "\n".join("```sh" if line.startswith("```sh ") else line for line in text.splitlines())


def show_start(app: App, page: Runbook, topology: Topology, transcript: Path) -> None:
    """On which fleet this goes, and where it is kept, before anything is done."""
    app.output.note(f"{page.id} {page.title}, on {topology.name} ({topology.kind}); transcript: {transcript}")


def show_announced(app: App, step: Step, command: str) -> None:
    """A step before it is taken: some take minutes."""
    app.output.note(f"{step.section}: {step.id}: {command}")


def show_result(app: App, result: StepResult) -> None:
    """A step as it ends; who reads JSON is told on stderr too."""
    if result.outcome is Outcome.SKIPPED:
        app.output.note(f"    not called for: {result.why}")
        return
    ending = result.why if result.why.startswith("exit ") else f"exit {result.exit_code}, {result.why}".rstrip(", ")
    app.output.note(f"    {result.outcome} after {result.elapsed_s:.1f} s, {ending}")
    for line in result.gist:
        app.output.note(f"    {line}")


def show_walked(app: App, page: Runbook, fleet: str, walked: Walked, transcript: Path) -> None:
    """How a passage ended, and what to do when it did not end well."""
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
        for line in _way_on(page, walked):
            app.output.line(line)
    app.output.line(f"transcript: {transcript}")


def _way_on(page: Runbook, walked: Walked) -> Iterator[str]:
    """What the page says of escalation, and what is still to be taken back; neither where the fault is another."""
    if walked.failed is not None and walked.failed.step.section is Section.LOOK:
        yield f"nothing was changed: this is not what {page.id} is for, or it is over; `rlctl status` names the page"
        yield f"by hand: `rlctl runbook show {page.id}`, see {Section.DECIDE}"
        return
    yield from page.sections[Section.ESCALATE].splitlines()
    is_changed = any(result.step.mutates and result.outcome is Outcome.DONE for result in walked.results)
    left = [step for step in page.steps if step.section is Section.UNDO]
    if is_changed and left:
        yield f"still to be taken back, see Undo: {', '.join(step.command for step in left)}"


def show_proof(app: App, proof: Proof, elapsed_s: float) -> None:
    """Every passage with the seconds it took, then what leaving steps out showed."""
    if app.output.as_json:
        app.output.result(
            {
                "schema": "rlctl.runbook-test/1",
                "verdict": "pass" if proof.holds else "fail",
                "elapsed_s": round(elapsed_s, 1),
                "passages": [passage.to_json() for passage in proof.passages],
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
        for one in proof.passages
    ]
    app.output.table(["VERDICT", "RUNBOOK", "KIND", "FAULT", "RECOVERED IN", "STEPS"], rows)
    for passage in proof.passages:
        if not passage.result.is_green:
            app.output.line(f"fail {passage.page.id} {passage.kind} {passage.rehearsal.fault}: {passage.result.reason}")
    for omission in proof.dead:
        app.output.line(f"fail {_where(omission)} is dead: without it nobody notices")
    for omission in proof.unused:
        app.output.line(f"fail {_where(omission)} is never taken by any rehearsal")
    for reason in proof.repeated:
        app.output.line(f"made twice: {reason}")
    noticed = len(proof.omissions) - len(proof.dead)
    missed = f"{noticed} of {len(proof.omissions)} omitted steps were missed" if proof.omissions else "no step left out"
    app.output.line(f"{'pass' if proof.holds else 'fail'}: {len(proof.passages)} passages, {missed}, {elapsed_s:.0f} s")


def _where(omission: Omission) -> str:
    return f"{omission.page.id} {omission.kind}: step {omission.step.id}"
