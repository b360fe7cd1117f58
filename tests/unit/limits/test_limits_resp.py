from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.errors import InvalidFile, NotFound
from rlctl.limiter import BrokenState, Cause, Concurrent, FixedWindow, InvalidLimit, TokenBucket
from rlctl.limiter.core.calls import ConcurrentCall, CostedCall, script_arguments, script_for
from rlctl.limits.failures import ErrorReply, Failure, failure_of
from rlctl.limits.release import Script
from rlctl.limits.resp import Incomplete, Reply, command, decision_numbers, parse
from rlctl.scripts.release import load_release

RELEASE = load_release()


def words(message: bytes) -> list[bytes]:
    reply, end = parse(message)
    assert end == len(message)
    assert isinstance(reply, list)
    return reply


def with_args(name: str, *args: str) -> Script:
    return replace(script(name), args=args)


def script(name: str) -> Script:
    found = RELEASE.script(name)
    assert found is not None
    return found


def test_a_call_is_one_evalsha_with_one_key() -> None:
    call = CostedCall(script("token_bucket"), TokenBucket(10, 60, 60_000), "api")
    sha1 = script("token_bucket").sha1.encode()
    for cost in (0, 1, 7):
        assert words(call.message(b"u1", cost)) == [
            *(b"EVALSHA", sha1, b"1", b"rl:{u1}:api:token_bucket:1"),
            *(b"10", b"1", b"1000", b"%d" % cost),
        ]


def test_a_lease_call_names_verb_and_request() -> None:
    call = ConcurrentCall(script("concurrent"), Concurrent(3, 500), "api")
    message = words(call.message(b"u1", "acquire", "r:1"))
    assert message[3:] == [b"rl:{u1}:api:concurrent:1", b"acquire", b"3", b"500", b"r:1"]
    assert words(call.message(b"u1", "peek", ""))[-1] == b""


def test_calls_of_a_service_go_to_its_own_keys() -> None:
    counted = CostedCall(script("fixed_window"), FixedWindow(5, 1000), "api", shadow=True, service="checkout")
    assert words(counted.message(b"u", 2))[3] == b"rl:checkout:{u}:api:fixed_window:1:1000:shadow"
    leased = ConcurrentCall(script("concurrent"), Concurrent(3, 500), "api", service="checkout")
    assert words(leased.message(b"u", "peek", ""))[3] == leased.key(b"u") == b"rl:checkout:{u}:api:concurrent:1"


def test_arguments_go_where_the_manifest_says() -> None:
    reordered = with_args("fixed_window", "now_us", "cost", "window_ms", "limit")
    message = words(CostedCall(reordered, FixedWindow(5, 1000), "api").message(b"u", 2))
    assert message[4:] == [b"", b"2", b"1000", b"5"]


def test_an_argument_that_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(InvalidFile, match="needs colour"):
        CostedCall(with_args("fixed_window", "limit", "window_ms", "colour"), FixedWindow(5, 1000), "api")
    with pytest.raises(NotFound):
        script_for(replace(RELEASE, scripts=()), FixedWindow(5, 1000))


@pytest.mark.parametrize("name", [one.name for one in RELEASE.scripts])
def test_now_us_is_never_sent(name: str) -> None:
    one = script(name)
    assert len(script_arguments(one, dict.fromkeys(one.args, "1"))) == len(one.args) - 1


@pytest.mark.parametrize("cost", [-1, 2**53])
def test_a_bad_cost_is_refused_before_it_is_sent(cost: int) -> None:
    with pytest.raises(InvalidLimit):
        CostedCall(script("fixed_window"), FixedWindow(5, 1000), "api").message(b"u", cost)


@pytest.mark.parametrize(
    ("data", "reply"),
    [
        (b"+OK\r\n", b"OK"),
        (b":-5\r\n", -5),
        (b"$3\r\na\r\n\r\n", b"a\r\n"),
        (b"$-1\r\n", None),
        (b"*-1\r\n", None),
        (b"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n", [1, [b"x"]]),
        (b"*0\r\n", []),
    ],
)
def test_replies(data: bytes, reply: Reply) -> None:
    assert parse(data) == (reply, len(data))
    for end in range(len(data)):
        with pytest.raises(Incomplete):
            parse(data[:end])


def test_an_error_reply_is_a_value() -> None:
    reply, _end = parse(b"-MOVED 5 10.0.0.1:7000\r\n")
    assert isinstance(reply, ErrorReply)
    assert (reply.prefix, reply.text) == ("MOVED", "MOVED 5 10.0.0.1:7000")


@pytest.mark.parametrize(
    "data", [b"HTTP/1.1 400\r\n", b"\r\n", b":x\r\n", b"*99999999999\r\n", b"*1\r\n" * 20 + b":1\r\n"]
)
def test_another_protocol_is_a_failure(data: bytes) -> None:
    with pytest.raises(Failure) as failure:
        parse(data)
    assert failure.value.cause is Cause.ERROR


@given(st.lists(st.integers(-(2**53), 2**53), min_size=6, max_size=6))
def test_the_fast_path_reads_what_the_parser_reads(numbers: list[int]) -> None:
    data = b"*6\r\n" + b"".join(b":%d\r\n" % number for number in numbers)
    assert decision_numbers(data) == numbers == parse(data)[0]
    assert all(decision_numbers(data[:end]) is None for end in range(len(data)))


