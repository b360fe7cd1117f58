"""Bad input is an error that starts with RLCTL_ARG and a broken state one with RLCTL_STATE: neither ever admits."""

import struct
from collections.abc import Callable

import pytest
from redis import ResponseError

from tests.local.limiter.server import MS, T0, Argument, Limiter
from tests.local.limiter.shapes import FIVE_A_SECOND

GOOD: dict[str, tuple[Argument, ...]] = {
    **{script: (*rule, 1, T0) for script, rule in FIVE_A_SECOND.items()},
    "concurrent": ("acquire", 5, 1000, "a", T0),
}
EACH = pytest.mark.parametrize("script", GOOD)
# The arguments that are numbers, and those of them that may be empty.
NUMBERS = {script: [at for at, value in enumerate(args) if isinstance(value, int)] for script, args in GOOD.items()}
MAY_BE_EMPTY = {"min_interval_ms", "cost", "now_us"}
# A negative cost is a refund.
BAD_REFUNDS = ("-01", "-1.5", "-1e3", "-0x1", "- 1", "-1 ", "-9007199254740992", "-" + "9" * 400)
BAD = [
    *(
        "+1",
        "-1",
        "-0",
        "1.5",
        "1.0",
        "1.",
        ".5",
        "0x10",
        "0X1F",
        "1e3",
        "1E3",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "infinity",
    ),
    *(" 1", "1 ", "\t1", "1\n", "1 2", "1,000", "1_000", "one", "true", "nil", "--1", "\u0661", b"1\x00", b"\x00"),
    *("9" * 20, "9" * 400, "18446744073709551617", "9007199254740992"),
]


def names(limiter: Limiter, script: str) -> tuple[str, ...]:
    found = limiter.release.script(script)
    assert found is not None
    return found.args


@pytest.mark.parametrize(
    ("script", "at"),
    [pytest.param(script, at, id=f"{script}-{at}") for script, numbers in NUMBERS.items() for at in numbers],
)
def test_every_number_is_a_whole_number_and_not_too_large(limiter: Limiter, key: str, script: str, at: int) -> None:
    good = GOOD[script]
    name = names(limiter, script)[at]
    bad = [*BAD, *BAD_REFUNDS, *([] if name in MAY_BE_EMPTY else [""])]
    if name == "cost":
        bad.remove("-1")
    answers = {value: limiter.refusal(script, key, *good[:at], value, *good[at + 1 :]) for value in bad}
    assert {value: answer for value, answer in answers.items() if not answer.startswith("RLCTL_ARG ")} == {}
    assert not limiter.client.exists(key)


@EACH
def test_leading_zeros_are_no_sign_of_anything(limiter: Limiter, key: str, script: str) -> None:
    zeros = [f"00{value}" if isinstance(value, int) else value for value in GOOD[script]]
    assert limiter.call(script, key, *zeros) == limiter.call(script, limiter.fresh_key(), *GOOD[script])


@EACH
def test_too_few_arguments(limiter: Limiter, key: str, script: str) -> None:
    needed = 4 if script == "concurrent" else len(GOOD[script]) - (3 if "rolling" in script else 2)
    for count in range(needed):
        assert limiter.refusal(script, key, *GOOD[script][:count]).startswith("RLCTL_ARG "), count
    assert limiter.call(script, key, *GOOD[script][:needed])[0] == 1, "what may be left out may"


@EACH
def test_too_many_arguments(limiter: Limiter, key: str, script: str) -> None:
    for more in ("", "1", "x"):
        assert limiter.refusal(script, key, *GOOD[script], more).startswith("RLCTL_ARG ")
    assert not limiter.client.exists(key)


@EACH
@pytest.mark.parametrize("keys", [0, 2, 3])
def test_exactly_one_key(limiter: Limiter, script: str, keys: int) -> None:
    named = [limiter.fresh_key() for _ in range(keys)]
    with pytest.raises(ResponseError, match=r"^RLCTL_ARG "):
        limiter.client.evalsha(limiter.sha1(script), keys, *named, *GOOD[script])
    assert not named or not limiter.client.exists(*named)


