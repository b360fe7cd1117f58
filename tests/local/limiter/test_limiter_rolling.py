"""Tables of the rolling windows; at whole milliseconds the ring answers as the sorted set does."""

import pytest

from tests.local.limiter.server import MS, SECOND, T0, Limiter
from tests.local.limiter.tables import Row, keeps_state, play

BOTH = pytest.mark.parametrize("script", ["rolling_window", "rolling_ring"])
LONGEST = 4_294_967_295

ROLLING = [
    pytest.param(
        [
            (0, (2, 1000, 0, 1), [1, 2, 1, 0, 1000, 0]),
            (500 * MS, (2, 1000, 0, 1), [1, 2, 0, 0, 1000, 0]),
            (999 * MS, (2, 1000, 0, 1), [0, 2, 0, 1, 501, 1]),
            (1000 * MS, (2, 1000, 0, 1), [1, 2, 0, 0, 1000, 0]),
            (1499 * MS, (2, 1000, 0, 1), [0, 2, 0, 1, 501, 1]),
            (1500 * MS, (2, 1000, 0, 1), [1, 2, 0, 0, 1000, 0]),
        ],
        id="exactly-one-window-old-is-gone",
    ),
    pytest.param(
        [
            (0, (3, 1000, 0, 1), [1, 3, 2, 0, 1000, 0]),
            (100 * MS, (3, 1000, 0, 1), [1, 3, 1, 0, 1000, 0]),
            (200 * MS, (3, 1000, 0, 1), [1, 3, 0, 0, 1000, 0]),
            (300 * MS, (3, 1000, 0, 1), [0, 3, 0, 700, 900, 1]),
            (300 * MS, (3, 1000, 0, 2), [0, 3, 0, 800, 900, 1]),
            (300 * MS, (3, 1000, 0, 3), [0, 3, 0, 900, 900, 1]),
            (300 * MS, (3, 1000, 0, 4), [0, 3, 0, -1, 900, 3]),
            (1100 * MS, (3, 1000, 0, 2), [1, 3, 0, 0, 1000, 0]),
        ],
        id="retry-is-when-enough-have-left",
    ),
    pytest.param(
        [
            (0, (3, 1000, 100, 1), [1, 3, 2, 0, 1000, 0]),
            (99 * MS, (3, 1000, 100, 1), [0, 3, 2, 1, 901, 2]),
            (99 * MS, (3, 1000, 100, 0), [1, 3, 2, 0, 901, 0]),
            (99 * MS, (3, 1000, 100, 4), [0, 3, 2, -1, 901, 3]),
            (100 * MS, (3, 1000, 100, 2), [1, 3, 0, 0, 1000, 0]),
            (150 * MS, (3, 1000, 100, 1), [0, 3, 0, 850, 950, 1]),
            (1000 * MS, (3, 1000, 100, 1), [1, 3, 0, 0, 1000, 0]),
        ],
        id="a-minimum-interval",
    ),
    pytest.param(
        [
            (0, (2, 1000, 500, 1), [1, 2, 1, 0, 1000, 0]),
            (900 * MS, (2, 1000, 500, 1), [1, 2, 0, 0, 1000, 0]),
            (950 * MS, (2, 1000, 500, 1), [0, 2, 0, 450, 950, 1]),
            (1000 * MS, (2, 1000, 500, 1), [0, 2, 1, 400, 900, 2]),
            (1400 * MS, (2, 1000, 500, 1), [1, 2, 0, 0, 1000, 0]),
        ],
        id="both-refuse-the-larger-wait-counts",
    ),
    pytest.param(
        [
            (0, (5, 1000, 1000, 1), [1, 5, 4, 0, 1000, 0]),
            (999 * MS, (5, 1000, 1000, 1), [0, 5, 4, 1, 1, 2]),
            (1000 * MS, (5, 1000, 1000, 1), [1, 5, 4, 0, 1000, 0]),
            (1000 * MS, (5, 1000, "", 1), [1, 5, 3, 0, 1000, 0]),
        ],
        id="an-interval-of-a-whole-window-and-an-empty-one",
    ),
    pytest.param(
        [
            (0, (2, 1000, 0, 1), [1, 2, 1, 0, 1000, 0]),
            (10 * MS, (2, 1000, 0, 1), [1, 2, 0, 0, 1000, 0]),
            (20 * MS, (4, 1000, 0, 2), [1, 4, 0, 0, 1000, 0]),
            (30 * MS, (1, 1000, 0, 1), [0, 1, 0, 990, 990, 1]),
            (30 * MS, (1, 1000, 0, 0), [1, 1, 0, 0, 990, 0]),
            (1010 * MS, (3, 1000, 0, 1), [1, 3, 0, 0, 1000, 0]),
            (1019 * MS, (3, 1000, 0, 1), [0, 3, 0, 1, 991, 1]),
            (1020 * MS, (3, 1000, 0, 2), [1, 3, 0, 0, 1000, 0]),
        ],
        id="limit-raised-and-lowered",
    ),
    pytest.param(
        [
            (1000 * MS, (3, 1000, 0, 2), [1, 3, 1, 0, 1000, 0]),
            (500 * MS, (3, 1000, 0, 2), [0, 3, 1, 1000, 1000, 1]),
            (0, (3, 1000, 0, 1), [1, 3, 0, 0, 1000, 0]),
            (1999 * MS, (3, 1000, 0, 0), [1, 3, 0, 0, 1, 0]),
            (2000 * MS, (3, 1000, 0, 0), [1, 3, 3, 0, 0, 0]),
        ],
        id="a-step-back-of-up-to-one-window-counts-as-no-time",
    ),
    pytest.param(
        [
            (0, (2, 10_000, 0, 1), [1, 2, 1, 0, 10_000, 0]),
            (9000 * MS, (2, 10_000, 0, 1), [1, 2, 0, 0, 10_000, 0]),
            (-2000 * MS, (2, 10_000, 0, 0), [1, 2, 1, 0, 10_000, 0]),
            (9000 * MS, (2, 10_000, 0, 0), [1, 2, 0, 0, 10_000, 0]),
            (-2000 * MS, (2, 10_000, 0, 2), [0, 2, 1, 10_000, 10_000, 1]),
            (9000 * MS, (2, 10_000, 0, 0), [1, 2, 1, 0, 1000, 0]),
        ],
        id="a-larger-step-drops-what-lies-beyond-even-when-denying-but-not-when-peeking",
    ),
    pytest.param(
        [
            (100_000 * MS, (2, 1000, 0, 2), [1, 2, 0, 0, 1000, 0]),
            (0, (2, 1000, 0, 3), [0, 2, 2, -1, 0, 3]),
            (0, (2, 1000, 500, 1), [1, 2, 1, 0, 1000, 0]),
            (100 * MS, (2, 1000, 500, 1), [0, 2, 1, 400, 900, 2]),
            (100_000 * MS, (2, 1000, 0, 0), [1, 2, 2, 0, 0, 0]),
        ],
        id="a-larger-step-may-leave-nothing",
    ),
    pytest.param(
        [
            *((at * MS, (100, 1000, 0, 1), [1, 100, 99 - at, 0, 1000, 0]) for at in range(100)),
            (1003 * MS, (100, 1000, 0, 5), [0, 100, 4, 1, 96, 1]),
            (1050 * MS, (100, 1000, 0, 0), [1, 100, 51, 0, 49, 0]),
            (1050 * MS, (100, 1000, 0, 51), [1, 100, 0, 0, 1000, 0]),
            (1060 * MS, (100, 1000, 0, 11), [0, 100, 10, 1, 990, 1]),
            (1098 * MS, (100, 1000, 0, 49), [0, 100, 48, 1, 952, 1]),
            (1099 * MS, (100, 1000, 0, 49), [1, 100, 0, 0, 1000, 0]),
        ],
        id="many-leave-at-once",
    ),
    pytest.param(
        [
            (0, (9999, 1000, 0, 5000), [1, 9999, 4999, 0, 1000, 0]),
            (1 * MS, (9999, 1000, 0, 4999), [1, 9999, 0, 0, 1000, 0]),
            (2 * MS, (9999, 1000, 0, 5001), [0, 9999, 0, 999, 999, 1]),
            (1000 * MS, (9999, 1000, 0, 5000), [1, 9999, 0, 0, 1000, 0]),
        ],
        id="a-cost-of-thousands",
    ),
    pytest.param(
        [
            (0, (2, LONGEST, 0, 1), [1, 2, 1, 0, LONGEST, 0]),
            (LONGEST * MS - 2 * MS, (2, LONGEST, LONGEST, 1), [0, 2, 1, 2, 2, 2]),
            (LONGEST * MS - 1 * MS, (2, LONGEST, 0, 1), [1, 2, 0, 0, LONGEST, 0]),
            (LONGEST * MS - 1 * MS, (2, LONGEST, 0, 1), [0, 2, 0, 1, LONGEST, 1]),
            (LONGEST * MS, (2, LONGEST, 0, 1), [1, 2, 0, 0, LONGEST, 0]),
            (LONGEST * MS, (3, LONGEST, 0, 1), [1, 3, 0, 0, LONGEST, 0]),
            (2 * LONGEST * MS - 1 * MS, (3, LONGEST, 0, 2), [0, 3, 1, 1, 1, 1]),
        ],
        id="windows-of-all-but-2-to-the-32-milliseconds",
    ),
    pytest.param(
        [
            (0, (2, 1000, 0, 2), [1, 2, 0, 0, 1000, 0]),
            (2**32 * MS, (2, 1000, 0, 1), [1, 2, 1, 0, 1000, 0]),
            (2**32 * MS + 500 * MS, (2, 1000, 0, 1), [1, 2, 0, 0, 1000, 0]),
            (2**33 * MS + 500 * MS, (2, 1000, 0, 0), [1, 2, 2, 0, 0, 0]),
        ],
        id="instants-that-are-equal-modulo-2-to-the-32",
    ),
]


