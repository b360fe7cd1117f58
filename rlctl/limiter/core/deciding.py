"""What the limiter for threads and the one for asyncio share: packing calls, reading replies, falling back."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from rlctl.assets import asset_folder, read_asset
from rlctl.limiter.core.calls import ConcurrentCall, CostedCall, released
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.policy import LocalPolicy, Policy, Request, read_policy, without_rule
from rlctl.limiter.core.rulebook import Aim, RuleBook, Ruled
from rlctl.limits.algorithms import Algorithm, Concurrent, Costed
from rlctl.limits.decision import REASONS, Decision, Reason, Source
from rlctl.limits.failures import BrokenState, Cause, Failure, InvalidLimit
from rlctl.limits.keys import tag_of
from rlctl.limits.release import Release
from rlctl.limits.shipped import shipped_release

# Rules change while a service runs; what was packed for old ones is thrown away with all the rest.
_MOST_CALLS = 4096

# What no rule concerns is nobody's to refuse.
_UNMATCHED = Decision(
    allowed=True,
    limit=None,
    remaining=None,
    retry_after_ms=0,
    reset_after_ms=None,
    reason=Reason.UNMATCHED,
    source=Source.RULES,
)
Asked = str | Policy | None

_Key = TypeVar("_Key")
_Known = TypeVar("_Known")


class Core:
    """Everything of a limiter that talks to nobody."""

    def __init__(
        self,
        release: Release | None,
        policy: str | Policy,
        counters: Counters,
        book: RuleBook | None = None,
        service: str | None = None,
    ) -> None:
        self.counters = counters
        self.book = book
        self.release = release or _shipped_release()
        self._service = service
        self._policy = read_policy(policy)
        self._policies: dict[str, Policy] = {}
        self._costed: dict[tuple[Costed, str], CostedCall] = {}
        self._concurrent: dict[tuple[Concurrent, str], ConcurrentCall] = {}

    def costed(self, algorithm: Costed, rule_id: str) -> CostedCall:
        """The packed calls of a rule."""
        call = self._costed.get((algorithm, rule_id))
        if call is None:
            _check_kind(algorithm, has_leases=False)
            call = CostedCall(released(self.release, algorithm), algorithm, rule_id, service=self._service)
            _keep(self._costed, (algorithm, rule_id), call)
        return call

    def concurrent(self, algorithm: Concurrent, rule_id: str) -> ConcurrentCall:
        """The packed calls of a concurrent rule."""
        call = self._concurrent.get((algorithm, rule_id))
        if call is None:
            _check_kind(algorithm, has_leases=True)
            call = ConcurrentCall(released(self.release, algorithm), algorithm, rule_id, service=self._service)
            _keep(self._concurrent, (algorithm, rule_id), call)
        return call

    def aim(
        self, rule: Algorithm | str | Ruled, who: str | Mapping[str, str], rule_id: str, tier: str | None, policy: Asked
    ) -> Aim | Decision:
        """What a decision is about; the decision itself where there is no rule to decide by."""
        if isinstance(rule, Ruled):
            return rule.aim(who, tier) or self._decided(_UNMATCHED)
        if not isinstance(rule, str):
            if not isinstance(who, str):
                raise InvalidLimit("dimensions belong to a rule of the fleet; an algorithm counts one identity")
            call = self.concurrent(rule, rule_id) if isinstance(rule, Concurrent) else self.costed(rule, rule_id)
            return Aim(call, tag_of(who))
        if self.book is None:
            raise InvalidLimit(f"rule {rule!r}: connect with rules=True to decide by the fleet's rules")
        ruled = self.book.rule(rule)
        if ruled is None:
            self.book.missed(rule)
            return self._decided(without_rule(self._chosen(policy)))
        return ruled.aim(who, tier) or self._decided(_UNMATCHED)

    def decidable(self) -> tuple[Ruled | str, ...]:
        """The rules that take a cost, in order; a name that nobody has where no rules were ever read."""
        if self.book is None:
            raise InvalidLimit("connect with rules=True to decide by the fleet's rules")
        return self.book.decidable()

    def aims(self, who: Mapping[str, str], tier: str | None) -> tuple[Aim, ...] | Decision:
        """What each rule that concerns a request counts; the policy's decision where no rules were ever read."""
        found = [self.aim(rule, who, "default", tier, None) for rule in self.decidable()]
        unread = next((one for one in found if isinstance(one, Decision) and one.source is not Source.RULES), None)
        return unread or tuple(one for one in found if isinstance(one, Aim))

    def answered(self, aim: Aim, reply: object) -> Decision:
        """A script's reply as a decision; Failure where it is none."""
        return self.settled(aim, self.read(aim, reply))

    def settled(self, aim: Aim, decision: Decision) -> Decision:
        """Count a decision of Redis; one in shadow becomes an admission."""
        self.counters.decided((Source.REDIS, decision.reason))
        return self._in_shadow(decision) if aim.shadow else decision

    def read(self, aim: Aim, reply: object) -> Decision:
        """A script's reply as it stands, not counted; Failure where it is none."""
        try:
            allowed, limit, remaining, retry_after_ms, reset_after_ms, reason = map(_number, reply)  # type: ignore[call-overload]
            return Decision(
                allowed=allowed == 1,
                limit=limit,
                remaining=remaining,
                retry_after_ms=retry_after_ms,
                reset_after_ms=reset_after_ms,
                reason=REASONS[reason],
                source=Source.REDIS,
                quota=aim.call.quota,
            )
        except (ValueError, IndexError, TypeError):
            raise Failure(Cause.ERROR, f"not the reply of a limiter script: {reply!r:.200}") from None

    def refund(self, aim: Aim, request: Request) -> bool:
        """Take back what the rule's local policy counted; False where another policy decided."""
        chosen = self._chosen(aim.policy)
        return isinstance(chosen, LocalPolicy) and chosen.refund(request)

    def fall_back(self, aim: Aim, request: Request, trouble: Failure | BrokenState, policy: Asked) -> Decision:
        """What the policy answers in the place of Redis; a broken key is raised, but a shadow stops nothing."""
        if isinstance(trouble, BrokenState) and not aim.shadow:
            raise trouble
        failure = trouble if isinstance(trouble, Failure) else Failure(Cause.ERROR, trouble.message)
        self.counters.failed(failure)
        decision = self._decided(
            self._chosen(policy if policy is not None else aim.policy).decide(request, failure.cause)
        )
        return self._in_shadow(decision) if aim.shadow else decision

    def released(self, aim: Aim, request: Request, policy: Asked) -> None:
        """Redis took a lease back; one that was given here while it was away goes too."""
        chosen = self._chosen(policy if policy is not None else aim.policy)
        if isinstance(chosen, LocalPolicy):
            chosen.take_back(request)

    def _in_shadow(self, decision: Decision) -> Decision:
        if not decision.allowed and decision.source is Source.REDIS:
            self.counters.shadow_denied(decision.quota.name)
        return replace(decision, allowed=True, retry_after_ms=0, shadow=True)

    def _decided(self, decision: Decision) -> Decision:
        self.counters.decided((decision.source, decision.reason))
        return decision

    def _chosen(self, policy: Asked) -> Policy:
        if policy is None:
            return self._policy
        if policy == Source.LOCAL and isinstance(self._policy, LocalPolicy):
            # A rule does not know how many instances there are; whoever made the limiter does.
            return self._policy
        if not isinstance(policy, str):
            return policy
        known = self._policies.get(policy)
        # The same text must mean the same object: a local policy remembers what it admitted.
        return known if known is not None else self._policies.setdefault(policy, read_policy(policy))


def costed(aim: Aim) -> CostedCall:
    """The call of something that is decided."""
    if isinstance(aim.call, ConcurrentCall):
        raise InvalidLimit("a concurrent limit is acquired, not decided")
    return aim.call


def leased(aim: Aim) -> ConcurrentCall:
    """The call of something that is acquired."""
    if isinstance(aim.call, CostedCall):
        raise InvalidLimit(f"{aim.call.algorithm.name} has no leases: decide it")
    return aim.call


def _number(value: object) -> int:
    if type(value) is int:
        return value
    raise TypeError


def _shipped_release() -> Release:
    return shipped_release(str(asset_folder("lua")), partial(read_asset, "lua"))


def _check_kind(algorithm: Algorithm, *, has_leases: bool) -> None:
    if isinstance(algorithm, Concurrent) is not has_leases:
        raise InvalidLimit(
            f"{algorithm.name} has no leases: decide it"
            if has_leases
            else "a concurrent limit is acquired, not decided"
        )


def _keep(calls: dict[_Key, _Known], key: _Key, call: _Known) -> None:
    if len(calls) >= _MOST_CALLS:
        calls.clear()
    calls[key] = call
