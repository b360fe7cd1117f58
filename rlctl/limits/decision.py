"""The decision of a limiter, and the response headers for it. Pure."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from rlctl.limits.failures import Cause

# The largest integer of a structured field (RFC 9651, section 3.3.1).
_FIELD_MAX = 999_999_999_999_999
# A quota usually has one or two limits: the rule's limit, and the share of a process under policy local:N.
_MOST_LIMITS = 8
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


class Reason(StrEnum):
    """The reason of a decision. Scripts return the first five as the numbers 0 to 4."""

    OK = "ok"
    OVER_LIMIT = "over_limit"
    MIN_INTERVAL = "min_interval"
    IMPOSSIBLE = "impossible"
    NO_LEASE = "no_lease"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    NO_SCRIPT = "no_script"
    BREAKER_OPEN = "breaker_open"
    NO_RULE = "no_rule"
    UNMATCHED = "unmatched"


REASONS = (Reason.OK, Reason.OVER_LIMIT, Reason.MIN_INTERVAL, Reason.IMPOSSIBLE, Reason.NO_LEASE)
_FALLBACK_REASONS = {
    Cause.TIMEOUT: Reason.TIMEOUT,
    Cause.NO_SCRIPT: Reason.NO_SCRIPT,
    Cause.BREAKER_OPEN: Reason.BREAKER_OPEN,
    Cause.NO_RULE: Reason.NO_RULE,
}


def fallback_reason(cause: Cause) -> Reason:
    """The reason of a decision by a failure policy."""
    return _FALLBACK_REASONS.get(cause, Reason.UNAVAILABLE)


class Source(StrEnum):
    """The source of a decision: Redis, a failure policy, or the rule set if no rule concerns the request."""

    REDIS = "redis"
    LOCAL = "local"
    OPEN = "open"
    CLOSED = "closed"
    RULES = "rules"


class _HeaderParts(NamedTuple):
    """The parts of the headers that depend only on the quota and the limit."""

    limit: str
    policy: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The quota of a rule as the headers describe it. If `window_ms` or `unit` is None, the headers omit it."""

    name: str = "default"
    window_ms: int | None = None
    unit: str | None = None
    _header_parts: dict[int, _HeaderParts] = field(default_factory=dict, init=False, repr=False, compare=False)

    def header_parts(self, limit: int) -> _HeaderParts:
        """The constant parts of the headers, built once for each limit."""
        known = self._header_parts.get(limit)
        if known is None:
            if len(self._header_parts) >= _MOST_LIMITS:
                self._header_parts.clear()
            known = self._header_parts[limit] = self._build(limit)
        return known

    def _build(self, limit: int) -> _HeaderParts:
        name = _quoted(self.name)
        policy = f"{name};q={_integer(limit)}"
        if self.unit is not None:
            policy += f";qu={_quoted(self.unit)}"
        if self.window_ms is not None:
            policy += f";w={_integer(_seconds(self.window_ms))}"
        return _HeaderParts(str(max(0, limit)), policy, f"{name};r=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision about one request.

    `retry_after_ms` is 0 when allowed and -1 when waiting does not help. `limit`, `remaining` and `reset_after_ms`
    are None when they are unknown: policies `open` and `closed` know at most the limit. `cause` is the reason why Redis
    did not decide; None if Redis decided. A `shadow` decision always admits, with a `retry_after_ms` of 0; its other
    numbers and its reason are those of the rule's real decision.
    """

    allowed: bool
    limit: int | None
    remaining: int | None
    retry_after_ms: int
    reset_after_ms: int | None
    reason: Reason
    source: Source
    cause: Cause | None = None
    quota: Quota = Quota()
    shadow: bool = False

    def headers(self) -> dict[str, str]:
        """Return the response headers.

        X-RateLimit-Reset is the number of seconds from now, rounded up, so that client and server need no common clock.
        RateLimit and RateLimit-Policy follow draft-ietf-httpapi-ratelimit-headers-10. Retry-After is present on a
        denial if waiting helps. Headers of unknown values are omitted; a shadow decision has no headers.
        """
        retry_s = self.retry_after_s
        if self.limit is None or self.shadow:
            return {} if retry_s is None else {"Retry-After": str(retry_s)}
        limit, policy, state = self.quota.header_parts(self.limit)
        reset_s = None if self.reset_after_ms is None else _seconds(self.reset_after_ms)
        fields = {"X-RateLimit-Limit": limit}
        if self.remaining is not None:
            fields["X-RateLimit-Remaining"] = str(max(0, self.remaining))
        if reset_s is not None:
            fields["X-RateLimit-Reset"] = str(reset_s)
        if retry_s is not None:
            fields["Retry-After"] = str(retry_s)
        fields["RateLimit-Policy"] = policy
        if self.remaining is not None:
            # The draft requires `t` to be the same instant as Retry-After.
            wait_s = reset_s if retry_s is None else retry_s
            left = f"{state}{_integer(self.remaining)}"
            fields["RateLimit"] = left if wait_s is None else f"{left};t={_integer(wait_s)}"
        return fields

    @property
    def retry_after_s(self) -> int | None:
        """Whole seconds to wait after a denial, at least 1; None when allowed or when waiting does not help."""
        if self.allowed or self.retry_after_ms < 0:
            return None
        return _seconds(self.retry_after_ms) or 1


def _seconds(ms: int) -> int:
    return -(-ms // 1000) if ms > 0 else 0


def _integer(value: int) -> int:
    return value if 0 <= value <= _FIELD_MAX else min(_FIELD_MAX, max(0, value))


def _quoted(text: str) -> str:
    plain = _UNPRINTABLE.sub("?", text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'
