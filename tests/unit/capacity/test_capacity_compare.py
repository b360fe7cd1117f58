"""Encodings side by side."""

from typing import Any

import pytest

from rlctl.capacity.compare import compare
from rlctl.capacity.layout.encodings import encodings_of
from rlctl.capacity.request import Algorithm
from tests.unit.capacity.asked import STATES, ask


def rows(**given: object) -> list[dict[str, Any]]:
    return [row.to_json() for row in compare(ask(**given), STATES)]


@pytest.mark.parametrize("algorithm", Algorithm)
def test_every_encoding_once_and_the_cheapest_first(algorithm: Algorithm) -> None:
    found = rows(algorithm=algorithm.value)
    assert sorted(one["encoding"] for one in found) == sorted(encodings_of(algorithm))
    assert [one["bytes_per_user"] for one in found] == sorted(one["bytes_per_user"] for one in found)
    assert [one["own"] for one in found].count(True) == 1


@pytest.mark.parametrize(
    ("algorithm", "given_up"),
    [
        ("gcra", {"int": 0, "text": 1, "hash-100": 3}),
        ("fixed_window", {"script": 1, "string": 1, "hash": 1}),
        ("rolling_window", {"script": 1, "list": 1, "stream": 1, "packed8": 2, "packed4": 3}),
        ("rolling_ring", {"script": 3, "list": 1, "stream": 1, "packed8": 2}),
    ],
)
def test_what_each_encoding_gives_up_is_told(algorithm: str, given_up: dict[str, int]) -> None:
    found = {one["encoding"]: one["gives_up"] for one in rows(algorithm=algorithm)}
    assert {name: len(found[name]) for name in given_up} == given_up


def test_a_cost_that_nobody_measured_is_null_and_never_0() -> None:
    for one in rows(algorithm="rolling_window", limit=77):
        assert one["us_per_op"] is None
    for one in rows(algorithm="rolling_window", limit=100):
        cost = one["us_per_op"]
        assert cost is None or (cost["admit"] > 0 and cost["reject"] != 0)


def test_a_ring_costs_the_same_at_any_limit() -> None:
    costs = [
        next(one["us_per_op"] for one in rows(algorithm="rolling_ring", limit=limit) if one["own"])
        for limit in (10, 1000)
    ]
    assert costs[0] == costs[1] is not None


def test_a_cap_that_was_not_measured_has_no_cost() -> None:
    found = rows(algorithm="rolling_window", limit=200, zset_max_listpack_entries=512)
    assert all(one["us_per_op"] is None for one in found)
