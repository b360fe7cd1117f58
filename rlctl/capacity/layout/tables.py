"""Bytes of the hash tables that index keys. A server has one table, or one for each slot. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, erf, exp, lgamma, log, sqrt

LEAST_BUCKETS = 4
_POINTER = 8
_LINE = 64
_PLACES = 7
# Above this mean the normal distribution is as exact as the Poisson distribution, and faster.
_LARGE_MEAN = 400
_WIDTH = 9


def doubled(least: float) -> int:
    """The smallest power of two that is at least `least`."""
    return 1 << max(0, ceil(least) - 1).bit_length()


def buckets_7_0(keys: int) -> int:
    """Buckets of a table in Redis 7.0: at least as many as keys."""
    return max(LEAST_BUCKETS, doubled(keys))


def buckets_8_0(keys: int) -> int:
    """Buckets of a table in Redis 8.0: more than keys, except in the smallest table."""
    return LEAST_BUCKETS if keys <= LEAST_BUCKETS else doubled(keys + 1)


def array_7_0(keys: int) -> float:
    """Bytes of the buckets of a table in Redis 7.0: one pointer each."""
    return _POINTER * buckets_7_0(keys) if keys else 0


def array_8_0(keys: int) -> float:
    """Bytes of the buckets of a table in Redis 8.0: one pointer each."""
    return _POINTER * buckets_8_0(keys) if keys else 0


def valkey_buckets(keys: int) -> int:
    """Buckets of a table in Valkey. The table doubles when it has more than seven keys for each bucket."""
    return doubled(keys / _PLACES) if keys else 0


def valkey_capacity(keys: int) -> int:
    """The number of keys that fit into a table with buckets for `keys` keys."""
    return _PLACES * valkey_buckets(keys)


def valkey_array(keys: int) -> float:
    """Bytes of the buckets of a table in Valkey: one cache line for each bucket, and lines chained to full buckets."""
    buckets = valkey_buckets(keys)
    return _LINE * buckets * (1 + _chained(keys / buckets)) if buckets > 1 else _LINE * buckets


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The spread of keys over slots: at random over `slots`, or over the `seen_filled` slots that a sample found."""

    keys: int
    slots: int = 1
    seen_filled: int | None = None

    @property
    def filled(self) -> float:
        """Slots that hold at least one key."""
        return filled_slots(self.keys, self.slots) if self.seen_filled is None else self.seen_filled

    def arrays(self, array: Callable[[int], float]) -> float:
        """Bytes of the tables of all slots; `array` returns the bytes of one table with a given number of keys."""
        slots = self.slots if self.seen_filled is None else max(1, self.seen_filled)
        return slots * mean_array(self.keys, slots, array)


def mean_array(keys: int, slots: int, array: Callable[[int], float]) -> float:
    """Mean bytes of the table of a slot when the keys are spread at random."""
    if slots == 1:
        return array(keys)
    return _mean_array(keys, slots, array)


@lru_cache(maxsize=4096)
def _mean_array(keys: int, slots: int, array: Callable[[int], float]) -> float:
    mean = keys / slots
    if mean <= _LARGE_MEAN:
        most = int(mean + _WIDTH * sqrt(mean) + 20)
        return sum(_poisson(count, mean) * array(count) for count in range(1, most))
    width = sqrt(mean * (1 - 1 / slots))
    return sum(weight * array(count) for count, weight in _steps(mean, width))


def filled_slots(keys: int, slots: int) -> float:
    """The expected number of slots that hold at least one key."""
    if slots == 1:
        return 1
    return slots * -_expm1(keys * log(1 - 1 / slots))


def _expm1(value: float) -> float:
    return exp(value) - 1


@lru_cache(maxsize=65_536)
def _chained(load: float) -> float:
    """Mean number of cache lines chained to a bucket. A cache line that links to another has room for one key less."""
    places = _PLACES - 1
    return sum(_poisson(count, load) * ceil((count - _PLACES) / places) for count in range(_PLACES + 1, 50))


def _poisson(count: int, mean: float) -> float:
    return exp(count * log(mean) - mean - lgamma(count + 1))


def _steps(mean: float, width: float, parts: int = 200) -> list[tuple[int, float]]:
    """A normal distribution in `parts` equal steps, as pairs of middle and weight."""
    low, step = mean - 5 * width, 10 * width / parts
    edges = [low + step * index for index in range(parts + 1)]
    shares = [(1 + erf((edge - mean) / (width * sqrt(2)))) / 2 for edge in edges]
    total = shares[-1] - shares[0]
    return [(round(edges[index] + step / 2), (shares[index + 1] - shares[index]) / total) for index in range(parts)]
