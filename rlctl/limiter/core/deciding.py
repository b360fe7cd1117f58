"""The decision logic that the limiters for threads and asyncio share: calls, replies, failure policy."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from rlctl.assets import asset_folder, read_asset
from rlctl.limiter.core.calls import ConcurrentCall, CostedCall, script_for
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.policy import FallbackRequest, LocalPolicy, Policy, read_policy, without_rule
from rlctl.limiter.core.rulebook import BoundCall, PreparedRule, RuleBook
from rlctl.limits.algorithms import Algorithm, Concurrent, Costed
from rlctl.limits.decision import REASONS, Decision, Reason, Source
from rlctl.limits.failures import BrokenState, Cause, Failure, InvalidLimit
from rlctl.limits.keys import tag_of
from rlctl.limits.release import Release
from rlctl.limits.shipped import shipped_release

# A service may use any number of limits, so the cache of packed calls is emptied when it reaches this size.
_MOST_CALLS = 4096

# The decision for a request that no rule concerns: the request is admitted.
_UNMATCHED = Decision(
    allowed=True,
    limit=None,
    remaining=None,
    retry_after_ms=0,
    reset_after_ms=None,
    reason=Reason.UNMATCHED,
    source=Source.RULES,
)
PolicyChoice = str | Policy | None

_Key = TypeVar("_Key")
_Known = TypeVar("_Known")


class Core:
    """The part of a limiter without I/O: it prepares calls, parses replies and applies the failure policy."""

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
        """Return the packed calls of an algorithm with a cost, for this rule id."""
        call = self._costed.get((algorithm, rule_id))
        if call is None:
            _check_kind(algorithm, has_leases=False)
            call = CostedCall(script_for(self.release, algorithm), algorithm, rule_id, service=self._service)
            _keep(self._costed, (algorithm, rule_id), call)
        return call

    def concurrent(self, algorithm: Concurrent, rule_id: str) -> ConcurrentCall:
        """Return the packed calls of a concurrent limit, for this rule id."""
        call = self._concurrent.get((algorithm, rule_id))
        if call is None:
            _check_kind(algorithm, has_leases=True)
            call = ConcurrentCall(script_for(self.release, algorithm), algorithm, rule_id, service=self._service)
            _keep(self._concurrent, (algorithm, rule_id), call)
        return call

    def bind(
        self,
        rule: Algorithm | str | PreparedRule,
        identity: str | Mapping[str, str],
        rule_id: str,
        tier: str | None,
        policy: PolicyChoice,
    ) -> BoundCall | Decision:
        """Return the call that decides a request; a Decision if the rule is unknown or does not concern the request."""
        if isinstance(rule, PreparedRule):
            return rule.bind(identity, tier) or self._counted(_UNMATCHED)
        if not isinstance(rule, str):
            if not isinstance(identity, str):
                raise InvalidLimit("dimensions belong to a rule of the fleet; an algorithm needs one identity as text")
            call = self.concurrent(rule, rule_id) if isinstance(rule, Concurrent) else self.costed(rule, rule_id)
            return BoundCall(call, tag_of(identity))
        if self.book is None:
            raise InvalidLimit(f"rule {rule!r}: connect with rules=True to decide by the fleet's rules")
        prepared = self.book.rule(rule)
        if prepared is None:
            self.book.rule_missing(rule)
            return self._counted(without_rule(self._policy_for(policy)))
        return prepared.bind(identity, tier) or self._counted(_UNMATCHED)

    def costed_rules(self) -> tuple[PreparedRule | str, ...]:
        """Return the rules that take a cost, in the file's order.

        Before the limiter has read a revision of the rules, returns only the name `*`. No rule has this name, so the
        failure policy decides.
        """
        if self.book is None:
            raise InvalidLimit("connect with rules=True to decide by the fleet's rules")
        return self.book.costed_rules()

    def bind_all(self, identity: Mapping[str, str], tier: str | None) -> tuple[BoundCall, ...] | Decision:
        """Return the calls of all rules that concern a request.

        Before the limiter has read a revision of the rules, returns the decision of the failure policy instead.
        """
        found = [self.bind(rule, identity, "default", tier, None) for rule in self.costed_rules()]
        unread = next((one for one in found if isinstance(one, Decision) and one.source is not Source.RULES), None)
        return unread or tuple(one for one in found if isinstance(one, BoundCall))

    def count_reply(self, bound: BoundCall, reply: object) -> Decision:
        """Parse a script's reply and count the decision; Failure if the reply is not from a limiter script."""
        return self.count(bound, self.parse_reply(bound, reply))

    def count(self, bound: BoundCall, decision: Decision) -> Decision:
        """Count a decision of Redis, and return it. For a rule in shadow, the returned decision admits."""
        self.counters.decided((Source.REDIS, decision.reason))
        return self._in_shadow(decision) if bound.shadow else decision

    def parse_reply(self, bound: BoundCall, reply: object) -> Decision:
        """Parse a script's reply without counting the decision; Failure if the reply is not from a limiter script."""
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
                quota=bound.call.quota,
            )
        except (ValueError, IndexError, TypeError):
            raise Failure(Cause.ERROR, f"not the reply of a limiter script: {reply!r:.200}") from None

    def refund(self, bound: BoundCall, request: FallbackRequest) -> bool:
        """Refund a charge that the local policy counted; False if another policy decided or the count was dropped."""
        chosen = self._policy_for(bound.policy)
        return isinstance(chosen, LocalPolicy) and chosen.refund(request)

    def fall_back(
        self, bound: BoundCall, request: FallbackRequest, trouble: Failure | BrokenState, policy: PolicyChoice
    ) -> Decision:
        """Return the failure policy's decision.

        If `trouble` is a BrokenState and the rule is not in shadow, raises `trouble` instead.
        """
        if isinstance(trouble, BrokenState) and not bound.shadow:
            raise trouble
        failure = trouble if isinstance(trouble, Failure) else Failure(Cause.ERROR, trouble.message)
        self.counters.failed(failure)
        decision = self._counted(
            self._policy_for(policy if policy is not None else bound.policy).decide(request, failure.cause)
        )
        return self._in_shadow(decision) if bound.shadow else decision

    def lease_returned(self, bound: BoundCall, request: FallbackRequest, policy: PolicyChoice) -> None:
        """Drop the lease that the local policy may have granted for this request.

        The caller has already released the lease of this request in Redis.
        """
        chosen = self._policy_for(policy if policy is not None else bound.policy)
        if isinstance(chosen, LocalPolicy):
            chosen.drop_lease(request)

    def _in_shadow(self, decision: Decision) -> Decision:
        if not decision.allowed and decision.source is Source.REDIS:
            self.counters.shadow_denied(decision.quota.name)
        return replace(decision, allowed=True, retry_after_ms=0, shadow=True)

    def _counted(self, decision: Decision) -> Decision:
        self.counters.decided((decision.source, decision.reason))
        return decision

    def _policy_for(self, policy: PolicyChoice) -> Policy:
        if policy is None:
            return self._policy
        if policy == Source.LOCAL and isinstance(self._policy, LocalPolicy):
            # A rule specifies only `local`; the number of instances comes from the limiter's policy.
            return self._policy
        if not isinstance(policy, str):
            return policy
        known = self._policies.get(policy)
        # Keep one policy for each text: a new local policy would start without the counts of the old one.
        return known if known is not None else self._policies.setdefault(policy, read_policy(policy))


