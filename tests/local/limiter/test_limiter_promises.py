"""Guarantees of every limiter, whatever its algorithm; also of the concurrent one where they apply."""

import random

import pytest
from redis.exceptions import OutOfMemoryError

from tests.local.limiter.server import DAY, MS, SECOND, T0, Argument, Limiter
from tests.local.limiter.shapes import ALL, FIVE_A_SECOND, Shape
from tests.local.limiter.walks import chance_of

ALL_SCRIPTS = pytest.mark.parametrize("script", [*FIVE_A_SECOND, "concurrent"])
HELD = ("acquire", 1, 1000)


@ALL
def test_a_fresh_key_admits_exactly_the_limit(limiter: Limiter, key: str, shape: Shape) -> None:
    replies = [shape.call(limiter, key, 1, T0) for _ in range(7)]
    assert [reply[0] for reply in replies] == [1, 1, 1, 1, 1, 0, 0]
    assert [reply[2] for reply in replies] == [4, 3, 2, 1, 0, 0, 0]
    assert {reply[1] for reply in replies} == {5}
    assert [reply[5] for reply in replies] == [0, 0, 0, 0, 0, 1, 1]


@ALL
def test_all_or_nothing(limiter: Limiter, key: str, shape: Shape) -> None:
    assert shape.call(limiter, key, 3, T0)[:3] == [1, 5, 2]
    assert shape.call(limiter, key, 3, T0)[:3] == [0, 5, 2]
    assert shape.call(limiter, key, 2, T0)[:3] == [1, 5, 0]


@ALL
def test_a_peek_at_a_fresh_key_creates_nothing(limiter: Limiter, key: str, shape: Shape) -> None:
    assert shape.call(limiter, key, 0, T0) == [1, 5, 5, 0, 0, 0]
    assert not limiter.client.exists(key)


@ALL
@pytest.mark.parametrize("at", [T0, T0 + 300 * MS, T0 - 300 * MS, T0 - DAY, T0 + DAY], ids=str)
def test_a_peek_writes_nothing(limiter: Limiter, key: str, shape: Shape, at: int) -> None:
    shape.call(limiter, key, 2, T0)
    before = limiter.state(key)
    assert shape.call(limiter, key, 0, at)[:2] == [1, 5]
    assert limiter.state(key) == before


@ALL
def test_a_peek_is_allowed_when_nothing_is_left(limiter: Limiter, key: str, shape: Shape) -> None:
    shape.spent(limiter, key, T0)
    assert shape.call(limiter, key, 0, T0) == [1, 5, 0, 0, shape.call(limiter, key, 1, T0)[4], 0]


@ALL
def test_a_peek_says_what_the_next_call_meets(limiter: Limiter, key: str, shape: Shape) -> None:
    shape.call(limiter, key, 2, T0)
    for at in (T0, T0 + 450 * MS + 7, T0 - 450 * MS, T0 + 1700 * MS):
        left = shape.call(limiter, key, 0, at)[2]
        probe = limiter.copy(key)
        assert shape.call(limiter, probe, left + 1, at)[0] == 0
        assert shape.call(limiter, probe, left, at)[:3] == [1, 5, 0] if left else True


@ALL
@pytest.mark.parametrize("at", [T0, T0 + 10 * MS + 3, T0 - 10 * MS], ids=["same", "later", "within-a-step-back"])
def test_a_denial_writes_nothing(limiter: Limiter, key: str, shape: Shape, at: int) -> None:
    shape.spent(limiter, key, T0)
    before = limiter.state(key)
    assert shape.call(limiter, key, 1, at)[0] == 0
    assert shape.call(limiter, key, 6, at)[5] == 3
    assert limiter.state(key) == before


@ALL
@pytest.mark.parametrize("cost", [0, 1, 5])
def test_limit_zero_denies_all_and_touches_nothing(limiter: Limiter, key: str, shape: Shape, cost: int) -> None:
    assert shape.killed.call(limiter, key, cost, T0) == [0, 0, 0, -1, 0, 3]
    assert not limiter.client.exists(key)
    shape.call(limiter, key, 2, T0)
    before = limiter.state(key)
    reply = shape.killed.call(limiter, key, cost, T0)
    assert (reply[:4], reply[5]) == ([0, 0, 0, -1], 3)
    assert limiter.state(key) == before
    assert shape.call(limiter, key, 0, T0)[2] == 3, "when the switch is back, nobody has won or lost"


@ALL
def test_a_peek_at_limit_zero_writes_nothing_however_far_the_clock_went_back(
    limiter: Limiter, key: str, shape: Shape
) -> None:
    shape.spent(limiter, key, T0)
    before = limiter.state(key)
    assert shape.killed.call(limiter, key, 0, T0 - DAY)[5] == 3
    assert limiter.state(key) == before


@ALL
@pytest.mark.parametrize("cost", [6, 1000, 10**12])
def test_more_than_the_limit_is_impossible_and_leaves_no_trace(
    limiter: Limiter, key: str, shape: Shape, cost: int
) -> None:
    assert shape.call(limiter, key, cost, T0) == [0, 5, 5, -1, 0, 3]
    assert not limiter.client.exists(key)


@ALL
def test_an_empty_cost_is_one_and_so_is_none(limiter: Limiter, key: str, shape: Shape) -> None:
    assert shape.call(limiter, key, "", T0)[2] == 4
    other = limiter.fresh_key()
    assert limiter.call(shape.script, other, *shape.rule)[2] == 4