REFUSED = [
    pytest.param("token_bucket", (5, 0, 1000, 1), id="token_bucket-rate-0"),
    pytest.param("token_bucket", (5, 5, 0, 1), id="token_bucket-period-0"),
    pytest.param("gcra", (5, 0, 1000, 1), id="gcra-rate-0"),
    pytest.param("gcra", (5, 5, 0, 1), id="gcra-period-0"),
    pytest.param("fixed_window", (5, 0, 1), id="fixed_window-window-0"),
    pytest.param("sliding_counter", (5, 0, 1), id="sliding_counter-window-0"),
    pytest.param("rolling_window", (5, 0, 0, 1), id="rolling_window-window-0"),
    pytest.param("rolling_window", (5, 1000, 1001, 1), id="rolling_window-interval-longer-than-the-window"),
    pytest.param("rolling_ring", (5, 0, 0, 1), id="rolling_ring-window-0"),
    pytest.param("rolling_ring", (5, 1000, 1001, 1), id="rolling_ring-interval-longer-than-the-window"),
    pytest.param("rolling_window", (10_001, 1000, 0, 1), id="rolling_window-limit-above-ten-thousand"),
    pytest.param("rolling_window", (10_001, 1000, 0, 0), id="rolling_window-limit-above-ten-thousand-peek"),
    pytest.param("rolling_ring", (1_000_001, 1000, 0, 1), id="rolling_ring-limit-above-a-million"),
    pytest.param("rolling_ring", (5, 2**32, 0, 1), id="rolling_ring-window-of-2-to-the-32"),
    pytest.param("token_bucket", (9_007_199_255, 1, 1000, 1), id="token_bucket-capacity-times-period"),
    pytest.param("token_bucket", (9_007_199_255, 1, 1000, 0), id="token_bucket-capacity-times-period-peek"),
    pytest.param("gcra", (4, 1, 10**12, 1), id="gcra-burst-times-spacing"),
    pytest.param("sliding_counter", (5, 3 * 10**12, 1), id="sliding_counter-window"),
    pytest.param("sliding_counter", (3_002_399_751_580_331, 1000, 1), id="sliding_counter-three-times-the-limit"),
    pytest.param("concurrent", ("acquire", 5, 1000, ""), id="concurrent-acquire-without-an-id"),
    pytest.param("concurrent", ("release", 5, 1000, ""), id="concurrent-release-without-an-id"),
    pytest.param("concurrent", ("renew", 5, 1000, ""), id="concurrent-renew-without-an-id"),
    pytest.param("concurrent", ("acquire", 5, 0, "a"), id="concurrent-acquire-with-lease-0"),
    pytest.param("concurrent", ("release", 5, 0, "a"), id="concurrent-release-with-lease-0"),
    pytest.param("concurrent", ("renew", 5, 0, "a"), id="concurrent-renew-with-lease-0"),
    pytest.param("concurrent", ("peek", 5, "", ""), id="concurrent-peek-with-an-empty-lease"),
    *(
        pytest.param("concurrent", (verb, 5, 1000, "a"), id=f"concurrent-verb-{at}")
        for at, verb in enumerate(["", "Acquire", "ACQUIRE", "acquire ", "take", "1"])
    ),
]


@pytest.mark.parametrize(("script", "args"), REFUSED)
def test_what_makes_no_sense_is_refused(limiter: Limiter, key: str, script: str, args: tuple[Argument, ...]) -> None:
    assert limiter.refusal(script, key, *args, T0).startswith("RLCTL_ARG ")
    assert not limiter.client.exists(key)


@EACH
def test_a_refused_call_leaves_the_state_alone(limiter: Limiter, key: str, script: str) -> None:
    limiter.call(script, key, *GOOD[script])
    before = limiter.state(key)
    assert limiter.refusal(script, key, *GOOD[script][:-1], "soon").startswith("RLCTL_ARG ")
    assert limiter.refusal(script, key, *GOOD[script], "more").startswith("RLCTL_ARG ")
    assert limiter.state(key) == before


@pytest.mark.parametrize("script", ["token_bucket", "gcra"])
def test_a_rule_that_reduces_is_not_too_large(limiter: Limiter, key: str, script: str) -> None:
    """Thirty million million a year: a large number as an argument, but one in a microsecond in use."""
    year_ms = 31_536_000_000
    assert limiter.call(script, key, 1000, year_ms * 1000, year_ms, 10, T0) == [1, 1000, 990, 0, 1, 0]


OTHER_TYPES: list[Callable[[Limiter, str], object]] = [
    lambda limiter, key: limiter.client.rpush(key, "a"),
    lambda limiter, key: limiter.client.sadd(key, "a"),
    lambda limiter, key: limiter.client.hset(key, "l", "1"),
    lambda limiter, key: limiter.client.xadd(key, {"a": "1"}),
]
SORTED_SETS = {"rolling_window", "concurrent"}


@EACH
@pytest.mark.parametrize("make", OTHER_TYPES, ids=["list", "set", "hash", "stream"])
def test_a_key_of_another_type_is_an_error(
    limiter: Limiter, key: str, script: str, make: Callable[[Limiter, str], object]
) -> None:
    make(limiter, key)
    before = limiter.state(key)
    for args in asked(script):
        assert limiter.refusal(script, key, *args).startswith("WRONGTYPE ")
    assert limiter.state(key) == before


