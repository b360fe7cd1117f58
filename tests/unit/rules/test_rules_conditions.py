"""Conditions that abort a ramp, and parameters typed on the command line."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.errors import UsageFault
from rlctl.limits.keys import encode
from rlctl.limits.match import Template
from rlctl.rules.conditions import Signal, counts_by_class, exceeded, p99_ms, parse_condition, shown_value
from rlctl.rules.edit import overrides
from rlctl.rules.signals import FleetCounters, ServerCounters


@pytest.mark.parametrize(
    ("text", "signal", "most"),
    [("errors>1%", Signal.ERRORS, 0.01), ("denied > 12.5%", Signal.DENIED, 0.125), ("p99>5ms", Signal.P99, 5)],
)
def test_conditions(text: str, signal: Signal, most: float) -> None:
    found = parse_condition(text)
    assert (found.signal, found.most) == (signal, most)
    assert exceeded([found], {signal: most}) is None
    assert exceeded([found], {signal: None}) is None
    assert exceeded([found], {}) is None
    trouble = exceeded([found], {signal: most * 1.5})
    assert trouble is not None
    assert trouble.startswith(signal)


@pytest.mark.parametrize(
    "text",
    [
        *("", "errors", "luck>1%", "errors<1%", "errors>1", "errors>many%", "p99>5", "p99>5%"),
        *("errors>150%", "denied>100.1%"),
    ],
)
def test_no_conditions(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as|no condition|unit"):
        parse_condition(text)


def test_values_are_shown() -> None:
    assert shown_value(Signal.ERRORS, 0.0123) == "1.23 %"
    assert shown_value(Signal.P99, 4.096) == "4.096 ms"
    assert shown_value(Signal.P99, None) == "unknown"


@pytest.mark.parametrize(
    ("histogram", "ms"),
    [({}, None), ({1: 0}, None), ({1000: 100}, 1.0), ({1000: 99, 64_000: 1}, 1.0), ({1000: 98, 64_000: 2}, 64.0)],
)
def test_p99(histogram: dict[int, int], ms: float | None) -> None:
    assert p99_ms(histogram) == ms


def test_cumulative_counts_are_taken_apart() -> None:
    assert counts_by_class({4: 10, 1: 3, 2: 3}) == {1: 3, 2: 0, 4: 7}


def served(**servers: ServerCounters) -> FleetCounters:
    return FleetCounters(servers=servers)


START = served(a=ServerCounters(calls=100, failed=10, histogram=Counter({1000: 100})), b=ServerCounters(calls=50))


@pytest.mark.parametrize(
    ("later", "errors", "p99"),
    [
        (START, None, None),
        (
            served(
                a=ServerCounters(calls=110, failed=11, histogram=Counter({1000: 100, 4000: 10})),
                b=ServerCounters(calls=60),
            ),
            0.05,
            4,
        ),
        # Server b is gone, and server c is a new primary.
        (served(a=ServerCounters(calls=120, failed=10), c=ServerCounters(calls=900, failed=900)), 0.0, None),
        (served(c=ServerCounters(calls=900, failed=900)), None, None),
        (served(), None, None),
    ],
    ids=["nothing", "both", "promoted", "no server in common", "no server"],
)
def test_only_servers_of_both_moments_are_compared(
    later: FleetCounters, errors: float | None, p99: float | None
) -> None:
    assert later.since(START) == {Signal.ERRORS: errors, Signal.P99: p99}


def test_servers_that_join_count_from_when_they_were_first_seen() -> None:
    start = START.joined(served(a=ServerCounters(calls=500), c=ServerCounters(calls=900)))
    assert start == served(**START.servers, c=ServerCounters(calls=900))
    assert served(c=ServerCounters(calls=910, failed=1)).since(start)[Signal.ERRORS] == 0.1
    assert start.has_any_of(START)
    assert not START.has_any_of(served(c=ServerCounters()))


@pytest.mark.parametrize(
    ("algorithm", "words", "found"),
    [
        ("sliding_counter", {"limit": "800", "window": "2m"}, {"limit": 800, "window_ms": 120_000}),
        ("token_bucket", {"limit": "5", "rate": "5/s"}, {"capacity": 5, "rate": 5, "period_ms": 1000}),
        ("gcra", {"rate": "7"}, {"rate": 7}),
        ("gcra", {}, {}),
    ],
)
def test_parameters_of_a_command_line(algorithm: str, words: dict[str, str], found: dict[str, int]) -> None:
    assert overrides(algorithm, words) == found


@pytest.mark.parametrize("words", [{"lease": "5s"}, {"limit": "-1"}, {"limit": "many"}, {"window": "60"}])
def test_wrong_parameters_of_a_command_line(words: dict[str, str]) -> None:
    with pytest.raises(UsageFault) as caught:
        overrides("sliding_counter", words)
    assert caught.value.hint


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_a_key_is_read_back(user: str, endpoint: str) -> None:
    template = Template("u:{user}:{endpoint}/x")
    values = {"user": user, "endpoint": endpoint}
    assert template.read(template.fill(values, encode)) == values
    assert template.read("something else") is None