def scattered(shape: Shape, limiter: Limiter, key: str, chance: random.Random) -> int:
    """A state after some calls at random times; returns the time of the last one."""
    at = T0 + chance.randrange(3 * SECOND)
    for _ in range(chance.randrange(1, 9)):
        shape.call(limiter, key, chance.randrange(1, 4), at)
        at += chance.randrange(400 * MS)
    return at


@ALL
def test_a_call_exactly_at_retry_is_admitted_and_not_earlier(limiter: Limiter, shape: Shape) -> None:
    chance = chance_of("retry", shape.script)
    denied = 0
    while denied < 60:
        key = limiter.fresh_key()
        at, cost = scattered(shape, limiter, key, chance), chance.randrange(1, 6)
        reply = shape.call(limiter, limiter.copy(key), cost, at)
        if reply[0]:
            continue
        denied += 1
        wait_us = reply[3] * MS
        assert reply[3] > 0
        told = f"key at {at}, cost {cost}: {reply}"
        assert shape.call(limiter, limiter.copy(key), cost, at + wait_us - MS)[0] == 0, told
        assert shape.call(limiter, limiter.copy(key), cost, at + wait_us)[0] == 1, told
        assert shape.call(limiter, limiter.copy(key), cost, at + wait_us + chance.randrange(5 * SECOND))[0] == 1, told


@ALL
def test_at_reset_the_state_equals_a_fresh_key_and_not_earlier(limiter: Limiter, shape: Shape) -> None:
    chance = chance_of("reset", shape.script)
    for _ in range(60):
        key = limiter.fresh_key()
        at = scattered(shape, limiter, key, chance)
        shape.call(limiter, key, 1, at + 4 * SECOND)
        at += 4 * SECOND + chance.randrange(500 * MS)
        reply = shape.call(limiter, key, 1, at)
        reset = at + reply[4] * MS
        assert reply[4] > 0
        assert shape.call(limiter, key, 0, reset - MS)[4] == 1
        assert shape.call(limiter, key, 0, reset) == [1, 5, 5, 0, 0, 0]
        fresh = limiter.fresh_key()
        for later, cost in ((0, 2), (100 * MS, 2), (150 * MS, 3), (600 * MS, 2), (1900 * MS, 5)):
            assert shape.call(limiter, key, cost, reset + later) == shape.call(limiter, fresh, cost, reset + later)


@ALL
def test_an_admitted_call_gives_a_key_without_an_end_one_again(limiter: Limiter, key: str, shape: Shape) -> None:
    shape.call(limiter, key, 1, T0)
    limiter.client.persist(key)
    assert limiter.client.pttl(key) == -1
    shape.call(limiter, key, 0, T0)
    assert shape.call(limiter, key, 5, T0)[0] == 0
    assert limiter.client.pttl(key) == -1, "neither a peek nor a denial writes"
    assert shape.call(limiter, key, 1, T0)[0] == 1
    assert limiter.client.pttl(key) > 0


def test_an_acquired_lease_gives_a_key_without_an_end_one_again(limiter: Limiter, key: str) -> None:
    limiter.call("concurrent", key, *HELD, "a", T0)
    limiter.client.persist(key)
    assert limiter.call("concurrent", key, *HELD, "b", T0)[0] == 0
    assert limiter.client.pttl(key) == -1
    assert limiter.call("concurrent", key, *HELD, "a", T0)[0] == 1
    assert limiter.client.pttl(key) > 0


SLOW_MS = 10**9
SLOW: dict[str, tuple[Argument, ...]] = {
    "token_bucket": (5, 1, SLOW_MS, 2),
    "gcra": (5, 1, SLOW_MS, 2),
    "fixed_window": (5, SLOW_MS, 2),
    "sliding_counter": (5, SLOW_MS, 2),
    "rolling_window": (5, SLOW_MS, 0, 2),
    "rolling_ring": (5, SLOW_MS, 0, 2),
    "concurrent": ("acquire", 5, SLOW_MS, "a"),
}


@ALL_SCRIPTS
@pytest.mark.parametrize("clock", [(), ("",)], ids=["none", "empty"])
def test_without_an_instant_the_servers_clock_decides(
    limiter: Limiter, key: str, script: str, clock: tuple[Argument, ...]
) -> None:
    """An earlier reply and a peek at a later instant differ by exactly the time between them, in ms."""
    args = SLOW[script]
    before = limiter.now_us()
    told = limiter.call(script, key, *args, *clock)
    after = limiter.now_us()
    peek = ("peek", 5, 0, "") if script == "concurrent" else (*args[:-1], 0)
    seen = limiter.call(script, key, *peek, after)
    assert told[:3] == seen[:3] == [1, 5, 4 if script == "concurrent" else 3]
    assert 0 <= told[4] - seen[4] <= (after - before) // MS + 2


@ALL_SCRIPTS
def test_over_maxmemory_the_server_refuses_every_call(limiter: Limiter, key: str, script: str) -> None:
    rule = FIVE_A_SECOND.get(script, ())
    calls = [(*rule, 1), (*rule, 0)] if rule else [(*HELD, "a"), ("peek", 1, 0, "")]
    limiter.client.config_set("maxmemory", 1)
    try:
        for args in calls:
            with pytest.raises(OutOfMemoryError):
                limiter.call(script, key, *args, T0)
    finally:
        limiter.client.config_set("maxmemory", 0)
    assert not limiter.client.exists(key)


@ALL_SCRIPTS
def test_the_examples_of_the_manifest(limiter: Limiter, key: str, script: str) -> None:
    found = limiter.release.script(script)
    assert found is not None
    answered = [tuple(limiter.call(script, key, *example.args)) for example in found.examples]
    assert answered == [example.reply for example in found.examples]
