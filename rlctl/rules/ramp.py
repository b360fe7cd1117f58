"""A canary in steps: each held and watched, and all of it taken back where too much goes wrong."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise

from rlctl.errors import CheckFailed, NotFound, Refused, RlctlError, Unreachable
from rlctl.execute.fleet import Fleet
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.rules.admin import InForce, Make, NotReadBack, Outcome, in_force
from rlctl.rules.conditions import Condition, Seen, Signal, broken, shown_value
from rlctl.rules.edit import find
from rlctl.rules.model import Revision, RuleSet, percent
from rlctl.rules.signals import Totals, denied, totals
from rlctl.system.clock import Clock
from rlctl.system.redis import CommandFailed, LinkFailure

LOOK_EVERY_S = 1.0
# A fleet that fails over is not lost: what cannot be seen now is looked for again.
_CANNOT_LOOK = (LinkFailure, CommandFailed, Unreachable, Refused, NotFound)


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


class Overtaken(Refused):
    """The rules in force are not the ramp's any more."""

    code = "overtaken"

    def __init__(self) -> None:
        super().__init__(
            "somebody else changed the rules during the ramp; it ends here and leaves them as they are",
            hint="`rlctl rules status` shows who it was",
        )


def run_ramp(ramp: Ramp, make: Callable[[int, InForce], RuleSet], hands: Hands) -> Outcome:
    """Walk the steps; CheckFailed after everything was taken back, Refused where somebody else changed the rules.

    Interrupted, it stays where it is: every step is a revision that holds by itself.
    """
    before: Revision | None = None
    outcome: Outcome | None = None
    for share in ramp.shares:
        outcome, trouble = _walk(ramp, share, _step(make, share, outcome), hands)
        before = before or outcome.plan.before
        assert outcome.revision is not None
        trouble = trouble or _hold(ramp, outcome.revision, hands)
        if trouble is not None:
            assert before is not None
            _take_back(ramp, before, outcome.revision, hands, f"{trouble} at {percent(share)} %")
    assert outcome is not None
    return outcome


def _walk(ramp: Ramp, share: int, step: Make, hands: Hands) -> tuple[Outcome, str | None]:
    """One step put in force; and what is wrong with it already, as a step that not everybody has is none to hold."""
    try:
        outcome = hands.change(why_step(ramp.rule_id, share), step)
    except NotReadBack as failure:
        return failure.outcome, failure.message
    hands.progress.note(f"{ramp.rule_id}: {percent(share)} % for {ramp.hold_s:g} s")
    return outcome, None


def _step(make: Callable[[int, InForce], RuleSet], share: int, last: Outcome | None) -> Make:
    def made(now: InForce) -> RuleSet:
        if last is not None and last.revision is not None and not _is_in_force(now, last.revision):
            raise Overtaken
        return make(share, now)

    return made


def _hold(ramp: Ramp, revision: Revision, hands: Hands) -> str | None:
    """Watch one step to its end; what is too much, or None."""
    ends_s = hands.clock.monotonic() + ramp.hold_s
    start: Totals | None = None
    while True:
        hands.stop.check()
        seen: Seen = {}
        overtaken = False
        try:
            with _looking(hands) as now:
                overtaken = not _is_in_force(now, revision)
                if not overtaken:
                    start, seen = _look(ramp, now, start, hands)
        except _CANNOT_LOOK as failure:
            hands.progress.note(f"could not look: {failure}")
        if overtaken:
            raise Overtaken
        trouble = broken(ramp.conditions, seen)
        left_s = ends_s - hands.clock.monotonic()
        if trouble is not None or left_s <= 0:
            _tell(ramp, hands, seen)
            blind = ramp.conditions and not seen
            return trouble or ("nothing could be seen" if blind else None)
        hands.clock.sleep(min(LOOK_EVERY_S, left_s))


@contextmanager
def _looking(hands: Hands) -> Iterator[InForce]:
    with hands.open() as fleet:
        yield in_force(fleet)


def _look(ramp: Ramp, now: InForce, start: Totals | None, hands: Hands) -> tuple[Totals, Seen]:
    """Where the next look counts from, and what happened since this one's start."""
    found = totals(now)
    if start is not None and not found.has_any_of(start):
        hands.progress.note("none of the servers that were watched serves any more: counting starts again")
        return found, {}
    start = start.joined(found) if start is not None else found
    share = denied(now, find(now.required().rules, ramp.rule_id)) if _is_wanted(ramp, Signal.DENIED) else None
    return start, {**found.since(start), Signal.DENIED: share}


def _tell(ramp: Ramp, hands: Hands, seen: Seen) -> None:
    known = {signal: value for signal, value in seen.items() if value is not None or _is_wanted(ramp, signal)}
    words = ", ".join(f"{signal} {shown_value(signal, value)}" for signal, value in sorted(known.items()))
    hands.progress.note(f"  seen: {words or 'nothing'}")


def _take_back(ramp: Ramp, before: Revision, broken_off: Revision, hands: Hands, trouble: str) -> None:
    def made(now: InForce) -> Revision:
        if not _is_in_force(now, broken_off):
            raise Overtaken
        return before

    hands.progress.note(f"broken off: {trouble}")
    try:
        hands.change(f"canary {ramp.rule_id} broken off", made)
    except NotReadBack as failure:
        hands.progress.note(failure.message)
    except Overtaken:
        raise
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
    return now.version == revision.version


def parse_steps(shares: Sequence[int]) -> tuple[int, ...]:
    """The steps of a ramp; ValueError where they do not rise."""
    if any(later <= earlier for earlier, later in pairwise(shares)):
        raise ValueError("the steps of a ramp rise, such as 10,50,100")
    return tuple(shares)


def begun_at(share: int, shares: tuple[int, ...]) -> tuple[int, ...]:
    """The steps of a ramp with this one as the first; ValueError where it lies above them."""
    if share > shares[0]:
        raise ValueError(f"{percent(share)} % is more than the first step of the ramp, {percent(shares[0])} %")
    return shares if share == shares[0] else (share, *shares)


def why_step(rule_id: str, share: int) -> str:
    """How the history calls a canary's step."""
    return f"canary {rule_id} {percent(share)} %"
