"""Tables of the concurrent limiter: leases that are acquired, renewed, released, and that end by themselves."""

import pytest

from tests.local.limiter.server import MS, SECOND, T0, Limiter
from tests.local.limiter.tables import Row, keeps_state, play

SCRIPT = "concurrent"

LEASES = [
    pytest.param(
        [
            (0, ("acquire", 2, 1000, "a"), [1, 2, 1, 0, 1000, 0]),
            (0, ("acquire", 2, 1000, "b"), [1, 2, 0, 0, 1000, 0]),
            (0, ("acquire", 2, 1000, "c"), [0, 2, 0, 1000, 1000, 1]),
            (0, ("release", 2, 1000, "a"), [1, 2, 1, 0, 1000, 0]),
            (0, ("acquire", 2, 1000, "c"), [1, 2, 0, 0, 1000, 0]),
        ],
        id="a-released-place-is-free",
    ),
    pytest.param(
        [
            (0, ("acquire", 1, 1000, "a"), [1, 1, 0, 0, 1000, 0]),
            (999_999, ("acquire", 1, 1000, "b"), [0, 1, 0, 1, 1, 1]),
            (1_000_000, ("acquire", 1, 1000, "b"), [1, 1, 0, 0, 1000, 0]),
            (1_000_000, ("renew", 1, 1000, "a"), [0, 1, 0, -1, 1000, 4]),
        ],
        id="a-lease-ends-by-itself-at-its-instant",
    ),
    pytest.param(
        [
            (0, ("acquire", 1, 1000, "a"), [1, 1, 0, 0, 1000, 0]),
            (500 * MS, ("acquire", 1, 1000, "a"), [1, 1, 0, 0, 1000, 0]),
            (1_499_999, ("acquire", 1, 1000, "b"), [0, 1, 0, 1, 1, 1]),
            (1_500_000, ("acquire", 1, 1000, "b"), [1, 1, 0, 0, 1000, 0]),
        ],
        id="who-holds-one-may-ask-again-and-counts-once",
    ),
    pytest.param(
        [
            (0, ("renew", 2, 1000, "a"), [0, 2, 2, -1, 0, 4]),
            (0, ("acquire", 2, 1000, "a"), [1, 2, 1, 0, 1000, 0]),
            (600 * MS, ("renew", 2, 1000, "a"), [1, 2, 1, 0, 1000, 0]),
            (1_599_999, ("renew", 2, 500, "a"), [1, 2, 1, 0, 500, 0]),
            (2_099_999, ("renew", 2, 1000, "a"), [0, 2, 2, -1, 0, 4]),
        ],
        id="only-who-holds-one-renews",
    ),
    pytest.param(
        [
            (0, ("release", 2, 1000, "a"), [1, 2, 2, 0, 0, 0]),
            (0, ("acquire", 2, 1000, "a"), [1, 2, 1, 0, 1000, 0]),
            (0, ("release", 2, 1000, "b"), [1, 2, 1, 0, 1000, 0]),
            (0, ("release", 2, 1000, "a"), [1, 2, 2, 0, 0, 0]),
            (0, ("release", 2, 1000, "a"), [1, 2, 2, 0, 0, 0]),
        ],
        id="to-release-twice-is-as-good-as-once",
    ),
    pytest.param(
        [
            (0, ("peek", 1, 0, ""), [1, 1, 1, 0, 0, 0]),
            (0, ("acquire", 1, 1000, "a"), [1, 1, 0, 0, 1000, 0]),
            (500, ("peek", 1, 1000, "b"), [1, 1, 0, 0, 1000, 0]),
            (999_999, ("peek", 1, 0, ""), [1, 1, 0, 0, 1, 0]),
            (1_000_000, ("peek", 1, 0, ""), [1, 1, 1, 0, 0, 0]),
        ],
        id="a-peek-is-allowed-also-when-full",
    ),
    pytest.param(
        [
            (0, ("acquire", 2, 1000, "a"), [1, 2, 1, 0, 1000, 0]),
            (0, ("acquire", 2, 5000, "b"), [1, 2, 0, 0, 5000, 0]),
            (0, ("acquire", 2, 5000, "c"), [0, 2, 0, 1000, 5000, 1]),
            (1000 * MS, ("acquire", 2, 2500, "c"), [1, 2, 0, 0, 4000, 0]),
        ],
        id="leases-may-differ",
    ),
    pytest.param(
        [
            (0, ("acquire", 3, 1000, "a"), [1, 3, 2, 0, 1000, 0]),
            (0, ("acquire", 3, 2000, "b"), [1, 3, 1, 0, 2000, 0]),
            (0, ("acquire", 3, 3000, "c"), [1, 3, 0, 0, 3000, 0]),
            (0, ("acquire", 2, 3000, "d"), [0, 2, 0, 2000, 3000, 1]),
            (0, ("acquire", 1, 3000, "d"), [0, 1, 0, 3000, 3000, 1]),
            (0, ("peek", 1, 3000, ""), [1, 1, 0, 0, 3000, 0]),
            (0, ("renew", 1, 3000, "a"), [1, 1, 0, 0, 3000, 0]),
            (0, ("acquire", 1, 3000, "b"), [1, 1, 0, 0, 3000, 0]),
            (0, ("release", 1, 3000, "a"), [1, 1, 0, 0, 3000, 0]),
            (0, ("acquire", 5, 3000, "d"), [1, 5, 2, 0, 3000, 0]),
        ],
        id="limit-lowered-and-raised",
    ),
    pytest.param(
        [
            (0, ("acquire", 0, 1000, "a"), [0, 0, 0, -1, 0, 3]),
            (0, ("peek", 0, 0, ""), [0, 0, 0, -1, 0, 3]),
            (0, ("acquire", 1, 1000, "a"), [1, 1, 0, 0, 1000, 0]),
            (0, ("acquire", 0, 1000, "a"), [0, 0, 0, -1, 1000, 3]),
            (0, ("peek", 0, 0, ""), [0, 0, 0, -1, 1000, 3]),
            (0, ("release", 0, 1000, "a"), [1, 0, 0, 0, 0, 0]),
        ],
        id="limit-zero-lets-nobody-in-but-out",
    ),
    pytest.param(
        [
            (10 * SECOND, ("acquire", 1, 1000, "a"), [1, 1, 0, 0, 1000, 0]),
            (9 * SECOND, ("acquire", 1, 1000, "b"), [0, 1, 0, 2000, 2000, 1]),
            (9 * SECOND - 1, ("acquire", 1, 1000, "b"), [0, 1, 0, 1000, 1000, 1]),
            (9 * SECOND - 1, ("peek", 1, 1000, ""), [1, 1, 0, 0, 1000, 0]),
            (10 * SECOND - 2, ("acquire", 1, 1000, "b"), [0, 1, 0, 1, 1, 1]),
            (10 * SECOND - 1, ("acquire", 1, 1000, "b"), [1, 1, 0, 0, 1000, 0]),
        ],
        id="a-lease-from-a-faster-clock-is-cut-and-kept-so-by-a-denial",
    ),
    pytest.param(
        [
            (10 * SECOND, ("acquire", 1, 1000, "a"), [1, 1, 0, 0, 1000, 0]),
            (0, ("release", 1, 1000, "a"), [1, 1, 1, 0, 0, 0]),
            (0, ("acquire", 1, 1000, "b"), [1, 1, 0, 0, 1000, 0]),
        ],
        id="what-was-taken-on-a-faster-clock-can-be-released",
    ),
    pytest.param(
        [
            (0, ("acquire", 3, 1000, "a b\nc"), [1, 3, 2, 0, 1000, 0]),
            (0, ("acquire", 3, 1000, b"\x00\xff"), [1, 3, 1, 0, 1000, 0]),
            (0, ("acquire", 3, 1000, "x" * 1000), [1, 3, 0, 0, 1000, 0]),
            (0, ("release", 3, 1000, b"\x00\xff"), [1, 3, 1, 0, 1000, 0]),
            (0, ("acquire", 3, 1000, "0"), [1, 3, 0, 0, 1000, 0]),
        ],
        id="any-text-is-an-id",
    ),
]