@BOTH
@pytest.mark.parametrize("rows", ROLLING)
def test_rolling(limiter: Limiter, key: str, script: str, rows: list[Row]) -> None:
    play(limiter, key, script, rows)


@BOTH
@pytest.mark.parametrize("start", [0, 1000, 999_000, 10**15 - 7000], ids=lambda start: f"from-{start}")
def test_members_of_one_instant_are_told_apart_on_any_clock(
    limiter: Limiter, key: str, script: str, start: int
) -> None:
    """As text, 10 sorts before 9: an admission at a time with few digits must not be lost."""
    rows: list[Row] = [(0, (100, 1000, 0, 20), [1, 100, left, 0, 1000, 0]) for left in (80, 60, 40, 20, 0)]
    play(limiter, key, script, [*rows, (0, (100, 1000, 0, 1), [0, 100, 0, 1000, 1000, 1])], start=start)


@BOTH
def test_a_step_back_of_up_to_one_window_writes_nothing_when_denying(limiter: Limiter, key: str, script: str) -> None:
    limiter.call(script, key, 2, 1000, 0, 2, T0)
    for back in (1, 500, 1000):
        assert keeps_state(limiter, key, script, (-back * MS, (2, 1000, 0, 1), [0, 2, 0, 1000, 1000, 1]))


