"""Failure policies: what a limiter decides while Redis does not answer. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from rlctl.errors import UsageFault
from rlctl.limiter.core.local import LocalLimits
from rlctl.limits.algorithms import Algorithm
from rlctl.limits.decision import Decision, Quota, Reason, Source, fallback_reason
from rlctl.limits.failures import Cause

_CHOICES = "open, closed, local or local:N with N instances of the service"
_SOONEST_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackRequest:
    """A request that Redis did not answer, for the failure policy to decide.

    `cost` is 0 for a peek. `verb` and `request_id` are set for leases only: acquire, renew, release or peek.
    `retry_in_ms` is the time in milliseconds until the limiter may call the node again; 0 means now.
    """

    algorithm: Algorithm
    key: bytes
    quota: Quota
    cost: int = 1
    verb: str | None = None
    request_id: str = ""
    retry_in_ms: int = 0


class Policy(Protocol):
    """Decides requests that Redis did not answer within the budget.

    To use your own policy, pass an object with this method as `policy`.
    """

    def decide(self, request: FallbackRequest, cause: Cause) -> Decision:
        """Decide a request. Must not block, and may run in many threads at once.

        `cause` says why Redis did not decide. An exception that this method raises reaches the caller of the limiter.
        """


class _Fixed:
    """Policy `open` or `closed`."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def decide(self, request: FallbackRequest, cause: Cause) -> Decision:
        """Deny under `closed`; admit under `open`, unless the request can never be admitted."""
        allowed, retry_after_ms, reason = self.source is Source.OPEN, 0, fallback_reason(cause)
        if is_impossible(request):
            allowed, retry_after_ms, reason = False, -1, Reason.IMPOSSIBLE
        elif not allowed:
            retry_after_ms = max(_SOONEST_MS, request.retry_in_ms)
        return Decision(
            allowed=allowed,
            limit=request.algorithm.limit,
            remaining=None,
            retry_after_ms=retry_after_ms,
            reset_after_ms=None,
            reason=reason,
            source=self.source,
            cause=cause,
            quota=request.quota,
        )

    def __repr__(self) -> str:
        return f"Policy({self.source.value})"


def without_rule(policy: Policy) -> Decision:
    """Return the decision for an unknown rule: `closed` denies; other policies admit, because the limit is unknown."""
    denies = isinstance(policy, _Fixed) and policy.source is Source.CLOSED
    return Decision(
        allowed=not denies,
        limit=None,
        remaining=None,
        retry_after_ms=_SOONEST_MS if denies else 0,
        reset_after_ms=None,
        reason=Reason.NO_RULE,
        source=Source.CLOSED if denies else Source.OPEN,
        cause=Cause.NO_RULE,
    )


class LocalPolicy:
    """Failure policy that counts in this process: each of `instances` processes enforces an equal share of each limit.

    A share is rounded down and at least 1: for 4 instances, limit 10 becomes 2 each and limit 3 becomes 1 each. At most
    `max_keys` keys are kept; the least recently used is dropped first. Fixed, sliding and rolling windows become
    windows that start with their first call; token buckets and leases work as in Redis. The policy starts without the
    counts of Redis, and does not send its own counts to Redis later. `clock_ns` replaces the monotonic clock in tests.

    Example: `Limiter.connect(env, policy=LocalPolicy(instances=4))`, which is the same as `policy="local:4"`.
    Raises UsageFault if `instances` or `max_keys` is below 1.
    """

    def __init__(
        self, instances: int = 1, *, max_keys: int = 10_000, clock_ns: Callable[[], int] | None = None
    ) -> None:
        if instances < 1 or max_keys < 1:
            raise UsageFault("a local policy needs instances >= 1 and max_keys >= 1")
        self._instances = instances
        self._limits = LocalLimits(instances, max_keys, clock_ns)

    def decide(self, request: FallbackRequest, cause: Cause) -> Decision:
        """Count the request against this process's share."""
        limits, algorithm = self._limits, request.algorithm
        if request.verb is not None:
            answer = limits.lease(algorithm, request.key, request.verb, request.request_id)
        elif is_impossible(request):
            answer = limits.impossible(algorithm, request.key)
        else:
            answer = limits.count(algorithm, request.key, request.cost)
        return Decision(
            allowed=answer.reason is Reason.OK,
            limit=answer.limit,
            remaining=answer.remaining,
            retry_after_ms=answer.retry_after_ms,
            reset_after_ms=answer.reset_after_ms,
            reason=answer.reason,
            source=Source.LOCAL,
            cause=cause,
            quota=request.quota,
        )

    def drop_lease(self, request: FallbackRequest) -> None:
        """Drop the lease of this request, if this process granted one."""
        self._limits.lease(request.algorithm, request.key, "release", request.request_id)

    def refund(self, request: FallbackRequest) -> bool:
        """Refund the charge of this request; False if its key was dropped."""
        return self._limits.refund(request.algorithm, request.key, request.cost)

    def __repr__(self) -> str:
        return f"Policy(local:{self._instances})"


def is_impossible(request: FallbackRequest) -> bool:
    """Return whether a request can never be admitted: the limit is 0, or the cost is above the limit."""
    if request.verb is not None:
        return request.algorithm.limit == 0 and request.verb != "release"
    return request.algorithm.limit == 0 or request.cost > request.algorithm.limit


def read_policy(text: str | Policy) -> Policy:
    """Return the policy with this name (`open`, `closed`, `local`, `local:N`), or the given Policy object."""
    if not isinstance(text, str):
        return text
    if text in {Source.OPEN, Source.CLOSED}:
        return _Fixed(Source(text))
    name, colon, count = text.partition(":")
    if name != Source.LOCAL or (colon and not (count.isascii() and count.isdigit())):
        raise UsageFault(f"unknown failure policy {text!r}", hint=f"use one of {_CHOICES}")
    return LocalPolicy(int(count) if colon else 1)