@pytest.mark.parametrize("rows", LEASES)
def test_concurrent(limiter: Limiter, key: str, rows: list[Row]) -> None:
    play(limiter, key, SCRIPT, rows)


def test_a_peek_writes_nothing_even_where_leases_have_ended(limiter: Limiter, key: str) -> None:
    play(limiter, key, SCRIPT, [(0, ("acquire", 2, 1000, "a"), [1, 2, 1, 0, 1000, 0])])
    assert keeps_state(limiter, key, SCRIPT, (2 * SECOND, ("peek", 2, 0, ""), [1, 2, 2, 0, 0, 0]))
    assert keeps_state(limiter, key, SCRIPT, (2 * SECOND, ("peek", 0, 0, ""), [0, 0, 0, -1, 0, 3]))


def test_a_peek_a_release_and_a_renewal_create_no_key(limiter: Limiter, key: str) -> None:
    for verb in ("peek", "release", "renew"):
        limiter.call(SCRIPT, key, verb, 2, 1000, "a", T0)
        assert not limiter.client.exists(key)


@pytest.mark.parametrize("verb", ["acquire", "renew"])
def test_a_denial_writes_nothing(limiter: Limiter, key: str, verb: str) -> None:
    play(limiter, key, SCRIPT, [(0, ("acquire", 1, 1000, "a"), [1, 1, 0, 0, 1000, 0])])
    reply = [0, 1, 0, 500, 500, 1] if verb == "acquire" else [0, 1, 0, -1, 500, 4]
    assert keeps_state(limiter, key, SCRIPT, (500 * MS, (verb, 1, 1000, "b"), reply))
    assert keeps_state(limiter, key, SCRIPT, (500 * MS, ("acquire", 0, 1000, "b"), [0, 0, 0, -1, 500, 3]))


