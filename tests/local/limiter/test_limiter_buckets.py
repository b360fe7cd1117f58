"""Tables of the two limiters that refill: token_bucket and gcra."""

import struct

import pytest

from tests.local.limiter.server import MS, SECOND, T0, Limiter
from tests.local.limiter.tables import Row, keeps_state, play
from tests.local.limiter.walks import chance_of

PER_DAY = (1_000_000, 1_000_000, 86_400_000)

BUCKET = [
    pytest.param(
        [
            (0, (10, 1, 1000, 10), [1, 10, 0, 0, 10_000, 0]),
            (999_999, (10, 1, 1000, 1), [0, 10, 0, 1, 9001, 1]),
            (1_000_000, (10, 1, 1000, 1), [1, 10, 0, 0, 10_000, 0]),
            (1_500_000, (10, 1, 1000, 0), [1, 10, 0, 0, 9500, 0]),
            (2_000_000, (10, 1, 1000, 1), [1, 10, 0, 0, 10_000, 0]),
        ],
        id="half-a-token-is-kept-and-not-given",
    ),
    pytest.param(
        [
            (0, (3, 3, 1000, 3), [1, 3, 0, 0, 1000, 0]),
            (333_333, (3, 3, 1000, 1), [0, 3, 0, 1, 667, 1]),
            (333_334, (3, 3, 1000, 1), [1, 3, 0, 0, 1000, 0]),
            (1_000_000, (3, 3, 1000, 2), [1, 3, 0, 0, 1000, 0]),
        ],
        id="thirds-lose-nothing-over-a-second",
    ),
    pytest.param(
        [
            (0, (2, 1, 1000, 1), [1, 2, 1, 0, 1000, 0]),
            (10 * SECOND, (2, 1, 1000, 0), [1, 2, 2, 0, 0, 0]),
            (10 * SECOND, (2, 1, 1000, 2), [1, 2, 0, 0, 2000, 0]),
        ],
        id="never-above-the-capacity",
    ),
    pytest.param(
        [
            (0, (10, 1, 1000, 1), [1, 10, 9, 0, 1000, 0]),
            (0, (5, 1, 1000, 0), [1, 5, 5, 0, 0, 0]),
            (0, (5, 1, 1000, 1), [1, 5, 4, 0, 1000, 0]),
            (0, (10, 1, 1000, 0), [1, 10, 4, 0, 6000, 0]),
        ],
        id="a-lower-capacity-cuts-the-level-for-good",
    ),
    pytest.param(
        [
            (0, (5, 1, 1000, 5), [1, 5, 0, 0, 5000, 0]),
            (0, (10, 1, 1000, 1), [0, 10, 0, 1000, 10_000, 1]),
            (1_000_000, (10, 1, 1000, 1), [1, 10, 0, 0, 10_000, 0]),
        ],
        id="a-higher-capacity-is-no-refill",
    ),
    pytest.param(
        [
            (0, (10, 1, 1000, 10), [1, 10, 0, 0, 10_000, 0]),
            (SECOND, (10, 2, 1000, 2), [1, 10, 0, 0, 5000, 0]),
            (2 * SECOND, (10, 1, 1000, 1), [1, 10, 0, 0, 10_000, 0]),
        ],
        id="the-time-since-is-refilled-at-the-new-rate",
    ),
    pytest.param(
        [
            (0, (3, 3, 1000, 3), [1, 3, 0, 0, 1000, 0]),
            (500_000, (3, 3, 1000, 1), [1, 3, 0, 0, 834, 0]),
            # Half a token is one third in a scale of thirds: two microseconds to the whole.
            (500_000, (3, 1000, 3, 1), [0, 3, 0, 1, 1, 1]),
            (500_001, (3, 1000, 3, 1), [0, 3, 0, 1, 1, 1]),
            (500_002, (3, 1000, 3, 1), [1, 3, 0, 0, 1, 0]),
        ],
        id="another-scale-rounds-down",
    ),
    pytest.param(
        [
            (0, (*PER_DAY, 1_000_000), [1, 1_000_000, 0, 0, 86_400_000, 0]),
            (86_399, (*PER_DAY, 1), [0, 1_000_000, 0, 1, 86_399_914, 1]),
            (86_400, (*PER_DAY, 1), [1, 1_000_000, 0, 0, 86_400_000, 0]),
            (86_400_000_000, (*PER_DAY, 999_999), [1, 1_000_000, 0, 0, 86_400_000, 0]),
        ],
        id="a-million-a-day-exactly",
    ),
    pytest.param(
        [
            (0, (9_007_199_253, 1, 1000, 1), [1, 9_007_199_253, 9_007_199_252, 0, 1000, 0]),
            (0, (9_007_199_253, 1, 1000, 9_007_199_252), [1, 9_007_199_253, 0, 0, 9_007_199_253_000, 0]),
            (999_999, (9_007_199_253, 1, 1000, 1), [0, 9_007_199_253, 0, 1, 9_007_199_252_001, 1]),
            (SECOND, (9_007_199_253, 1, 1000, 1), [1, 9_007_199_253, 0, 0, 9_007_199_253_000, 0]),
        ],
        id="level-just-below-2-to-the-53",
    ),
]


