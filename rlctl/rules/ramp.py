"""A canary in steps: each held and watched, and all of it taken back where too much goes wrong."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from rlctl.errors import CheckFailed, Declined, Interrupted, NotFound, Refused, RlctlError
from rlctl.limits.rule import Revision, RuleSet, Version, percent
from rlctl.rules.change import Make, NotReadBack, Outcome, RampStep
from rlctl.rules.conditions import Signal
from rlctl.rules.edits import applied
from rlctl.rules.in_force import InForce
from rlctl.rules.ramp_watch import CANNOT_LOOK, LOOK_EVERY_S, PATIENCE_S, Hands, Overtaken, Ramp, hold
from rlctl.system.redis import CommandFailed, LinkFailure

_FAILS = (RlctlError, LinkFailure, CommandFailed)
_TIERS = (
    "denied is judged by the canary's own parameters, also for identities of a tier that has others: "
    "keys do not say whose tier it is"
)


def run_ramp(ramp: Ramp, make: Callable[[int, InForce], RuleSet], hands: Hands) -> Outcome:
    """Walk the steps; CheckFailed after everything was taken back, Refused where somebody else changed the rules.

    Interrupted, it stays where it is: every step is a revision that holds by itself.
    """
    walk = _Walk(ramp, make, hands)
    for share in ramp.shares:
        trouble = walk.step(share)
        trouble = trouble or hold(ramp, walk.revision, hands)
        if trouble is not None:
            walk.take_back(f"{trouble} at {percent(share)} %")
    assert walk.outcome is not None
    return walk.outcome


class _Walk:
    """A ramp on its way: what was in force before it, and its step that is in force."""

    def __init__(self, ramp: Ramp, make: Callable[[int, InForce], RuleSet], hands: Hands) -> None:
        self.outcome: Outcome | None = None
        self._ramp = ramp
        self._make = make
        self._hands = hands
        self._share: int | None = None
        self._before: Revision | None = None

    @property
    def revision(self) -> Revision:
        """The step that is in force."""
        assert self.outcome is not None
        assert self.outcome.revision is not None
        return self.outcome.revision

    def step(self, share: int) -> str | None:
        """Put a step in force; what is wrong with it already, as a step that not everybody has is none to hold."""
        trouble, own = None, self.revision.version if self.outcome is not None else None
        attempt = _Attempt(lambda now: self._make(share, now), own)
        try:
            self.outcome = self._insist(why_step(self._ramp.rule_id, share), attempt, self._mark())
        except NotReadBack as failure:
            self.outcome, trouble = failure.outcome, failure.message
        except (Overtaken, Interrupted, Declined):
            raise
        except _FAILS as failure:
            if self._before is None:
                raise
            raise CheckFailed(
                f"{percent(share)} % could not be put in force: {failure}; {self._what_stays()}", hint=self._way_back()
            ) from failure
        if self._before is None:
            self._before = attempt.before
            self._say_how_tiers_are_judged()
        self._share = share
        if trouble is None:
            self._hands.progress.note(f"{self._ramp.rule_id}: {percent(share)} % for {self._ramp.hold_s:g} s")
        return trouble

    def take_back(self, trouble: str) -> None:
        """Put in force what was before the ramp; always raises."""
        before = self._before
        assert before is not None
        self._hands.progress.note(f"broken off: {trouble}")
        attempt = _Attempt(applied(before), self.revision.version)
        try:
            self._insist(f"canary {self._ramp.rule_id} broken off", attempt)
        except NotReadBack as failure:
            self._hands.progress.note(failure.message)
        except Overtaken:
            raise
        except _FAILS as failure:
            raise CheckFailed(
                f"broken off: {trouble}; but revision {before.number} could not be put back: {failure}; "
                f"{self._what_stays()}",
                hint=self._way_back(),
            ) from failure
        raise CheckFailed(
            f"broken off: {trouble}; revision {before.number} is in force again",
            hint="`rlctl rules status` shows the steps",
        )

    def _mark(self) -> RampStep:
        last = self._ramp.shares[-1]
        before = self._before.number if self._before is not None else None
        return RampStep(last=lambda now: self._make(last, now), before=before)

    def _insist(self, why: str, attempt: "_Attempt", step: RampStep | None = None) -> Outcome:
        """One change, tried again for a while where the fleet cannot take it now."""
        clock = self._hands.clock
        ends_s = clock.monotonic() + PATIENCE_S
        while True:
            try:
                return self._hands.change(why, attempt, step)
            except CANNOT_LOOK as failure:
                if not attempt.may_be_repeated(failure) or clock.monotonic() >= ends_s:
                    raise
                self._hands.progress.note(f"not yet: {failure}")
            self._hands.stop.check()
            clock.sleep(LOOK_EVERY_S)

    def _say_how_tiers_are_judged(self) -> None:
        rule = self.revision.rules.rule(self._ramp.rule_id)
        if rule is not None and rule.definition.tiers and self._ramp.wants(Signal.DENIED):
            self._hands.progress.note(_TIERS)

    def _what_stays(self) -> str:
        assert self._share is not None
        return f"the step of {percent(self._share)} %, revision {self.revision.number}, stays in force"

    def _way_back(self) -> str:
        assert self._before is not None
        return f"`rlctl rules rollback --to {self._before.number}` takes the ramp back"


class _Attempt:
    """A change that may be tried again, only from what the ramp itself put in force.

    An answer that was lost says nothing: what the change would make may be in force already, and is taken for done.
    """

    def __init__(self, make: Make, own: Version | None) -> None:
        self.before: Revision | None = None
        self._make = make
        self._own = own
        self._is_first = own is None
        self._made: RuleSet | Revision | None = None

    def __call__(self, now: InForce) -> RuleSet | Revision:
        """What is to be in force."""
        if self._made is not None and self._is_stored(now):
            return now.required()
        if self._own is not None and now.version != self._own:
            raise Overtaken
        made = self._make(now)
        self.before, self._own, self._made = now.revision, now.version, made
        return made

    def may_be_repeated(self, failure: Exception) -> bool:
        """A first step that is refused, or never got as far as a change, is the user's to repeat."""
        if isinstance(failure, Overtaken):
            return False
        return not self._is_first or (self._made is not None and not isinstance(failure, Refused | NotFound))

    def _is_stored(self, now: InForce) -> bool:
        if isinstance(self._made, Revision):
            return now.version == self._made.version
        assert self._made is not None
        if now.revision is None or self._own is None:
            return False
        return (now.revision.parent, now.revision.rules.digest) == (self._own.revision, self._made.digest)


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