def test_a_denial_drops_only_what_has_ended(limiter: Limiter, key: str) -> None:
    limiter.call(SCRIPT, key, "acquire", 2, 1000, "a", T0)
    limiter.call(SCRIPT, key, "acquire", 2, 5000, "b", T0)
    ends = limiter.client.pexpiretime(key)
    assert limiter.call(SCRIPT, key, "acquire", 1, 5000, "c", T0 + SECOND) == [0, 1, 0, 4000, 4000, 1]
    assert limiter.client.zrange(key, 0, -1) == [b"b"]
    assert limiter.client.pexpiretime(key) == ends


def test_a_call_exactly_at_retry_gets_the_place(limiter: Limiter, key: str) -> None:
    for at, (name, lease) in enumerate((("a", 700), ("b", 900), ("c", 400))):
        limiter.call(SCRIPT, key, "acquire", 3, lease, name, T0 + 333 * at)
    reply = limiter.call(SCRIPT, key, "acquire", 2, 1000, "d", T0 + 1234)
    then = T0 + 1234 + reply[3] * MS
    assert limiter.call(SCRIPT, limiter.copy(key), "acquire", 2, 1000, "d", then - MS)[0] == 0
    assert limiter.call(SCRIPT, limiter.copy(key), "acquire", 2, 1000, "d", then)[0] == 1
    reset = T0 + 1234 + reply[4] * MS
    assert limiter.call(SCRIPT, key, "peek", 2, 0, "", reset - MS)[2:5] == [1, 0, 1]
    assert limiter.call(SCRIPT, key, "peek", 2, 0, "", reset) == [1, 2, 2, 0, 0, 0]
