"""Carries out the steps of a page one after another, and reports the outcome of each."""

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
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRun:
    """A step, its command as it ran, and its outcome; `why` says why it failed or was skipped."""

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
        """What the command printed, in a few lines."""
        return summary(self.output, self.errors)

    def to_json(self) -> dict[str, object]:
        """The JSON that `runbook run -o json` prints."""
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
    """The steps that a run reached. `recovered_s` is the time until the last check passed; None after a failure."""

    results: tuple[StepRun, ...]
    recovered_s: float | None

    @property
    def failed(self) -> StepRun | None:
        """The step that failed, if one did."""
        return next((one for one in self.results if one.outcome is StepOutcome.FAILED), None)


class CommandRunner(Protocol):
    """Runs the commands of a page."""

    def run(self, command: str, *, timeout_s: float) -> Finished:
        """Run one rlctl command, and stop the command after the timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RlctlRunner:
    """Runs commands of this rlctl installation on the fleet of a topology file, without a terminal for questions."""

    runner: GracefulRunner
    file: Path

    def run(self, command: str, *, timeout_s: float) -> Finished:
        """Run one rlctl command, and stop the command after the timeout."""
        argv = [*OWN_PYTHON, "-m", "rlctl", "--file", str(self.file), *words(command)[1:]]
        return self.runner.run(argv, timeout_s=timeout_s)


@dataclass(frozen=True, kw_only=True)
class PageRun:
    """One run of a page.

    rlctl calls `announce` before each step, since some steps take minutes. rlctl calls `agree` before a step that
    changes something; `agree` raises Declined if the operator declines the step. `patience_s` maps the ids of steps to
    shorter timeouts.
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
        """Carry out the steps until one fails or all are done."""
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
            why = f"{step.when.step} did not print: {step.when.query}"
            return StepRun(step=step, command=command, outcome=StepOutcome.SKIPPED, why=why)
        if unknown := [name for name in variables(step.command) if name not in values]:
            why = f"no step before it set ${unknown[0]}"
            return StepRun(step=step, command=command, outcome=StepOutcome.FAILED, why=why)
        if step.mutates:
            self.agree(step, command)
        result = self._run(step, command)
        if result.outcome is StepOutcome.DONE:
            values |= _variables_from(step, result.output)
        return result

    def _run(self, step: Step, command: str) -> StepRun:
        timeout_s = min(step.timeout_ms / 1000, self.patience_s.get(step.id, float("inf")))
        started = self.clock.monotonic()
        done = self.runner.run(command, timeout_s=timeout_s)
        why = f"did not end within {timeout_s:g} s" if done.timed_out else _unexpected(step, done)
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


def _unexpected(step: Step, done: Finished) -> str:
    """How the result differs from what the page expects; empty if the result is as expected."""
    if done.code not in step.exits:
        return f"exit {done.code}, expected {' or '.join(map(str, sorted(step.exits)))}"
    if step.expect is not None and not jmespath.holds(step.expect, done.output):
        return f"expected: {step.expect}"
    return ""


def _variables_from(step: Step, output: str) -> dict[str, str]:
    """The variables that this step sets for later steps. A variable whose value is not in the output is not set."""
    answers = {name: jmespath.search(expression, output) for name, expression in step.sets.items()}
    return {
        name: str(expected_answer)
        for name, expected_answer in answers.items()
        if isinstance(expected_answer, str | int | float)
    }