def costed(bound: BoundCall) -> CostedCall:
    """Return the call of a rule with a cost; InvalidLimit for a concurrent limit."""
    if isinstance(bound.call, ConcurrentCall):
        raise InvalidLimit("a concurrent limit needs `acquire`, not `decide`")
    return bound.call


def leased(bound: BoundCall) -> ConcurrentCall:
    """Return the call of a concurrent limit; InvalidLimit for a rule with a cost."""
    if isinstance(bound.call, CostedCall):
        raise InvalidLimit(f"{bound.call.algorithm.name} has no leases: call `decide`")
    return bound.call


def _number(value: object) -> int:
    if type(value) is int:
        return value
    raise TypeError


def _shipped_release() -> Release:
    return shipped_release(str(asset_folder("lua")), partial(read_asset, "lua"))


def _check_kind(algorithm: Algorithm, *, has_leases: bool) -> None:
    if isinstance(algorithm, Concurrent) is not has_leases:
        raise InvalidLimit(
            f"{algorithm.name} has no leases: call `decide`"
            if has_leases
            else "a concurrent limit needs `acquire`, not `decide`"
        )


def _keep(calls: dict[_Key, _Known], key: _Key, call: _Known) -> None:
    if len(calls) >= _MOST_CALLS:
        calls.clear()
    calls[key] = call
