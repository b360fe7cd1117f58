import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.bench.stats import NO_COST, CommandCost, admitted, command_cost, is_whole, middle, percentile
from rlctl.limiter import BrokenState, InvalidLimit
from rlctl.limits.failures import Cause, Failure
from rlctl.observe.info import ServerInfo

STATS = """# Commandstats\r
cmdstat_evalsha:calls=7,usec=21,usec_per_call=3.00,rejected_calls=0,failed_calls=0\r
cmdstat_evalsha_ro:calls=1,usec=99,usec_per_call=99.00,rejected_calls=0,failed_calls=0\r
cmdstat_config|get:calls=2,usec=5,usec_per_call=2.50,rejected_calls=0,failed_calls=0\r
"""
YES, NO = b"*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:1\r\n:0\r\n", b"*6\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:1\r\n:3\r\n"


def test_a_command_is_found_by_its_whole_name() -> None:
    assert command_cost(ServerInfo(STATS), "evalsha") == CommandCost(calls=7, usec=21)
    assert command_cost(ServerInfo(STATS), "eval") == NO_COST
    assert command_cost(ServerInfo(""), "incr") == NO_COST


def test_spent_adds_and_subtracts() -> None:
    both = CommandCost(calls=7, usec=21) + CommandCost(calls=3, usec=4)
    assert both - CommandCost(calls=5, usec=10) == CommandCost(calls=5, usec=15)
    assert both.us_per_call == 2.5
    assert NO_COST.us_per_call is None


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([], 50, None),
        ([7.0], 99, 7.0),
        ([3.0, 1.0, 2.0], 50, 2.0),
        ([1.0, 2.0], 50, 1.0),
        ([float(number) for number in range(1, 101)], 99, 99.0),
        ([float(number) for number in range(1, 101)], 100, 100.0),
    ],
)
def test_percentiles(values: list[float], percent: float, expected: float | None) -> None:
    assert percentile(values, percent) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_a_percentile_is_one_of_the_values_and_covers_its_share(values: list[float], percent: int) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) * 100 >= percent * len(values)


def test_the_middle_knows_what_was_not_measured() -> None:
    assert middle([1.0, None, 5.0, 3.0]) == 3.0
    assert middle([None]) is None


@given(st.lists(st.sampled_from([YES, NO]), max_size=8), st.data())
def test_replies_are_whole_when_the_last_byte_is_there(replies: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(replies)
    cut = data.draw(st.integers(0, max(0, len(whole) - 1)))
    assert is_whole(whole, len(replies), decisions=True)
    assert not replies or not is_whole(whole[:cut], len(replies), decisions=True)
    assert admitted(whole) == replies.count(YES)


def test_plain_integers_are_a_line_each() -> None:
    assert is_whole(b":1\r\n:2\r\n", 2, decisions=False)
    assert not is_whole(b":1\r\n:2\r", 2, decisions=False)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"-NOSCRIPT No matching script\r\n", Failure),
        (YES + b"-MOVED 1 127.0.0.1:7000\r\n", Failure),
        (YES + b"-WRONGTYPE not that\r\n" + YES, BrokenState),
        (b"-RLCTL_ARG no\r\n", InvalidLimit),
    ],
)
def test_an_error_among_the_replies_ends_it(data: bytes, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        is_whole(data, 3, decisions=True)


def test_an_error_is_awaited_to_its_end() -> None:
    assert not is_whole(YES + b"-NOSCR", 2, decisions=True)
    with pytest.raises(Failure) as caught:
        is_whole(YES + b"-NOSCRIPT gone\r\n", 2, decisions=True)
    assert caught.value.cause is Cause.NO_SCRIPT


def test_an_error_behind_the_awaited_replies_is_not_theirs() -> None:
    assert is_whole(YES + b"-ERR later\r\n", 1, decisions=True)
