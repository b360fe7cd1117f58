"""Holds one step of a ramp: measures the fleet until the step's time is over or a condition is met."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from rlctl.errors import NotFound, Refused, Unreachable
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession
from rlctl.execute.stop import StopFlag
from rlctl.limits.rule import Revision
from rlctl.rules.change import ChangeResult, RampStep, RulesEdit
from rlctl.rules.conditions import AbortCondition, Measurements, Signal, exceeded, shown_value
from rlctl.rules.edit import find_rule
from rlctl.rules.in_force import RulesInForce, read_rules_in_force
from rlctl.rules.signals import FleetCounters, denied_share, read_counters
from rlctl.system.clock import Clock
from rlctl.system.redis import CommandFailed, LinkFailure

MEASURE_EVERY_S = 1.0
# Retry a change, and the last measurement of a step, for this long after a failure that a failover may cause.
RETRY_FOR_S = 60.0
# Failures that a failover may cause.
RETRYABLE = (LinkFailure, CommandFailed, Unreachable, Refused, NotFound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """The steps of a ramp as shares of 10,000, how long each is held, and the conditions that abort it."""

    rule_id: str
    shares: tuple[int, ...]
    hold_s: float
    conditions: tuple[AbortCondition, ...]

    def watches(self, signal: Signal) -> bool:
        """Whether a condition is about this signal."""
        return any(condition.signal is signal for condition in self.conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class RampContext:
    """Access of a ramp to its fleet: `change` takes the fleet's lock, `open` reads without it."""

    change: Callable[[str, RulesEdit, RampStep | None], ChangeResult]
    open: Callable[[], AbstractContextManager[FleetSession]]
    clock: Clock
    stop: StopFlag
    progress: Progress


class RulesReplaced(Refused):
    """Another operator changed the rules during a ramp."""

    code = "overtaken"

    def __init__(self) -> None:
        super().__init__(
            "another operator changed the rules during the ramp; the ramp ends and leaves them as they are",
            hint="`rlctl rules status` shows the last changes and their authors",
        )


def hold_step(ramp: Ramp, revision: Revision, context: RampContext) -> str | None:
    """Hold a step. Return the condition that was met or could not be measured; None if the step passed."""
    ends_s = context.clock.monotonic() + ramp.hold_s
    watch = _StepWatch(ramp, revision, context)
    while True:
        context.stop.check()
        is_measured = watch.measure()
        left_s = ends_s - context.clock.monotonic()
        # A failover at the end of the step must not abort a healthy ramp, so a failed last measurement is retried.
        is_over = left_s <= 0 and (is_measured or not ramp.conditions or left_s <= -RETRY_FOR_S)
        trouble = exceeded(ramp.conditions, watch.measured)
        if trouble is not None or is_over:
            watch.report()
            return trouble or watch.not_measured(is_measured=is_measured)
        context.clock.sleep(min(MEASURE_EVERY_S, left_s) if left_s > 0 else MEASURE_EVERY_S)


class _StepWatch:
    """The measurements of a step so far."""

    def __init__(self, ramp: Ramp, revision: Revision, context: RampContext) -> None:
        self.measured: Measurements = {}
        self._ramp = ramp
        self._revision = revision
        self._context = context
        self._start: FleetCounters | None = None
        self._ever_measured: set[Signal] = set()

    def measure(self) -> bool:
        """Measure once; False if the fleet could not be read."""
        self.measured = {}
        is_replaced = False
        try:
            with _rules_now(self._context) as now:
                is_replaced = now.version != self._revision.version
                if not is_replaced:
                    self._read(now)
        except RETRYABLE as failure:
            self._context.progress.note(f"could not measure: {failure}")
            return False
        if is_replaced:
            raise RulesReplaced
        return True

    def not_measured(self, *, is_measured: bool) -> str | None:
        """Why the step cannot be judged: a condition was never measured, or the last measurement failed."""
        never = [one.signal for one in self._ramp.conditions if one.signal not in self._ever_measured]
        if never:
            return f"{', '.join(dict.fromkeys(never))} could not be measured during the step"
        return "the last measurement of the step failed" if self._ramp.conditions and not is_measured else None

    def report(self) -> None:
        """Note the last measurements."""
        wanted = {
            signal: value for signal, value in self.measured.items() if value is not None or self._ramp.watches(signal)
        }
        words = ", ".join(f"{signal} {shown_value(signal, value)}" for signal, value in sorted(wanted.items()))
        self._context.progress.note(f"  measured: {words or 'nothing'}")

    def _read(self, now: RulesInForce) -> None:
        """Compute the signals since the start of the step.

        If all primaries that were measured so far have been replaced, counting starts again.
        """
        found = read_counters(now)
        if self._start is not None and not found.has_any_of(self._start):
            self._context.progress.note("all measured primaries were replaced: counting starts again")
            self._start = None
        self._start = self._start.joined(found) if self._start is not None else found
        wants_denied = self._ramp.watches(Signal.DENIED)
        share = denied_share(now, find_rule(now.required().rules, self._ramp.rule_id)) if wants_denied else None
        self.measured = {**found.since(self._start), Signal.DENIED: share}
        self._ever_measured.update(signal for signal, value in self.measured.items() if value is not None)


@contextmanager
def _rules_now(context: RampContext) -> Iterator[RulesInForce]:
    with context.open() as fleet:
        yield read_rules_in_force(fleet)
