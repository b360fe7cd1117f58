"""Tables of the two limiters that count in epoch-aligned windows: fixed_window and sliding_counter."""

import random
from math import gcd

import pytest

from tests.local.limiter.server import DAY, HOUR, MS, SECOND, T0, Limiter
from tests.local.limiter.tables import Row, keeps_state, play
from tests.local.limiter.walks import chance_of

MILLION, DAY_MS = 1_000_000, 86_400_000
HUGE = 2_000_000_000_000_000

FIXED = [
    pytest.param(
        [
            (999_999, (3, 1000, 3), [1, 3, 0, 0, 1, 0]),
            (999_999, (3, 1000, 1), [0, 3, 0, 1, 1, 1]),
            (1_000_000, (3, 1000, 1), [1, 3, 2, 0, 1000, 0]),
            (1_000_500, (3, 1000, 0), [1, 3, 2, 0, 1000, 0]),
            (1_999_000, (3, 1000, 0), [1, 3, 2, 0, 1, 0]),
            (2_000_000, (3, 1000, 0), [1, 3, 3, 0, 0, 0]),
        ],
        id="aligned-to-the-epoch",
    ),
    pytest.param(
        [
            (0, (3, 1000, 2), [1, 3, 1, 0, 1000, 0]),
            (100 * MS, (3, 1000, 2), [0, 3, 1, 900, 900, 1]),
            (100 * MS, (3, 1000, 9), [0, 3, 1, -1, 900, 3]),
            (100 * MS, (3, 1000, 1), [1, 3, 0, 0, 900, 0]),
        ],
        id="a-denied-call-does-not-count",
    ),
    pytest.param(
        [
            (0, (2, 1000, 2), [1, 2, 0, 0, 1000, 0]),
            (0, (5, 1000, 1), [1, 5, 2, 0, 1000, 0]),
            (0, (1, 1000, 1), [0, 1, 0, 1000, 1000, 1]),
            (0, (1, 1000, 0), [1, 1, 0, 0, 1000, 0]),
            (SECOND, (1, 1000, 1), [1, 1, 0, 0, 1000, 0]),
        ],
        id="limit-raised-and-lowered",
    ),
    pytest.param(
        [
            (0, (MILLION, DAY_MS, 999_999), [1, MILLION, 1, 0, DAY_MS, 0]),
            (HOUR, (MILLION, DAY_MS, 1), [1, MILLION, 0, 0, 82_800_000, 0]),
            (DAY - 1, (MILLION, DAY_MS, 1), [0, MILLION, 0, 1, 1, 1]),
            (DAY, (MILLION, DAY_MS, MILLION), [1, MILLION, 0, 0, DAY_MS, 0]),
        ],
        id="a-million-a-day-exactly",
    ),
    pytest.param(
        [
            (0, (9_007_199_254_740_990, 1000, 1), [1, 9_007_199_254_740_990, 9_007_199_254_740_989, 0, 1000, 0]),
            (0, (9_007_199_254_740_990, 1000, 1), [1, 9_007_199_254_740_990, 9_007_199_254_740_988, 0, 1000, 0]),
        ],
        id="limit-just-below-2-to-the-53",
    ),
    pytest.param(
        [
            (0, (1, 1, 1), [1, 1, 0, 0, 1, 0]),
            (999, (1, 1, 1), [0, 1, 0, 1, 1, 1]),
            (1000, (1, 1, 1), [1, 1, 0, 0, 1, 0]),
        ],
        id="a-window-of-one-millisecond",
    ),
]


@pytest.mark.parametrize("rows", FIXED)
def test_fixed_window(limiter: Limiter, key: str, rows: list[Row]) -> None:
    play(limiter, key, "fixed_window", rows)


