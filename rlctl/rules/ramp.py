"""A canary in steps: each held and watched, and all of it taken back where too much goes wrong."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise

from rlctl.errors import CheckFailed, Refused, RlctlError
from rlctl.execute.fleet import Fleet
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.rules.admin import InForce, Make, Outcome, in_force
from rlctl.rules.conditions import Condition, Seen, Signal, broken, shown_value
from rlctl.rules.edit import find
from rlctl.rules.model import Revision, RuleSet, percent
from rlctl.rules.signals import Totals, denied, totals
from rlctl.system.clock import Clock
from rlctl.system.redis import CommandFailed, LinkFailure

LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """What is to happen: shares of 10,000, how long each is held, and what breaks it off."""

    rule_id: str
    shares: tuple[int, ...]
    hold_s: float
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """How a ramp touches the fleet: one locked change, and looks without a lock."""

    change: Callable[[str, Make], Outcome]
    open: Callable[[], AbstractContextManager[Fleet]]
    clock: Clock
    stop: StopFlag
    progress: Progress


def run_ramp(ramp: Ramp, make: Callable[[int, InForce], RuleSet], hands: Hands) -> Outcome:
    """Walk the steps; CheckFailed after everything was taken back, Refused where somebody else changed the rules.

    Interrupted, it stays where it is: every step is a revision that holds by itself.
    """
    before: Revision | None = None
    outcome: Outcome | None = None
    for share in ramp.shares:
        outcome = hands.change(f"canary {ramp.rule_id} {percent(share)} %", _step(make, share, outcome))
        before = before or outcome.plan.before
        assert outcome.revision is not None
        hands.progress.note(f"{ramp.rule_id}: {percent(share)} % for {ramp.hold_s:g} s")
        trouble = _hold(ramp, outcome.revision, hands)
        if trouble is not None:
            _take_back(ramp, before, hands, f"{trouble} at {percent(share)} %")
    assert outcome is not None
    return outcome


def _step(make: Callable[[int, InForce], RuleSet], share: int, last: Outcome | None) -> Make:
    def made(now: InForce) -> RuleSet:
        if last is not None and last.revision is not None and not _is_in_force(now, last.revision):
            raise _overtaken()
        return make(share, now)

    return made


def _hold(ramp: Ramp, revision: Revision, hands: Hands) -> str | None:
    """Watch one step to its end; what is too much, or None."""
    ends_s = hands.clock.monotonic() + ramp.hold_s
    start: Totals | None = None
    seen: Seen = {}
    while True:
        hands.stop.check()
        try:
            with _looking(hands) as now:
                if not _is_in_force(now, revision):
                    raise _overtaken()
                start = start or totals(now)
                seen = _look(ramp, now, start)
        except (LinkFailure, CommandFailed) as failure:
            hands.progress.note(f"could not look: {failure}")
        trouble = broken(ramp.conditions, seen)
        left_s = ends_s - hands.clock.monotonic()
        if trouble is not None or left_s <= 0:
            _tell(ramp, hands, seen)
            blind = ramp.conditions and start is None
            return trouble or ("nothing could be seen" if blind else None)
        hands.clock.sleep(min(LOOK_EVERY_S, left_s))


@contextmanager
def _looking(hands: Hands) -> Iterator[InForce]:
    with hands.open() as fleet:
        yield in_force(fleet)


def _look(ramp: Ramp, now: InForce, start: Totals) -> Seen:
    share = denied(now, find(now.rules, ramp.rule_id)) if _is_wanted(ramp, Signal.DENIED) else None
    return {**totals(now).since(start), Signal.DENIED: share}


def _tell(ramp: Ramp, hands: Hands, seen: Seen) -> None:
    known = {signal: value for signal, value in seen.items() if value is not None or _is_wanted(ramp, signal)}
    words = ", ".join(f"{signal} {shown_value(signal, value)}" for signal, value in sorted(known.items()))
    hands.progress.note(f"  seen: {words or 'nothing'}")


def _take_back(ramp: Ramp, before: Revision | None, hands: Hands, trouble: str) -> None:
    assert before is not None
    try:
        hands.change(f"canary {ramp.rule_id} broken off", lambda _now: before)
    except RlctlError as failure:
        raise CheckFailed(
            f"broken off: {trouble}; but revision {before.number} could not be put back: {failure.message}",
            hint=f"`rlctl rules rollback --to {before.number}` tries again",
        ) from failure
    raise CheckFailed(
        f"broken off: {trouble}; revision {before.number} is in force again",
        hint="`rlctl rules status` shows the steps",
    )


def _is_wanted(ramp: Ramp, signal: Signal) -> bool:
    return any(condition.signal is signal for condition in ramp.conditions)


def _is_in_force(now: InForce, revision: Revision) -> bool:
    return now.revision is not None and now.revision.version == revision.version


def _overtaken() -> Refused:
    return Refused(
        "somebody else changed the rules during the ramp; it ends here and leaves them as they are",
        hint="`rlctl rules status` shows who it was",
    )


def parse_steps(shares: Sequence[int]) -> tuple[int, ...]:
    """The steps of a ramp; ValueError where they do not rise."""
    if any(later <= earlier for earlier, later in pairwise(shares)):
        raise ValueError("the steps of a ramp rise, such as 10,50,100")
    return tuple(shares)
