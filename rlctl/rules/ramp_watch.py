"""One step of a ramp, held: watched to its end, and what went wrong in it."""

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
# How long a fleet that fails over is waited for: at the end of a hold, and with a change that it cannot take now.
RETRY_FOR_S = 60.0
# A fleet that fails over is not lost: what cannot be seen now is looked for again.
RETRYABLE = (LinkFailure, CommandFailed, Unreachable, Refused, NotFound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """What is to happen: shares of 10,000, how long each is held, and what breaks it off."""

    rule_id: str
    shares: tuple[int, ...]
    hold_s: float
    conditions: tuple[AbortCondition, ...]

    def watches(self, signal: Signal) -> bool:
        """Whether a condition is about this."""
        return any(condition.signal is signal for condition in self.conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class RampContext:
    """How a ramp touches the fleet: one locked change, and looks without a lock."""

    change: Callable[[str, RulesEdit, RampStep | None], ChangeResult]
    open: Callable[[], AbstractContextManager[FleetSession]]
    clock: Clock
    stop: StopFlag
    progress: Progress


class RulesReplaced(Refused):
    """The rules in force are not the ramp's any more."""

    code = "overtaken"

    def __init__(self) -> None:
        super().__init__(
            "somebody else changed the rules during the ramp; it ends here and leaves them as they are",
            hint="`rlctl rules status` shows who it was",
        )


def hold_step(ramp: Ramp, revision: Revision, context: RampContext) -> str | None:
    """Watch one step to its end; what is too much, or could not be seen, or None."""
    ends_s = context.clock.monotonic() + ramp.hold_s
    watch = _StepWatch(ramp, revision, context)
    while True:
        context.stop.check()
        could_look = watch.look()
        left_s = ends_s - context.clock.monotonic()
        # What cannot be seen at the very end is looked for a little longer: a healthy hold is not lost by that.
        is_over = left_s <= 0 and (could_look or not ramp.conditions or left_s <= -RETRY_FOR_S)
        trouble = exceeded(ramp.conditions, watch.seen)
        if trouble is not None or is_over:
            watch.tell()
            return trouble or watch.unseen(could_look=could_look)
        context.clock.sleep(min(MEASURE_EVERY_S, left_s) if left_s > 0 else MEASURE_EVERY_S)


class _StepWatch:
    """What was seen of a step so far."""

    def __init__(self, ramp: Ramp, revision: Revision, context: RampContext) -> None:
        self.seen: Measurements = {}
        self._ramp = ramp
        self._revision = revision
        self._context = context
        self._start: FleetCounters | None = None
        self._measured: set[Signal] = set()

    def look(self) -> bool:
        """Look once; whether that was possible."""
        self.seen = {}
        overtaken = False
        try:
            with _rules_now(self._context) as now:
                overtaken = now.version != self._revision.version
                if not overtaken:
                    self._measure(now)
        except RETRYABLE as failure:
            self._context.progress.note(f"could not look: {failure}")
            return False
        if overtaken:
            raise RulesReplaced
        return True

    def unseen(self, *, could_look: bool) -> str | None:
        """What nobody knows at the end: a condition that was never measured is not met."""
        never = [one.signal for one in self._ramp.conditions if one.signal not in self._measured]
        if never:
            return f"{', '.join(dict.fromkeys(never))} could not be seen during the hold"
        return "nothing could be seen at the end" if self._ramp.conditions and not could_look else None

    def tell(self) -> None:
        """What the last look showed."""
        wanted = {
            signal: value for signal, value in self.seen.items() if value is not None or self._ramp.watches(signal)
        }
        words = ", ".join(f"{signal} {shown_value(signal, value)}" for signal, value in sorted(wanted.items()))
        self._context.progress.note(f"  seen: {words or 'nothing'}")

    def _measure(self, now: RulesInForce) -> None:
        """What happened since the first look, or since the servers of that are gone."""
        found = read_counters(now)
        if self._start is not None and not found.has_any_of(self._start):
            self._context.progress.note("none of the servers that were watched serves any more: counting starts again")
            self._start = None
        self._start = self._start.joined(found) if self._start is not None else found
        wants_denied = self._ramp.watches(Signal.DENIED)
        share = denied_share(now, find_rule(now.required().rules, self._ramp.rule_id)) if wants_denied else None
        self.seen = {**found.since(self._start), Signal.DENIED: share}
        self._measured.update(signal for signal, value in self.seen.items() if value is not None)


@contextmanager
def _rules_now(context: RampContext) -> Iterator[RulesInForce]:
    with context.open() as fleet:
        yield read_rules_in_force(fleet)
