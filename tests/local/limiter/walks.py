"""Random walks: calls of a limiter, their order and their clock."""

import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.local.limiter.server import DAY, MS, SECOND, T0, Argument

SEED = int(os.environ.get("RLCTL_SEED", "1"))
STEPS = 60


def chance_of(*words: object) -> random.Random:
    """Reproducible random numbers for a seed and a purpose."""
    return random.Random(f"{SEED} {words}")  # noqa: S311  chooses test cases, guards nothing


Rule = tuple[int, ...]
MakeRule = Callable[[random.Random], Callable[[], Rule]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The range of a script's rules, its argument that is the horizon, and the longest life of a call's state."""

    script: str
    rules: MakeRule
    horizon_at: int
    lasts_ms: Callable[[Sequence[Argument]], int]


def bucket_rules(chance: random.Random) -> Callable[[], Rule]:
    def rule() -> Rule:
        capacity = chance.choice([0, 1, 2, 5, 10, chance.randrange(1, 100_000)])
        return capacity, chance.choice([1, 2, 3, 7, 10, 100, 999_983]), chance.choice([1, 10, 997, 1000, 60_000])

    return rule


def window_rules(chance: random.Random) -> Callable[[], Rule]:
    window = chance.choice([1, 10, 997, 1000, 60_000, 86_400_000])
    return lambda: (chance.choice([0, 1, 2, 5, 10, 100, 1_000_000]), window)


def rolling_rules(chance: random.Random) -> Callable[[], Rule]:
    window = chance.choice([1, 10, 997, 1000, 60_000, 4_294_967_295])
    return lambda: (chance.choice([0, 1, 2, 5, 10, 20, 40]), window, chance.choice([0, 0, 0, 1, window // 2, window]))


def lease_rules(chance: random.Random) -> Callable[[], Rule]:
    return lambda: (chance.choice([0, 1, 2, 3, 5]), chance.choice([1, 10, 1000, 60_000]))


def until_full_ms(args: Sequence[Argument]) -> int:
    capacity, rate, period_ms = map(int, args[:3])
    return -(-capacity * period_ms // rate)


def until_unmetered_ms(args: Sequence[Argument]) -> int:
    """The time between two calls is rounded up to whole microseconds."""
    burst, rate, period_ms = map(int, args[:3])
    return -(burst * (-period_ms * MS // rate) // MS)


def window_ms(args: Sequence[Argument]) -> int:
    return int(args[1])


def two_windows_ms(args: Sequence[Argument]) -> int:
    return 2 * window_ms(args)


def two_leases_ms(args: Sequence[Argument]) -> int:
    """On a clock that stepped back a lease expires later; an expiry too far ahead is shortened."""
    return 2 * int(args[2])


WALKS = [
    Walk(script="token_bucket", rules=bucket_rules, horizon_at=2, lasts_ms=until_full_ms),
    Walk(script="gcra", rules=bucket_rules, horizon_at=2, lasts_ms=until_unmetered_ms),
    Walk(script="fixed_window", rules=window_rules, horizon_at=1, lasts_ms=window_ms),
    Walk(script="sliding_counter", rules=window_rules, horizon_at=1, lasts_ms=two_windows_ms),
    Walk(script="rolling_window", rules=rolling_rules, horizon_at=1, lasts_ms=window_ms),
    Walk(script="rolling_ring", rules=rolling_rules, horizon_at=1, lasts_ms=window_ms),
    Walk(script="concurrent", rules=lease_rules, horizon_at=1, lasts_ms=two_leases_ms),
]


def calls(
    walk: Walk, chance: random.Random, *, unit: int = 1, has_refunds: bool = True
) -> Iterator[tuple[Argument, ...]]:
    """Full argument lists of one walk; instants are multiples of `unit` microseconds."""
    make = walk.rules(chance)
    rule, now = make(), chance.choice([T0 + chance.randrange(10 * DAY), T0, 0, 999_000, 10**15 - 7])
    for _ in range(STEPS):
        if chance.random() < 0.08:
            rule = make()
        now = max(0, now + step(chance, rule[walk.horizon_at] * 1000))
        now -= now % unit
        yield (*asked(walk, chance, rule, has_refunds=has_refunds), now)


def step(chance: random.Random, horizon: int) -> int:
    """The next time: mostly a little ahead, sometimes far ahead, sometimes back by less or more than the horizon."""
    kind = chance.random()
    if kind < 0.5:
        return chance.randrange(horizon // 5 + 1)
    if kind < 0.6:
        return chance.randrange(3 * horizon + 1)
    if kind < 0.62:
        return chance.choice([horizon, horizon - 1, SECOND, 1000, 999, 1])
    if kind < 0.67:
        return -chance.randrange(horizon + 1)
    if kind < 0.7:
        return -chance.choice([horizon, horizon + 1, chance.randrange(4 * horizon + 1)])
    return 0


def asked(walk: Walk, chance: random.Random, rule: Rule, *, has_refunds: bool) -> tuple[Argument, ...]:
    if walk.script == "concurrent":
        verb = chance.choice(["acquire", "acquire", "acquire", "release", "renew", "peek"])
        return verb, *rule, chance.choice("abcdefg")
    limit = rule[0]
    refunds = [-1, -chance.randrange(limit + 2)] if has_refunds else []
    cost = chance.choice([0, 1, 1, 1, 1, 2, 3, limit, limit + 1, max(1, limit // 2), *refunds])
    return *rule, min(cost, 50) if "rolling" in walk.script else cost
