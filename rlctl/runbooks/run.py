"""Carries the steps of a page out one after another, and says of each what became of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from rlctl.runbooks.page import jmespath
from rlctl.runbooks.page.blocks import filled, variables, words
from rlctl.runbooks.page.model import PageSection, Runbook, Step
from rlctl.runbooks.page.summary import summary
from rlctl.system.clock import Clock
from rlctl.system.process import OWN_PYTHON, Finished, GracefulRunner
from rlctl.topology.model import Kind


class StepOutcome(StrEnum):
    """What became of a step."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRun:
    """A step with its command as it was run; `why` says what was wrong, or why it was left out."""

    step: Step
    command: str
    outcome: StepOutcome
    why: str = ""
    exit_code: int | None = None
    elapsed_s: float = 0.0
    output: str = ""
    errors: str = ""

    @property
    def summary(self) -> tuple[str, ...]:
        """What it printed, in a few lines."""
        return summary(self.output, self.errors)

    def to_json(self) -> dict[str, object]:
        """As `runbook run -o json` shows it."""
        return {
            "id": self.step.id,
            "section": self.step.section,
            "risk": self.step.risk,
            "command": self.command,
            "outcome": self.outcome,
            "why": self.why,
            "exit": self.exit_code,
            "elapsed_s": round(self.elapsed_s, 3),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """All steps that were reached; `recovered_s` is the time until the last check said that it is over."""

    results: tuple[StepRun, ...]
    recovered_s: float | None

    @property
    def failed(self) -> StepRun | None:
        """The step at which it ended, if it did not come to its end."""
        return next((one for one in self.results if one.outcome is StepOutcome.FAILED), None)


class CommandRunner(Protocol):
    """Whoever runs the commands of a page."""

    def run(self, command: str, *, timeout_s: float) -> Finished:
        """One command of rlctl; one that takes too long is told to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RlctlRunner:
    """This very rlctl, on the fleet of one topology file, with nobody to ask."""

    runner: GracefulRunner
    file: Path

    def run(self, command: str, *, timeout_s: float) -> Finished:
        """One command of rlctl; one that takes too long is told to end."""
        argv = [*OWN_PYTHON, "-m", "rlctl", "--file", str(self.file), *words(command)[1:]]
        return self.runner.run(argv, timeout_s=timeout_s)


@dataclass(frozen=True, kw_only=True)
class PageRun:
    """One passage through a page.

    `announce` says a step and its command before it is taken, for some take minutes. `agree` raises Declined where a
    step that mutates is not wanted; `omitted` steps are left out, and `patience_s`
    shortens the time that single steps get.
    """

    page: Runbook
    kind: Kind
    values: Mapping[str, str]
    runner: CommandRunner
    clock: Clock
    agree: Callable[[Step, str], None]
    report: Callable[[StepRun], None]
    announce: Callable[[Step, str], None] = lambda _step, _command: None
    before: Callable[[Step], None] = lambda _step: None
    omitted: frozenset[str] = frozenset()
    patience_s: Mapping[str, float] = field(default_factory=dict)

    def carry_out(self) -> RunResult:
        """Step by step, until one fails or all are done."""
        started = self.clock.monotonic()
        outputs: dict[str, str] = {}
        values = dict(self.values)
        results: list[StepRun] = []
        recovered_s = None
        for step in self.page.steps_for(self.kind):
            if step.id in self.omitted:
                continue
            self.before(step)
            result = self._take(step, outputs, values)
            results.append(result)
            self.report(result)
            if result.outcome is StepOutcome.FAILED:
                break
            outputs[step.id] = result.output
            if step.section is PageSection.VERIFY and result.outcome is StepOutcome.DONE:
                recovered_s = self.clock.monotonic() - started
        ended_well = bool(results) and results[-1].outcome is not StepOutcome.FAILED
        return RunResult(results=tuple(results), recovered_s=recovered_s if ended_well else None)

    def _take(self, step: Step, outputs: Mapping[str, str], values: dict[str, str]) -> StepRun:
        command = filled(step.command, values)
        self.announce(step, command)
        if step.when is not None and not jmespath.holds(step.when.query, outputs.get(step.when.step, "")):
            why = f"{step.when.step} did not say: {step.when.query}"
            return StepRun(step=step, command=command, outcome=StepOutcome.SKIPPED, why=why)
        if unknown := [name for name in variables(step.command) if name not in values]:
            why = f"nothing before it told ${unknown[0]}"
            return StepRun(step=step, command=command, outcome=StepOutcome.FAILED, why=why)
        if step.mutates:
            self.agree(step, command)
        result = self._run(step, command)
        if result.outcome is StepOutcome.DONE:
            values |= _told(step, result.output)
        return result

    def _run(self, step: Step, command: str) -> StepRun:
        timeout_s = min(step.timeout_ms / 1000, self.patience_s.get(step.id, float("inf")))
        started = self.clock.monotonic()
        done = self.runner.run(command, timeout_s=timeout_s)
        why = f"did not end within {timeout_s:g} s" if done.timed_out else _wrong(step, done)
        return StepRun(
            step=step,
            command=command,
            outcome=StepOutcome.FAILED if why else StepOutcome.DONE,
            why=why,
            exit_code=done.code,
            elapsed_s=self.clock.monotonic() - started,
            output=done.output,
            errors=done.errors,
        )


def _wrong(step: Step, done: Finished) -> str:
    """How an ending is not as the page expects."""
    if done.code not in step.exits:
        return f"exit {done.code}, expected {' or '.join(map(str, sorted(step.exits)))}"
    if step.expect is not None and not jmespath.holds(step.expect, done.output):
        return f"expected: {step.expect}"
    return ""


def _told(step: Step, output: str) -> dict[str, str]:
    """What later steps take from this one; what it did not tell stays unknown."""
    answers = {name: jmespath.ask(expression, output) for name, expression in step.sets.items()}
    return {
        name: str(expected_answer)
        for name, expected_answer in answers.items()
        if isinstance(expected_answer, str | int | float)
    }
