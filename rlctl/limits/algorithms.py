"""The parameters of the seven algorithms. Parameters or costs that a script would refuse raise InvalidLimit. Pure."""

from dataclasses import dataclass
from math import gcd
from typing import ClassVar

from rlctl.limits.failures import InvalidLimit

# Scripts calculate in doubles, which are exact for integers below 2^53.
EXACT = 2**53
# Scripts add parameters to the current time in microseconds. The checks assume a time in the year 2100, the latest
# supported.
_LATEST_US = 4_102_444_800_000_000
# One call may add `limit` entries to the log. A higher limit would let a call block the shard.
_LOG_LIMIT = 10_000
_RING_LIMIT = 1_000_000
_RING_WINDOW = 2**32


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """A bucket of `capacity` tokens that refills `rate` tokens every `period_ms`."""

    name: ClassVar[str] = "token_bucket"

    capacity: int
    rate: int
    period_ms: int

    def __post_init__(self) -> None:
        _check_rate(self.name, self.rate, self.period_ms, capacity=self.capacity)
        period_us = self.period_ms * 1000
        divisor = gcd(self.rate, period_us)
        _exact(self.name, self.capacity * (period_us // divisor) + self.rate // divisor)

    @property
    def limit(self) -> int:
        """The largest cost of a call that can be admitted."""
        return self.capacity

    @property
    def key_window_ms(self) -> int | None:
        return None

    @property
    def quota_window_ms(self) -> int:
        """Milliseconds until an empty bucket is full again."""
        return -(-self.capacity * self.period_ms // self.rate)

    def check_cost(self, cost: int) -> None:
        _whole(cost=cost)
        _exact(self.name, cost)

    def arguments(self) -> dict[str, int]:
        return {"capacity": self.capacity, **_lowest(self.rate, self.period_ms)}


@dataclass(frozen=True, slots=True)
class Gcra:
    """The generic cell rate algorithm: `burst` units at once, then one every `period_ms / rate`."""

    name: ClassVar[str] = "gcra"

    burst: int
    rate: int
    period_ms: int

    def __post_init__(self) -> None:
        _check_rate(self.name, self.rate, self.period_ms, burst=self.burst)
        _exact(self.name, _LATEST_US + 2 * self.burst * self._spacing_us())

    @property
    def limit(self) -> int:
        """The largest cost of a call that can be admitted."""
        return self.burst

    @property
    def key_window_ms(self) -> int | None:
        return None

    @property
    def quota_window_ms(self) -> int:
        """Milliseconds until a fully used burst is available again."""
        return -(-self.burst * self._spacing_us() // 1000)

    def check_cost(self, cost: int) -> None:
        _whole(cost=cost)
        _exact(self.name, cost)

    def arguments(self) -> dict[str, int]:
        return {"burst": self.burst, **_lowest(self.rate, self.period_ms)}

    def _spacing_us(self) -> int:
        return -(-self.period_ms * 1000 // self.rate)


@dataclass(frozen=True, slots=True)
class _Window:
    """`limit` units in a window of `window_ms`."""

    name: ClassVar[str]

    limit: int
    window_ms: int

    def __post_init__(self) -> None:
        _whole(limit=self.limit, window_ms=self.window_ms)
        if self.window_ms == 0:
            raise InvalidLimit(f"{self.name}: window_ms must be at least 1")
        _exact(self.name, self.limit, _LATEST_US + 2 * self.window_ms * 1000)

    @property
    def key_window_ms(self) -> int | None:
        """The window length, which is part of the key, so that a rule with a new window counts on new keys."""
        return self.window_ms

    @property
    def quota_window_ms(self) -> int:
        return self.window_ms

    def check_cost(self, cost: int) -> None:
        _whole(cost=cost)
        _exact(self.name, self.limit + cost)

    def arguments(self) -> dict[str, int]:
        return {"limit": self.limit, "window_ms": self.window_ms}


@dataclass(frozen=True, slots=True)
class FixedWindow(_Window):
    """`limit` units in each window. The windows are aligned to the epoch."""

    name: ClassVar[str] = "fixed_window"


@dataclass(frozen=True, slots=True)
class SlidingCounter(_Window):
    """`limit` units in a sliding window, approximated by weighing the count of the previous window."""

    name: ClassVar[str] = "sliding_counter"

    def __post_init__(self) -> None:
        # @dataclass(slots=True) creates a new class, so super() without arguments would refer to the old one.
        _Window.__post_init__(self)
        _exact(self.name, 3 * self.limit, _LATEST_US + 3 * self.window_ms * 1000)

    def check_cost(self, cost: int) -> None:
        _whole(cost=cost)
        _exact(self.name, cost)


@dataclass(frozen=True, slots=True)
class _Rolling(_Window):
    """`limit` units in any trailing window, with at least `min_interval_ms` between admissions."""

    min_interval_ms: int = 0

    def __post_init__(self) -> None:
        _Window.__post_init__(self)
        _whole(min_interval_ms=self.min_interval_ms)
        if self.min_interval_ms > self.window_ms:
            raise InvalidLimit(f"{self.name}: min_interval_ms is longer than window_ms")

    def arguments(self) -> dict[str, int]:
        return {"limit": self.limit, "window_ms": self.window_ms, "min_interval_ms": self.min_interval_ms}


@dataclass(frozen=True, slots=True)
class RollingWindow(_Rolling):
    """A rolling window with an exact log in a sorted set."""

    name: ClassVar[str] = "rolling_window"

    def __post_init__(self) -> None:
        _Rolling.__post_init__(self)
        if self.limit > _LOG_LIMIT:
            raise InvalidLimit(f"rolling_window: limit must be at most {_LOG_LIMIT}; rolling_ring allows {_RING_LIMIT}")

    def check_cost(self, cost: int) -> None:
        _Rolling.check_cost(self, cost)
        _exact(self.name, _LATEST_US + 2 * self.window_ms * 1000 + cost)


@dataclass(frozen=True, slots=True)
class RollingRing(_Rolling):
    """A rolling window whose log is a string with a timestamp of 4 bytes for each admitted unit."""

    name: ClassVar[str] = "rolling_ring"

    def __post_init__(self) -> None:
        _Rolling.__post_init__(self)
        if self.limit > _RING_LIMIT or self.window_ms >= _RING_WINDOW:
            raise InvalidLimit("rolling_ring: limit must be at most 1000000, window_ms less than 2^32 ms")


@dataclass(frozen=True, slots=True)
class Concurrent:
    """At most `limit` leases at a time; a lease that is not renewed expires after `lease_ms`."""

    name: ClassVar[str] = "concurrent"

    limit: int
    lease_ms: int

    def __post_init__(self) -> None:
        _whole(limit=self.limit, lease_ms=self.lease_ms)
        if self.lease_ms == 0:
            raise InvalidLimit("concurrent: lease_ms must be at least 1")
        _exact(self.name, self.limit, _LATEST_US + 2 * self.lease_ms * 1000)

    @property
    def key_window_ms(self) -> int | None:
        return None

    @property
    def quota_window_ms(self) -> int | None:
        return None

    def arguments(self) -> dict[str, int]:
        return {"limit": self.limit, "lease_ms": self.lease_ms}


Costed = TokenBucket | Gcra | FixedWindow | RollingWindow | RollingRing | SlidingCounter
Algorithm = Costed | Concurrent
ALGORITHMS: dict[str, type[Algorithm]] = {
    kind.name: kind for kind in (TokenBucket, Gcra, FixedWindow, RollingWindow, RollingRing, SlidingCounter, Concurrent)
}


def _check_rate(name: str, rate: int, period_ms: int, **size: int) -> None:
    _whole(**size, rate=rate, period_ms=period_ms)
    if rate == 0 or period_ms == 0:
        raise InvalidLimit(f"{name}: rate and period_ms must be at least 1")
    _exact(name, rate, period_ms * 1000)


def _lowest(rate: int, period_ms: int) -> dict[str, int]:
    divisor = gcd(rate, period_ms)
    return {"rate": rate // divisor, "period_ms": period_ms // divisor}


def _whole(**values: object) -> None:
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise InvalidLimit(f"{name} must be a whole number, 0 or more, not {value!r}")


def _exact(name: str, *numbers: int) -> None:
    if any(number >= EXACT for number in numbers):
        raise InvalidLimit(f"{name}: the numbers are too large to be exact (2^53 or more)")