@pytest.mark.parametrize("data", [b"", b"*6\r\n:1\r\n", b"*6\r\n:1\r\n:a\r\n:1\r\n:1\r\n:1\r\n:1\r\n", b"+OK\r\n"])
def test_the_fast_path_leaves_the_rest_to_the_parser(data: bytes) -> None:
    assert decision_numbers(data) is None


@given(st.lists(st.binary(), min_size=1))
def test_commands_are_lists_of_bytes(given_words: list[bytes]) -> None:
    assert words(command(*given_words)) == given_words


@pytest.mark.parametrize(
    ("text", "cause", "is_indeterminate"),
    [
        ("NOSCRIPT No matching script.", Cause.NO_SCRIPT, False),
        ("OOM command not allowed", Cause.OOM, False),
        ("READONLY You can't write", Cause.READONLY, False),
        ("CLUSTERDOWN The cluster is down", Cause.CLUSTER_DOWN, False),
        ("TRYAGAIN Multiple keys", Cause.TRY_AGAIN, False),
        ("LOADING Redis is loading", Cause.LOADING, False),
        ("MASTERDOWN Link with MASTER is down", Cause.MASTER_DOWN, False),
        ("NOREPLICAS Not enough good replicas", Cause.NO_REPLICAS, False),
        ("MISCONF Redis is configured", Cause.MISCONF, False),
        ("BUSY Redis is busy running a script", Cause.BUSY, False),
        ("NOAUTH Authentication required.", Cause.AUTH, False),
        ("WRONGPASS invalid username-password pair", Cause.AUTH, False),
        ("NOPERM User limiter has no permissions", Cause.AUTH, False),
        ("ERR something inside a script", Cause.ERROR, True),
    ],
)
def test_error_replies_have_a_kind(text: str, cause: Cause, *, is_indeterminate: bool) -> None:
    failure = failure_of(ErrorReply(text), "here:1")
    assert (failure.cause, failure.cause.is_indeterminate) == (cause, is_indeterminate)
    assert failure.evidence == f"here:1: {text}"


def test_the_callers_fault_and_a_broken_key_are_no_failures_of_redis() -> None:
    with pytest.raises(InvalidLimit):
        failure_of(ErrorReply("RLCTL_ARG window_ms is at least 1"), "here:1")
    for text in ("RLCTL_STATE not a count: k", "WRONGTYPE Operation against a key"):
        with pytest.raises(BrokenState):
            failure_of(ErrorReply(text), "here:1")


def nested(depth: int) -> bytes:
    return b"*1\r\n" * depth + b":1\r\n"


EDGES: list[tuple[str, Callable[[int], bytes], int]] = [
    ("digits", lambda count: b":%b\r\n" % (b"9" * count), 20),
    ("a sign and digits", lambda count: b":-%b\r\n" % (b"9" * (count - 1)), 20),
    ("depth", nested, 8),
    ("items", lambda count: b"*%d\r\n" % count + b":1\r\n" * count, 262_144),
    ("a line", lambda count: b"+%b\r\n" % (b"a" * (count - 3)), 65_536),
]


@pytest.mark.parametrize(("make", "most"), [edge[1:] for edge in EDGES], ids=[edge[0] for edge in EDGES])
def test_the_largest_reply(make: Callable[[int], bytes], most: int) -> None:
    assert parse(make(most))[1] == len(make(most))
    with pytest.raises(Failure, match="not a reply of Redis"):
        parse(make(most + 1))


def test_items_of_all_depths_are_counted_together() -> None:
    half = b"*131072\r\n" + b":1\r\n" * 131_072
    with pytest.raises(Failure):
        parse(b"*2\r\n" + half + half)


@pytest.mark.parametrize(
    ("data", "is_foreign"),
    [
        pytest.param(b"$67108864\r\n", False, id="the largest text"),
        pytest.param(b"$67108865\r\n", True, id="a larger one"),
        pytest.param(b"$1\r\nab", True, id="a text without an end"),
        pytest.param(b"$1\r\na\r", False, id="half an end"),
        pytest.param(b"a" * 65_535, False, id="a line that may go on"),
        pytest.param(b"a" * 65_536, True, id="a line without an end"),
        pytest.param(b"$2\r\na", False, id="half a text"),
        pytest.param(b"*2\r\n:1\r\n", False, id="half a list"),
    ],
)
def test_what_may_still_become_a_reply(data: bytes, *, is_foreign: bool) -> None:
    with pytest.raises(Failure if is_foreign else Incomplete):
        parse(data)


def test_a_reply_begins_where_it_is_told() -> None:
    data = b":1\r\n$-1\r\n*-1\r\n:4\r\n"
    found, at = [], 0
    while at < len(data):
        reply, at = parse(data, at)
        found.append(reply)
    assert found == [1, None, None, 4]


@pytest.mark.parametrize(
    "data",
    [
        b"*6\r\n" + b":1\r\n" * 5,
        b"*6\r\n" + b":1\r\n" * 7,
        b"*6\r\n" + b":%b\r\n" % (b"9" * 20) * 6 + b":1\r\n",
        b"*6\r\n" + b":1\r\n" * 6 + b"+",
        b"*5\r\n" + b":1\r\n" * 6,
    ],
)
def test_the_fast_path_takes_six_numbers_and_nothing_else(data: bytes) -> None:
    assert decision_numbers(data) is None


def test_the_fast_path_takes_the_longest_numbers() -> None:
    longest = -(10**18 - 1) * 10 - 9
    data = b"*6\r\n" + b":%d\r\n" % longest * 6
    assert len(b"%d" % longest) == 20
    assert decision_numbers(data) == [longest] * 6