MICROSECONDS = [
    (0, (2, 1000, 0, 1), [1, 2, 1, 0, 1000, 0]),
    (1, (2, 1000, 0, 1), [1, 2, 0, 0, 1000, 0]),
    (999_999, (2, 1000, 0, 1), [0, 2, 0, 1, 1, 1]),
    (1_000_000, (2, 1000, 0, 2), [0, 2, 1, 1, 1, 1]),
    (1_000_001, (2, 1000, 0, 2), [1, 2, 0, 0, 1000, 0]),
]


def test_the_sorted_set_is_exact_to_the_microsecond(limiter: Limiter, key: str) -> None:
    play(limiter, key, "rolling_window", MICROSECONDS)


RING = [
    pytest.param(
        [
            (500, (1, 1000, 0, 1), [1, 1, 0, 0, 1001, 0]),
            (500, (1, 1000, 0, 0), [1, 1, 0, 0, 1001, 0]),
            (1_000_500, (1, 1000, 0, 1), [0, 1, 0, 1, 1, 1]),
            (1_000_999, (1, 1000, 0, 1), [0, 1, 0, 1, 1, 1]),
            (1_001_000, (1, 1000, 0, 1), [1, 1, 0, 0, 1000, 0]),
            (2_000_999, (1, 1000, 0, 1), [0, 1, 0, 1, 1, 1]),
            (2_001_000, (1, 1000, 0, 1), [1, 1, 0, 0, 1000, 0]),
        ],
        id="stored-instants-are-rounded-up",
    ),
    pytest.param(
        [
            (500, (3, 1000, 0, 1), [1, 3, 2, 0, 1001, 0]),
            (1, (3, 1000, 0, 1), [1, 3, 1, 0, 1001, 0]),
            (999, (3, 1000, 0, 1), [1, 3, 0, 0, 1001, 0]),
            (0, (3, 1000, 0, 1), [0, 3, 0, 1000, 1000, 1]),
        ],
        id="less-than-a-millisecond-ahead-is-no-clock-step",
    ),
    pytest.param(
        [
            (500, (3, 1000, 1, 1), [1, 3, 2, 0, 1001, 0]),
            (1_500, (3, 1000, 1, 1), [0, 3, 2, 1, 1000, 2]),
            (2_000, (3, 1000, 1, 1), [1, 3, 1, 0, 1000, 0]),
        ],
        id="an-interval-is-never-shorter-than-it-says",
    ),
]