@pytest.mark.parametrize("rows", BUCKET)
def test_token_bucket(limiter: Limiter, key: str, rows: list[Row]) -> None:
    play(limiter, key, "token_bucket", rows)


def test_token_bucket_changes_its_scale_exactly_beyond_2_to_the_53(limiter: Limiter) -> None:
    """Milliseconds in a reply are too coarse for the last digit of a level, so this reads the state itself.

    Levels are chosen whose product with the new scale is just above or below a multiple of the old one.
    """
    chance = chance_of("scales")
    for _ in range(300):
        key, capacity = limiter.fresh_key(), chance.randrange(1000, 90_000)
        one, other = chance.sample([50_000_000_021, 86_400_000_011, 4_999_999_937, 999_983], 2)
        limiter.call("token_bucket", key, capacity, 11_000, one, capacity, T0)
        near = chance.choice([-1, 0, 1]) * pow(other, -1, one)
        waited = (near + one) * pow(11, -1, one) % one + one
        limiter.call("token_bucket", key, capacity, 11_000, one, 1, T0 + waited)
        level = 11 * waited - one
        assert struct.unpack("<ddd", limiter.client.get(key)) == (level, one, T0 + waited)
        assert limiter.call("token_bucket", key, capacity, 7000, other, 1, T0 + waited)[0] == 1
        found = struct.unpack("<ddd", limiter.client.get(key))
        assert found == (level * other // one - other, other, T0 + waited)


GCRA = [
    pytest.param(
        [
            (0, (3, 1, 1000, 1), [1, 3, 2, 0, 1000, 0]),
            (0, (3, 1, 1000, 2), [1, 3, 0, 0, 3000, 0]),
            (0, (3, 1, 1000, 1), [0, 3, 0, 1000, 3000, 1]),
            (0, (3, 1, 1000, 3), [0, 3, 0, 3000, 3000, 1]),
            (999_999, (3, 1, 1000, 1), [0, 3, 0, 1, 2001, 1]),
            (SECOND, (3, 1, 1000, 1), [1, 3, 0, 0, 3000, 0]),
            (2_500_000, (3, 1, 1000, 0), [1, 3, 1, 0, 1500, 0]),
        ],
        id="burst-and-then-one-a-second",
    ),
    pytest.param(
        [
            (0, (1, 3, 1000, 1), [1, 1, 0, 0, 334, 0]),
            (333_333, (1, 3, 1000, 1), [0, 1, 0, 1, 1, 1]),
            (333_334, (1, 3, 1000, 1), [1, 1, 0, 0, 334, 0]),
        ],
        id="a-spacing-of-thirds-is-rounded-up",
    ),
    pytest.param(
        [
            (0, (1, 3_000_000, 1000, 1), [1, 1, 0, 0, 1, 0]),
            (0, (1, 3_000_000, 1000, 1), [0, 1, 0, 1, 1, 1]),
            (1, (1, 3_000_000, 1000, 1), [1, 1, 0, 0, 1, 0]),
        ],
        id="a-spacing-below-a-microsecond-is-one",
    ),
    pytest.param(
        [
            (0, (10, 1, 1000, 10), [1, 10, 0, 0, 10_000, 0]),
            (0, (6, 1, 1000, 1), [0, 6, 0, 1000, 6000, 1]),
            (5 * SECOND, (6, 1, 1000, 1), [1, 6, 0, 0, 6000, 0]),
        ],
        id="a-lower-burst-within-two-horizons-is-waited-for",
    ),
    pytest.param(
        [
            (0, (10, 1, 1000, 10), [1, 10, 0, 0, 10_000, 0]),
            (0, (2, 1, 1000, 1), [0, 2, 0, 1000, 2000, 1]),
            (SECOND, (2, 1, 1000, 1), [1, 2, 0, 0, 2000, 0]),
        ],
        id="a-far-lower-burst-is-cut-and-kept-so-when-denying",
    ),
    pytest.param(
        [
            (0, (3, 1, 1000, 3), [1, 3, 0, 0, 3000, 0]),
            (0, (5, 1, 1000, 2), [1, 5, 0, 0, 5000, 0]),
            (0, (5, 1, 1000, 1), [0, 5, 0, 1000, 5000, 1]),
        ],
        id="a-higher-burst-is-more-room-at-once",
    ),
    pytest.param(
        [
            (0, (3, 1, 1000, 3), [1, 3, 0, 0, 3000, 0]),
            (0, (3, 2, 1000, 1), [0, 3, 0, 500, 1500, 1]),
            (2 * SECOND, (3, 2, 1000, 1), [1, 3, 0, 0, 1500, 0]),
        ],
        id="a-higher-rate",
    ),
    pytest.param(
        [
            (0, (*PER_DAY, 1_000_000), [1, 1_000_000, 0, 0, 86_400_000, 0]),
            (86_399, (*PER_DAY, 1), [0, 1_000_000, 0, 1, 86_399_914, 1]),
            (86_400, (*PER_DAY, 1), [1, 1_000_000, 0, 0, 86_400_000, 0]),
        ],
        id="a-million-a-day-exactly",
    ),
    pytest.param(
        [
            (0, (3, 1, 10**12, 1), [1, 3, 2, 0, 10**12, 0]),
            (0, (3, 1, 10**12, 2), [1, 3, 0, 0, 3 * 10**12, 0]),
            (1, (3, 1, 10**12, 1), [0, 3, 0, 10**12, 3 * 10**12, 1]),
        ],
        id="one-in-thirty-years",
    ),
]


@pytest.mark.parametrize("rows", GCRA)
def test_gcra(limiter: Limiter, key: str, rows: list[Row]) -> None:
    play(limiter, key, "gcra", rows)


# The bucket is full at T0, and the next call has a clock that is behind: rule, horizon, and the denial.
STEPS = [
    pytest.param("token_bucket", (10, 1, 1000), 10 * SECOND, [0, 10, 0, 1000, 10_000, 1], id="token_bucket"),
    pytest.param("token_bucket", (10, 3, 1000), 3_333_333, [0, 10, 0, 334, 3334, 1], id="token_bucket-in-thirds"),
    pytest.param("gcra", (3, 1, 1000), 3 * SECOND, [0, 3, 0, 1000, 3000, 1], id="gcra"),
    pytest.param("gcra", (1, 3, 1000), 333_334, [0, 1, 0, 334, 334, 1], id="gcra-in-thirds"),
]


@pytest.mark.parametrize(("script", "rule", "horizon", "denial"), STEPS)
def test_a_step_back_of_up_to_one_horizon_is_waited_for(
    limiter: Limiter, key: str, script: str, rule: tuple[int, ...], horizon: int, denial: list[int]
) -> None:
    limiter.call(script, key, *rule, rule[0], T0)
    for back in (1, horizon // 2, horizon):
        assert keeps_state(limiter, key, script, (-back, (*rule, 1), denial))
    then = T0 + denial[3] * MS
    assert limiter.call(script, key, *rule, 1, then - MS)[0] == 0
    assert limiter.call(script, key, *rule, 1, then)[0] == 1


@pytest.mark.parametrize(("script", "rule", "horizon", "denial"), STEPS)
def test_a_larger_step_back_starts_a_new_wait_and_is_kept_by_the_denial(
    limiter: Limiter, key: str, script: str, rule: tuple[int, ...], horizon: int, denial: list[int]
) -> None:
    limiter.call(script, key, *rule, rule[0], T0)
    back = -horizon - 1
    assert keeps_state(limiter, key, script, (back, (*rule, 0), [1, denial[1], 0, 0, denial[4], 0])), "a peek"
    assert not keeps_state(limiter, key, script, (back, (*rule, 1), denial))
    assert limiter.client.pttl(key) > 0
    assert keeps_state(limiter, key, script, (back, (*rule, 1), denial))
    then = T0 + back + denial[3] * MS
    assert limiter.call(script, key, *rule, 1, then - MS)[0] == 0
    assert limiter.call(script, key, *rule, 1, then)[0] == 1


@pytest.mark.parametrize(("script", "rule", "horizon", "denial"), STEPS)
def test_an_impossible_call_keeps_a_large_step_back_too(
    limiter: Limiter, key: str, script: str, rule: tuple[int, ...], horizon: int, denial: list[int]
) -> None:
    limiter.call(script, key, *rule, rule[0], T0)
    impossible = [0, denial[1], 0, -1, denial[4], 3]
    assert not keeps_state(limiter, key, script, (-horizon - 1, (*rule, rule[0] + 1), impossible))
    assert keeps_state(limiter, key, script, (-horizon - 1, (*rule, 1), denial))
