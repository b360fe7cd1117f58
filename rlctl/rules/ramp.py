"""A ramp: a canary that is raised in steps, measured during each step, and undone if a condition is met."""

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
    "rlctl computes `denied` with the canary's parameters for all identities, even for tiers that set their own, "
    "because keys do not contain the tier"
)


def run_ramp(ramp: Ramp, make: Callable[[int, RulesInForce], RuleSet], context: RampContext) -> ChangeResult:
    """Put the steps of a ramp in force one by one, and hold each for its time.

    Raises CheckFailed after an abort, which puts the revision before the ramp in force again, and RulesReplaced if
    another operator changed the rules. An interrupted ramp stays at its step.
    """
    run = _RampRun(ramp, make, context)
    for share in ramp.shares:
        trouble = run.step(share)
        trouble = trouble or hold_step(ramp, run.revision, context)
        if trouble is not None:
            run.abort(f"{trouble} at {percent(share)} %")
    assert run.outcome is not None
    return run.outcome


class _RampRun:
    """A running ramp: the revision before the ramp, and the step that is in force."""

    def __init__(self, ramp: Ramp, make: Callable[[int, RulesInForce], RuleSet], context: RampContext) -> None:
        self.outcome: ChangeResult | None = None
        self._ramp = ramp
        self._make = make
        self._context = context
        self._share: int | None = None
        self._before: Revision | None = None

    @property
    def revision(self) -> Revision:
        """The revision of the step that is in force."""
        assert self.outcome is not None
        assert self.outcome.revision is not None
        return self.outcome.revision

    def step(self, share: int) -> str | None:
        """Put a step in force; returns the failure if not every node confirmed it, and None otherwise."""
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
        """Put the revision before the ramp in force again; always raises."""
        before = self._before
        assert before is not None
        self._context.progress.note(f"ramp aborted: {trouble}")
        attempt = _Attempt(replace_rules(before), self.revision.version)
        try:
            self._change_with_retries(f"canary {self._ramp.rule_id} aborted", attempt)
        except NotReadBack as failure:
            self._context.progress.note(failure.message)
        except RulesReplaced:
            raise
        except _FAILS as failure:
            raise CheckFailed(
                f"ramp aborted: {trouble}; but revision {before.number} could not be put in force again: {failure}; "
                f"{self._revision_left()}",
                hint=self._rollback_hint(),
            ) from failure
        raise CheckFailed(
            f"ramp aborted: {trouble}; revision {before.number} is in force again",
            hint="`rlctl rules status` shows the steps",
        )

    def _ramp_step(self) -> RampStep:
        last = self._ramp.shares[-1]
        before = self._before.number if self._before is not None else None
        return RampStep(last=lambda now: self._make(last, now), before=before)

    def _change_with_retries(self, why: str, attempt: "_Attempt", step: RampStep | None = None) -> ChangeResult:
        """Change the rules, with retries for `RETRY_FOR_S` seconds while the fleet fails over."""
        clock = self._context.clock
        ends_s = clock.monotonic() + RETRY_FOR_S
        while True:
            try:
                return self._context.change(why, attempt, step)
            except RETRYABLE as failure:
                if not attempt.may_be_retried(failure) or clock.monotonic() >= ends_s:
                    raise
                self._context.progress.note(f"trying again: {failure}")
            self._context.stop.check()
            clock.sleep(MEASURE_EVERY_S)

    def _note_tiers(self) -> None:
        rule = self.revision.rules.rule(self._ramp.rule_id)
        if rule is not None and rule.definition.tiers and self._ramp.watches(Signal.DENIED):
            self._context.progress.note(_TIERS)

    def _revision_left(self) -> str:
        assert self._share is not None
        return f"revision {self.revision.number} with the canary at {percent(self._share)} % stays in force"

    def _rollback_hint(self) -> str:
        assert self._before is not None
        return f"undo the ramp with `rlctl rules rollback --to {self._before.number}`"


class _Attempt:
    """An edit that may be retried, as long as the ramp's own revision is in force.

    If the reply to a change was lost, the change may be in force already. A retry then changes nothing.
    """

    def __init__(self, make: RulesEdit, own: Version | None) -> None:
        self.before: Revision | None = None
        self._make = make
        self._own = own
        self._is_first = own is None
        self._made: RuleSet | Revision | None = None

    def __call__(self, now: RulesInForce) -> RuleSet | Revision:
        if self._made is not None and self._is_stored(now):
            return now.required()
        if self._own is not None and now.version != self._own:
            raise RulesReplaced
        made = self._make(now)
        self.before, self._own, self._made = now.revision, now.version, made
        return made

    def may_be_retried(self, failure: Exception) -> bool:
        """Whether to retry. The first step is not retried if it was refused, or failed before its edit ran."""
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
    """The shares of a ramp; ValueError if they do not rise."""
    if any(later <= earlier for earlier, later in pairwise(shares)):
        raise ValueError("the steps of a ramp must rise, such as 10,50,100")
    return tuple(shares)


def with_first_step(share: int, shares: tuple[int, ...]) -> tuple[int, ...]:
    """The shares of a ramp that begins with `share`; ValueError if `share` is above the first of `shares`."""
    if share > shares[0]:
        raise ValueError(f"{percent(share)} % is more than the first step of the ramp, {percent(shares[0])} %")
    return shares if share == shares[0] else (share, *shares)


def why_step(rule_id: str, share: int) -> str:
    """The text of a canary's step in the history."""
    return f"canary {rule_id} {percent(share)} %"