@pytest.mark.parametrize("rows", RING)
def test_rolling_ring_below_a_millisecond(limiter: Limiter, key: str, rows: list[Row]) -> None:
    play(limiter, key, "rolling_ring", rows)


@pytest.mark.parametrize("limit", [1, 100, 1_000_000])
def test_a_ring_is_created_at_full_size(limiter: Limiter, key: str, limit: int) -> None:
    limiter.call("rolling_ring", key, limit, 1000, 0, 1, T0)
    size = limiter.client.strlen(key)
    assert size == 24 + 4 * limit
    limiter.call("rolling_ring", key, limit, 1000, 0, limit, T0 + 2 * SECOND)
    assert limiter.client.strlen(key) == size


def test_a_ring_of_another_limit_is_packed_at_the_next_admitted_call(limiter: Limiter, key: str) -> None:
    limiter.call("rolling_ring", key, 10, 1000, 0, 3, T0)
    assert keeps_state(limiter, key, "rolling_ring", (0, (20, 1000, 0, 18), [0, 20, 17, 1000, 1000, 1]))
    play(limiter, key, "rolling_ring", [(0, (20, 1000, 0, 17), [1, 20, 0, 0, 1000, 0])])
    assert limiter.client.strlen(key) == 24 + 4 * 20
    play(limiter, key, "rolling_ring", [(SECOND, (4, 1000, 0, 1), [1, 4, 3, 0, 1000, 0])])
    assert limiter.client.strlen(key) == 24 + 4 * 4


def test_a_full_ring_of_thirty_days_is_not_packed_anew_at_every_call(limiter: Limiter, key: str) -> None:
    """A call needs a few commands however full the ring is, because it never reads the whole ring."""
    month, day = 30 * 86_400_000, 86_400 * SECOND
    limiter.call("rolling_ring", key, 100_000, month, 0, 50_000, T0)
    for days in (10, 20, 29):
        limiter.call("rolling_ring", key, 100_000, month, 0, 1, T0 + days * day)
    limiter.client.config_resetstat()
    limiter.call("rolling_ring", key, 100_000, month, 0, 1, T0 + 29 * day + MS)
    assert sum(called["calls"] for called in limiter.client.info("commandstats").values()) <= 12