@EACH
def test_the_other_kind_of_state_is_an_error(limiter: Limiter, key: str, script: str) -> None:
    if script in SORTED_SETS:
        limiter.client.set(key, "1")
    else:
        limiter.client.zadd(key, {"1": T0})
    for args in asked(script):
        assert limiter.refusal(script, key, *args).startswith("WRONGTYPE ")


def asked(script: str) -> list[tuple[Argument, ...]]:
    """A call that would be admitted, a peek, and a call that would be denied anyway."""
    if script == "concurrent":
        verbs: tuple[Argument, ...] = ("acquire", "release", "renew", "peek")
        return [(verb, limit, 1000, "a", T0) for verb in verbs for limit in (5, 0)]
    rule = FIVE_A_SECOND[script]
    return [(*rule, cost, T0) for cost in (1, 0, 6)] + [(0, *rule[1:], 1, T0)]


def ring(newest: int, oldest: int, head: int, live: int, slots: int, body: int) -> bytes:
    """A ring's header, in milliseconds, and a body of this many bytes."""
    return (
        struct.pack(">QQ", newest, oldest)[2:8]
        + struct.pack(">Q", oldest)[2:]
        + struct.pack(">III", head, live, slots)
        + bytes(body)
    )


NOW_MS = T0 // MS
TEXTS = [
    "",
    "x",
    "none",
    "-1",
    "1.5",
    "1e3",
    "nan",
    " 1",
    "x" * 24,
    "0" * 24,
    "A" * 24,
    " " * 24,
    "x" * 200,
    b"\xff" * 24,
]
DOUBLES = [
    *(
        struct.pack("<ddd", *broken)
        for broken in ((-1, 1, 1), (1, -1, 1), (1, 1, -1), (0.5, 1, 1), (1, 1.5, 1), (1, 1, 0.5))
    ),
    *(struct.pack("<ddd", *[value] * 3) for value in (float("nan"), float("inf"), float("-inf"), 2.0**53, 1e300)),
    struct.pack("<dd", 1, 1),
    struct.pack("<dddd", 1, 1, 1, 1),
]
BROKEN: dict[str, list[str | bytes]] = {
    "token_bucket": [*TEXTS, "5", *DOUBLES, struct.pack("<ddd", 1, 0, 1)],
    "sliding_counter": [*TEXTS, "5", *DOUBLES],
    "gcra": [text for text in TEXTS if text != "0" * 24],
    "fixed_window": [*(text for text in TEXTS if text != "0" * 24), "5", "9" * 13],
    "rolling_ring": [
        *(text for text in TEXTS if text),
        ring(NOW_MS, NOW_MS, 1, 1, 0, 20),
        ring(NOW_MS, NOW_MS, 5, 1, 5, 20),
        ring(NOW_MS, NOW_MS, 1, 6, 5, 20),
        ring(NOW_MS, NOW_MS + 1, 1, 1, 5, 20),
        ring(NOW_MS, NOW_MS, 1, 1, 1_000_001, 20),
        ring(NOW_MS, NOW_MS, 1, 1, 5, 20)[:23],
        # Truncated where an entry must be read: the oldest has expired, or another limit repacks the ring.
        ring(NOW_MS, NOW_MS - 5000, 4, 4, 5, 3),
        ring(NOW_MS, NOW_MS, 4, 4, 9, 0),
    ],
}


@pytest.mark.parametrize("script", BROKEN)
def test_a_broken_state_is_an_error_and_stays_as_it_is(limiter: Limiter, key: str, script: str) -> None:
    told: dict[str | bytes, str] = {}
    for state in BROKEN[script]:
        limiter.client.set(key, state)
        told[state] = limiter.refusal(script, key, *GOOD[script])
        assert limiter.client.get(key) == (state.encode() if isinstance(state, str) else state)
    assert {state: error for state, error in told.items() if not error.startswith("RLCTL_STATE ")} == {}


def test_an_empty_text_is_no_fresh_ring(limiter: Limiter, key: str) -> None:
    """GETRANGE of the key replies as for a missing key, so only the write fails."""
    limiter.client.set(key, "")
    assert limiter.refusal("rolling_ring", key, *GOOD["rolling_ring"]).startswith("RLCTL_STATE ")
    assert limiter.client.get(key) == b""


@pytest.mark.parametrize(
    "members", [{"a": T0}, {"a": T0 + 1, "1": T0}, {"1": T0 + 0.5}, {"1": -5}, {"1": float("inf")}], ids=str
)
def test_a_log_with_a_strange_newest_member_is_an_error(limiter: Limiter, key: str, members: dict[str, float]) -> None:
    limiter.client.zadd(key, members)
    for cost in (1, 0):
        answer = limiter.refusal("rolling_window", key, *FIVE_A_SECOND["rolling_window"], cost, T0)
        assert answer.startswith("RLCTL_STATE ")