SLIDING = [
    pytest.param(
        [
            (0, (100, 1000, 100), [1, 100, 0, 0, 2000, 0]),
            (SECOND, (100, 1000, 1), [0, 100, 0, 10, 1000, 1]),
            (1_009_999, (100, 1000, 1), [0, 100, 0, 1, 991, 1]),
            (1_010_000, (100, 1000, 1), [1, 100, 0, 0, 1990, 0]),
            (1_500_000, (100, 1000, 49), [1, 100, 0, 0, 1500, 0]),
            (2_000_000, (100, 1000, 50), [1, 100, 0, 0, 2000, 0]),
        ],
        id="the-last-window-counts-by-what-of-it-is-left",
    ),
    pytest.param(
        [
            (0, (1, 1000, 1), [1, 1, 0, 0, 2000, 0]),
            (SECOND, (1, 1000, 1), [0, 1, 0, 1000, 1000, 1]),
            (1_999_999, (1, 1000, 1), [0, 1, 0, 1, 1, 1]),
            (2_000_000, (1, 1000, 1), [1, 1, 0, 0, 2000, 0]),
        ],
        id="limit-1-is-one-in-up-to-two-windows",
    ),
    pytest.param(
        [
            (500 * MS, (10, 1000, 10), [1, 10, 0, 0, 1500, 0]),
            (500 * MS, (10, 1000, 1), [0, 10, 0, 600, 1500, 1]),
            (500 * MS, (10, 1000, 10), [0, 10, 0, 1500, 1500, 1]),
            (1_100_000, (10, 1000, 1), [1, 10, 0, 0, 1900, 0]),
        ],
        id="retry-lies-in-the-next-window",
    ),
    pytest.param(
        [
            (0, (10, 1000, 7), [1, 10, 3, 0, 2000, 0]),
            # 7 * (1 - e) <= 2 from e = 5/7 on, which no microsecond hits.
            (SECOND, (10, 1000, 8), [0, 10, 3, 715, 1000, 1]),
            (1_714_285, (10, 1000, 8), [0, 10, 7, 1, 286, 1]),
            (1_714_286, (10, 1000, 8), [1, 10, 0, 0, 1286, 0]),
        ],
        id="compared-without-rounding",
    ),
    pytest.param(
        [
            (0, (10, 1000, 10), [1, 10, 0, 0, 2000, 0]),
            (2 * SECOND, (10, 1000, 10), [1, 10, 0, 0, 2000, 0]),
            (9 * SECOND, (10, 1000, 0), [1, 10, 10, 0, 0, 0]),
        ],
        id="what-is-two-windows-old-is-gone",
    ),
    pytest.param(
        [
            (0, (10, 1000, 10), [1, 10, 0, 0, 2000, 0]),
            (0, (20, 1000, 10), [1, 20, 0, 0, 2000, 0]),
            (0, (5, 1000, 0), [1, 5, 0, 0, 2000, 0]),
            (0, (5, 1000, 1), [0, 5, 0, 1800, 2000, 1]),
            (1_800_000, (5, 1000, 1), [1, 5, 0, 0, 1200, 0]),
        ],
        id="limit-raised-and-lowered",
    ),
    pytest.param(
        [
            (0, (MILLION, DAY_MS, MILLION), [1, MILLION, 0, 0, 2 * DAY_MS, 0]),
            (DAY + 86_399, (MILLION, DAY_MS, 1), [0, MILLION, 0, 1, DAY_MS - 86, 1]),
            (DAY + 86_400, (MILLION, DAY_MS, 1), [1, MILLION, 0, 0, 2 * DAY_MS - 86, 0]),
            (DAY + DAY // 2, (MILLION, DAY_MS, 499_999), [1, MILLION, 0, 0, DAY_MS // 2 * 3, 0]),
        ],
        id="a-million-a-day-exactly",
    ),
    pytest.param(
        [
            (0, (HUGE, DAY_MS, HUGE), [1, HUGE, 0, 0, 2 * DAY_MS, 0]),
            (DAY + DAY // 2, (HUGE, DAY_MS, 0), [1, HUGE, HUGE // 2, 0, DAY_MS // 2, 0]),
            (2 * DAY - 1, (HUGE, DAY_MS, 0), [1, HUGE, HUGE - 23_149, 0, 1, 0]),
            (2 * DAY - 1, (HUGE, DAY_MS, HUGE - 23_148), [0, HUGE, HUGE - 23_149, 1, 1, 1]),
            (2 * DAY - 1, (HUGE, DAY_MS, HUGE - 23_149), [1, HUGE, 0, 0, DAY_MS + 1, 0]),
        ],
        id="products-of-87-bits-exactly",
    ),
]


@pytest.mark.parametrize("rows", SLIDING)
def test_sliding_counter(limiter: Limiter, key: str, rows: list[Row]) -> None:
    play(limiter, key, "sliding_counter", rows)


def coprime_to(window: int, chance: random.Random) -> int:
    elapsed = 0
    while gcd(elapsed, window) != 1:
        elapsed = chance.randrange(window)
    return elapsed


def test_sliding_counter_counts_exactly_beyond_2_to_the_53(limiter: Limiter) -> None:
    chance = chance_of("products")
    for _ in range(300):
        key, window_ms = limiter.fresh_key(), chance.choice([1000, 997_001, DAY_MS, 40 * DAY_MS + 7])
        window = window_ms * MS
        start = T0 - T0 % window
        limit = chance.choice([10, 10**6, 10**12, 3 * 10**15]) - chance.randrange(9)
        elapsed = coprime_to(window, chance)
        # Where the window divides the product all but for one, the last digit decides.
        near = chance.choice([-1, 1]) * pow(elapsed, -1, window) % window
        previous = near if near <= limit else chance.randrange(1, limit + 1)
        limiter.call("sliding_counter", key, limit, window_ms, previous, start + chance.randrange(window))
        at, used = start + window + elapsed, -(-previous * (window - elapsed) // window)
        assert limiter.call("sliding_counter", key, limit, window_ms, 0, at)[2] == limit - used
        if used:
            cost = limit - used + chance.randrange(1, used + 1)
            free = window - (limit - cost) * window // previous
            wait_ms = -(-(free - elapsed) // MS)
            assert limiter.call("sliding_counter", key, limit, window_ms, cost, at)[3] == wait_ms


def test_sliding_counter_admits_up_to_twice_the_limit_less_one_within_a_trailing_window(
    limiter: Limiter, key: str
) -> None:
    """The known weakness, as the documents state it: 100 at the end of a window, 99 more over the next."""
    assert limiter.call("sliding_counter", key, 100, 1000, 100, T0 + 999_999)[0] == 1
    admitted = [
        limiter.call("sliding_counter", key, 100, 1000, 1, T0 + SECOND + at)[0] for at in range(0, SECOND, 5000)
    ]
    assert sum(admitted) == 99
    assert sum(admitted[:100]) == 49


# The limit is used up at T0 + 1.2 s, in the window from T0 + 1 s; the next call has a clock that is behind.
USED_UP = 1_200_000
WITHIN = {"fixed_window": [0, 3, 0, 1000, 1000, 1], "sliding_counter": [0, 3, 0, 1334, 2000, 1]}
BEYOND = {"fixed_window": [0, 3, 0, 1, 1, 1], "sliding_counter": [0, 3, 0, 334, 1001, 1]}
BOTH = pytest.mark.parametrize("script", ["fixed_window", "sliding_counter"])
RULE = (3, 1000)


@BOTH
@pytest.mark.parametrize("at", [999_999, 900_000, 0], ids=["a-microsecond", "a-little", "a-whole-window"])
def test_a_step_back_of_up_to_one_window_is_waited_for(limiter: Limiter, key: str, script: str, at: int) -> None:
    limiter.call(script, key, *RULE, 3, T0 + USED_UP)
    assert keeps_state(limiter, key, script, (at, (*RULE, 1), WITHIN[script]))
    then = T0 + SECOND + WITHIN[script][3] * MS
    assert limiter.call(script, key, *RULE, 1, then - MS)[0] == 0
    assert limiter.call(script, key, *RULE, 1, then)[0] == 1


@BOTH
def test_a_larger_step_back_moves_the_counts_to_this_window(limiter: Limiter, key: str, script: str) -> None:
    limiter.call(script, key, *RULE, 3, T0 + USED_UP)
    reset = BEYOND[script][4]
    assert keeps_state(limiter, key, script, (-1, (*RULE, 0), [1, 3, 0, 0, reset, 0])), "a peek"
    assert not keeps_state(limiter, key, script, (-1, (*RULE, 1), BEYOND[script]))
    assert limiter.client.pttl(key) > 0
    assert keeps_state(limiter, key, script, (-1, (*RULE, 1), BEYOND[script]))
    then = T0 - 1 + BEYOND[script][3] * MS
    assert limiter.call(script, key, *RULE, 1, then - MS)[0] == 0
    assert limiter.call(script, key, *RULE, 1, then)[0] == 1


@BOTH
def test_an_impossible_call_keeps_a_large_step_back_too(limiter: Limiter, key: str, script: str) -> None:
    limiter.call(script, key, *RULE, 3, T0 + USED_UP)
    assert not keeps_state(limiter, key, script, (-1, (*RULE, 4), [0, 3, 0, -1, BEYOND[script][4], 3]))
    assert keeps_state(limiter, key, script, (-1, (*RULE, 1), BEYOND[script]))


@BOTH
def test_a_call_admitted_after_a_large_step_back_adds_to_the_counts(limiter: Limiter, key: str, script: str) -> None:
    limiter.call(script, key, *RULE, 1, T0 + USED_UP)
    assert limiter.call(script, key, *RULE, 1, T0 - SECOND)[:3] == [1, 3, 1]
    assert limiter.call(script, key, *RULE, 0, T0 - SECOND)[:3] == [1, 3, 1]
