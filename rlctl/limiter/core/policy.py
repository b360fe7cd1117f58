"""What a limiter answers when Redis cannot: admit, deny, or count in this process. Pure."""

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
class Request:
    """A call that Redis did not answer; `retry_in_ms` is when it will be asked again."""

    algorithm: Algorithm
    key: bytes
    quota: Quota
    cost: int = 1
    verb: str | None = None
    request_id: str = ""
    retry_in_ms: int = 0


class Policy(Protocol):
    """Answers in the place of Redis."""

    def decide(self, request: Request, cause: Cause) -> Decision:
        """The answer; it takes no time to speak of."""


class _Fixed:
    """Always the same answer, but for what no server would ever admit."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def decide(self, request: Request, cause: Cause) -> Decision:
        """Admit or deny; a limit of 0 is a switch that stays off whoever answers."""
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
    """What a policy answers where no rule is known: without a limit there is nothing to count, only yes or no."""
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
    """Counts in this process: each of `instances` gets its share of every limit, and at least 1.

    Whole shares: 10 among 4 is 2 each, 3 among 4 is 1 each. At most `max_keys` identities are remembered, the
    longest unused forgotten first. Rolling, sliding and fixed windows all become a window that starts with its
    first call; buckets stay buckets; leases stay leases.
    """

    def __init__(
        self, instances: int = 1, *, max_keys: int = 10_000, clock_ns: Callable[[], int] | None = None
    ) -> None:
        if instances < 1 or max_keys < 1:
            raise UsageFault("a local policy wants 1 or more instances and keys")
        self._instances = instances
        self._limits = LocalLimits(instances, max_keys, clock_ns)

    def decide(self, request: Request, cause: Cause) -> Decision:
        """Count it here."""
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

    def take_back(self, request: Request) -> None:
        """Forget a lease that was given here, if there is one."""
        self._limits.lease(request.algorithm, request.key, "release", request.request_id)

    def refund(self, request: Request) -> bool:
        """Take back one count of this request; False where its key was forgotten meanwhile."""
        return self._limits.refund(request.algorithm, request.key, request.cost)

    def __repr__(self) -> str:
        return f"Policy(local:{self._instances})"


def is_impossible(request: Request) -> bool:
    """Whether no server would admit this at any time."""
    if request.verb is not None:
        return request.algorithm.limit == 0 and request.verb != "release"
    return request.algorithm.limit == 0 or request.cost > request.algorithm.limit


def read_policy(text: str | Policy) -> Policy:
    """A policy from its name in a rule, or as it is."""
    if not isinstance(text, str):
        return text
    if text in {Source.OPEN, Source.CLOSED}:
        return _Fixed(Source(text))
    name, colon, count = text.partition(":")
    if name != Source.LOCAL or (colon and not (count.isascii() and count.isdigit())):
        raise UsageFault(f"failure policy {text!r}", hint=f"it is one of {_CHOICES}")
    return LocalPolicy(int(count) if colon else 1)
