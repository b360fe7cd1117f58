"""A canary in steps: each held and watched, and all of it taken back where too much goes wrong."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from rlctl.errors import CheckFailed, Declined, Interrupted, NotFound, Refused, RlctlError
from rlctl.limits.rule import Revision, RuleSet, Version, percent
from rlctl.rules.change import ChangeResult, NotReadBack, RampStep, RulesEdit
from rlctl.rules.conditions import Signal
from rlctl.rules.edits import replace_rules
from rlctl.rules.in_force import RulesInForce
from rlctl.rules.ramp_watch import MEASURE_EVERY_S, RETRY_FOR_S, RETRYABLE, Ramp, RampContext, RulesReplaced, hold_step
from rlctl.system.redis import CommandFailed, LinkFailure

_FAILS = (RlctlError, LinkFailure, CommandFailed)
_TIERS = (
    "denied is judged by the canary's own parameters, also for identities of a tier that has others: "
    "keys do not say whose tier it is"
)


def run_ramp(ramp: Ramp, make: Callable[[int, RulesInForce], RuleSet], context: RampContext) -> ChangeResult:
    """Walk the steps; CheckFailed after everything was taken back, Refused where somebody else changed the rules.

    Interrupted, it stays where it is: every step is a revision that holds by itself.
    """
    walk = _RampRun(ramp, make, context)
    for share in ramp.shares:
        trouble = walk.step(share)
        trouble = trouble or hold_step(ramp, walk.revision, context)
        if trouble is not None:
            walk.abort(f"{trouble} at {percent(share)} %")
    assert walk.outcome is not None
    return walk.outcome


class _RampRun:
    """A ramp on its way: what was in force before it, and its step that is in force."""

    def __init__(self, ramp: Ramp, make: Callable[[int, RulesInForce], RuleSet], context: RampContext) -> None:
        self.outcome: ChangeResult | None = None
        self._ramp = ramp
        self._make = make
        self._context = context
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
            self.outcome = self._change_with_retries(why_step(self._ramp.rule_id, share), attempt, self._ramp_step())
        except NotReadBack as failure:
            self.outcome, trouble = failure.outcome, failure.message
        except (RulesReplaced, Interrupted, Declined):
            raise
        except _FAILS as failure:
            if self._before is None:
                raise
            raise CheckFailed(
                f"{percent(share)} % could not be put in force: {failure}; {self._revision_left()}",
                hint=self._rollback_hint(),
            ) from failure
        if self._before is None:
            self._before = attempt.before
            self._note_tiers()
        self._share = share
        if trouble is None:
            self._context.progress.note(f"{self._ramp.rule_id}: {percent(share)} % for {self._ramp.hold_s:g} s")
        return trouble

    def abort(self, trouble: str) -> None:
        """Put in force what was before the ramp; always raises."""
        before = self._before
        assert before is not None
        self._context.progress.note(f"broken off: {trouble}")
        attempt = _Attempt(replace_rules(before), self.revision.version)
        try:
            self._change_with_retries(f"canary {self._ramp.rule_id} broken off", attempt)
        except NotReadBack as failure:
            self._context.progress.note(failure.message)
        except RulesReplaced:
            raise
        except _FAILS as failure:
            raise CheckFailed(
                f"broken off: {trouble}; but revision {before.number} could not be put back: {failure}; "
                f"{self._revision_left()}",
                hint=self._rollback_hint(),
            ) from failure
        raise CheckFailed(
            f"broken off: {trouble}; revision {before.number} is in force again",
            hint="`rlctl rules status` shows the steps",
        )

    def _ramp_step(self) -> RampStep:
        last = self._ramp.shares[-1]
        before = self._before.number if self._before is not None else None
        return RampStep(last=lambda now: self._make(last, now), before=before)

    def _change_with_retries(self, why: str, attempt: "_Attempt", step: RampStep | None = None) -> ChangeResult:
        """One change, tried again for a while where the fleet cannot take it now."""
        clock = self._context.clock
        ends_s = clock.monotonic() + RETRY_FOR_S
        while True:
            try:
                return self._context.change(why, attempt, step)
            except RETRYABLE as failure:
                if not attempt.may_be_retried(failure) or clock.monotonic() >= ends_s:
                    raise
                self._context.progress.note(f"not yet: {failure}")
            self._context.stop.check()
            clock.sleep(MEASURE_EVERY_S)

    def _note_tiers(self) -> None:
        rule = self.revision.rules.rule(self._ramp.rule_id)
        if rule is not None and rule.definition.tiers and self._ramp.watches(Signal.DENIED):
            self._context.progress.note(_TIERS)

    def _revision_left(self) -> str:
        assert self._share is not None
        return f"the step of {percent(self._share)} %, revision {self.revision.number}, stays in force"

    def _rollback_hint(self) -> str:
        assert self._before is not None
        return f"`rlctl rules rollback --to {self._before.number}` takes the ramp back"


class _Attempt:
    """A change that may be tried again, only from what the ramp itself put in force.

    An answer that was lost says nothing: what the change would make may be in force already, and is taken for done.
    """

    def __init__(self, make: RulesEdit, own: Version | None) -> None:
        self.before: Revision | None = None
        self._make = make
        self._own = own
        self._is_first = own is None
        self._made: RuleSet | Revision | None = None

    def __call__(self, now: RulesInForce) -> RuleSet | Revision:
        """What is to be in force."""
        if self._made is not None and self._is_stored(now):
            return now.required()
        if self._own is not None and now.version != self._own:
            raise RulesReplaced
        made = self._make(now)
        self.before, self._own, self._made = now.revision, now.version, made
        return made

    def may_be_retried(self, failure: Exception) -> bool:
        """A first step that is refused, or never got as far as a change, is the user's to repeat."""
        if isinstance(failure, RulesReplaced):
            return False
        return not self._is_first or (self._made is not None and not isinstance(failure, Refused | NotFound))

    def _is_stored(self, now: RulesInForce) -> bool:
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


def with_first_step(share: int, shares: tuple[int, ...]) -> tuple[int, ...]:
    """The steps of a ramp with this one as the first; ValueError where it lies above them."""
    if share > shares[0]:
        raise ValueError(f"{percent(share)} % is more than the first step of the ramp, {percent(shares[0])} %")
    return shares if share == shares[0] else (share, *shares)


def why_step(rule_id: str, share: int) -> str:
    """How the history calls a canary's step."""
    return f"canary {rule_id} {percent(share)} %"
