"""The time to build the response headers of a decision, admitted and denied."""

from dataclasses import dataclass
from timeit import repeat

from rlctl.limiter import Decision, Quota, Reason, Source

GOAL_US = 3.0
CALLS = 20_000
REPEATS = 7
QUOTA = Quota(name="api", window_ms=60_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """Microseconds for each answer, the best of all repeats."""

    admitted_us: float
    denied_us: float

    @property
    def is_met(self) -> bool:
        return max(self.admitted_us, self.denied_us) < GOAL_US

    def to_json(self) -> dict[str, object]:
        return {
            "admitted_us": self.admitted_us,
            "denied_us": self.denied_us,
            "goal_us": GOAL_US,
            "met": self.is_met,
        }

    def __str__(self) -> str:
        return (
            f"headers(): {self.admitted_us:.1f} us admitted, {self.denied_us:.1f} us denied "
            f"(goal below {GOAL_US:g} us: {'met' if self.is_met else 'MISSED'})"
        )


def measure_headers() -> Headers:
    return Headers(admitted_us=_headers_us(allowed=True), denied_us=_headers_us(allowed=False))


def _headers_us(*, allowed: bool) -> float:
    decision = Decision(
        allowed=allowed,
        limit=1000,
        remaining=999 if allowed else 0,
        retry_after_ms=0 if allowed else 900,
        reset_after_ms=59_000,
        reason=Reason.OK if allowed else Reason.OVER_LIMIT,
        source=Source.REDIS,
        quota=QUOTA,
    )
    return min(repeat(decision.headers, number=CALLS, repeat=REPEATS)) / CALLS * 1e6
