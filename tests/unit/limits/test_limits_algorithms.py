from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlctl.limiter
from rlctl.bench.accuracy import RULES
from rlctl.bench.claims import CLAIMS
from rlctl.capacity import parse_request, request
from rlctl.cli import limit
from rlctl.errors import Exit
from rlctl.limiter import (
    ALGORITHMS,
    Algorithm,
    Concurrent,
    FixedWindow,
    Gcra,
    InvalidLimit,
    RollingRing,
    RollingWindow,
    SlidingCounter,
    TokenBucket,
)
from rlctl.rules import key_state
from rlctl.rules.table import WANTED

BIG = 2**53


@pytest.mark.parametrize(
    ("algorithm", "arguments", "window_ms", "quota_ms"),
    [
        (TokenBucket(100, 60, 60_000), {"capacity": 100, "rate": 1, "period_ms": 1000}, None, 100_000),
        (Gcra(5, 7, 1000), {"burst": 5, "rate": 7, "period_ms": 1000}, None, 715),
        (FixedWindow(10, 1000), {"limit": 10, "window_ms": 1000}, 1000, 1000),
        (SlidingCounter(10, 1000), {"limit": 10, "window_ms": 1000}, 1000, 1000),
        (RollingWindow(9, 50, 5), {"limit": 9, "window_ms": 50, "min_interval_ms": 5}, 50, 50),
        (RollingRing(9, 50), {"limit": 9, "window_ms": 50, "min_interval_ms": 0}, 50, 50),
        (Concurrent(3, 500), {"limit": 3, "lease_ms": 500}, None, None),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_arguments_by_name(
    algorithm: Algorithm, arguments: dict[str, int], window_ms: int | None, quota_ms: int | None
) -> None:
    assert algorithm.arguments() == arguments
    assert (algorithm.key_window_ms, algorithm.quota_window_ms) == (window_ms, quota_ms)


def test_every_algorithm_is_found_by_its_name() -> None:
    assert all(kind.name == name for name, kind in ALGORITHMS.items())
    assert len(ALGORITHMS) == 7


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (
            "rlctl/limiter/__init__.py",
            {one.name for one in ALGORITHMS.values() if one.__name__ in rlctl.limiter.__all__},
        ),
        ("rlctl/rules/table.py", set(WANTED)),
        ("rlctl/rules/key_state.py", set(key_state._READERS)),
        ("rlctl/cli/limit.py", set(limit._PARAMETERS)),
        ("rlctl/bench/accuracy.py", {*RULES, Concurrent.name}),
        ("rlctl/bench/claims.py", {*CLAIMS, Concurrent.name}),
        ("rlctl/capacity/request.py", {one.value for one in request.Algorithm}),
        ("rlctl/capacity/parse_request.py", {one.value for one in parse_request._ARGUMENTS}),
    ],
)
def test_every_table_of_algorithms_is_complete(where: str, names: set[str]) -> None:
    assert names == set(ALGORITHMS), where


REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("rate 0", lambda: TokenBucket(1, 0, 1)),
    ("period 0", lambda: Gcra(1, 1, 0)),
    ("window 0", lambda: FixedWindow(1, 0)),
    ("negative", lambda: SlidingCounter(-1, 1)),
    ("a boolean", lambda: FixedWindow(True, 1)),
    ("a fraction", lambda: FixedWindow(1.5, 1)),  # type: ignore[arg-type]
    ("a text", lambda: Concurrent("1", 1)),  # type: ignore[arg-type]
    ("lease 0", lambda: Concurrent(1, 0)),
    ("interval beyond window", lambda: RollingWindow(1, 10, 11)),
    ("log too large", lambda: RollingWindow(10_001, 10)),
    ("ring too large", lambda: RollingRing(1_000_001, 10)),
    ("ring too long", lambda: RollingRing(1, 2**32)),
    ("capacity too large", lambda: TokenBucket(BIG, 1, 1)),
    ("level too large", lambda: TokenBucket(10**9, 1, 10**7)),
    ("span too large", lambda: Gcra(10**9, 1, 10**7)),
    ("limit too large", lambda: FixedWindow(BIG, 1)),
    ("window too long", lambda: SlidingCounter(1, BIG // 1000)),
    ("lease too long", lambda: Concurrent(1, BIG // 1000)),
    ("negative cost", lambda: FixedWindow(1, 1).check_cost(-1)),
    ("cost too large", lambda: FixedWindow(1, 1).check_cost(BIG)),
    ("cost beyond a bucket", lambda: TokenBucket(1, 1, 1000).check_cost(BIG)),
    ("cost beyond a meter", lambda: Gcra(1, 1, 1000).check_cost(BIG)),
    ("cost beyond a counter", lambda: SlidingCounter(1, 1000).check_cost(BIG)),
    ("cost beyond a log", lambda: RollingWindow(1, 1000).check_cost(BIG - 10**15)),
    ("limit too large for a third", lambda: SlidingCounter(BIG // 2, 1)),
]


@pytest.mark.parametrize("make", [make for _name, make in REFUSED], ids=[name for name, _make in REFUSED])
def test_what_a_script_would_refuse_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidLimit) as refused:
        make()
    assert isinstance(refused.value, ValueError)
    assert refused.value.exit_code is Exit.USAGE


# The year 2100 in microseconds, which scripts add windows to.
LATEST_US = 4_102_444_800_000_000
LARGEST = BIG - 1
EDGES: list[tuple[str, Callable[[int], object], int]] = [
    ("rate", lambda number: Gcra(1, number, 1), LARGEST),
    ("period", lambda number: TokenBucket(1, number, number), LARGEST // 1000),
    ("capacity", lambda number: TokenBucket(number, 1, 1), (LARGEST - 1) // 1000),
    ("capacity in lowest terms", lambda number: TokenBucket(number, 2000, 4), (LARGEST - 1) // 2),
    ("burst", lambda number: Gcra(number, 1, 1), (LARGEST - LATEST_US) // 2000),
    ("burst of a fraction", lambda number: Gcra(number, 3, 1), (LARGEST - LATEST_US) // 2 // 334),
    ("limit", lambda number: FixedWindow(number, 1), LARGEST),
    ("window", lambda number: FixedWindow(1, number), (LARGEST - LATEST_US) // 2000),
    ("limit of a counter", lambda number: SlidingCounter(number, 1), LARGEST // 3),
    ("window of a counter", lambda number: SlidingCounter(1, number), (LARGEST - LATEST_US) // 3000),
    ("limit of a log", lambda number: RollingWindow(number, 1), 10_000),
    ("window of a log", lambda number: RollingWindow(1, number), (LARGEST - LATEST_US) // 2000),
    ("interval of a log", lambda number: RollingWindow(1, 7, number), 7),
    ("limit of a ring", lambda number: RollingRing(number, 1), 1_000_000),
    ("window of a ring", lambda number: RollingRing(1, number), 2**32 - 1),
    ("leases", lambda number: Concurrent(number, 1), LARGEST),
    ("lease", lambda number: Concurrent(1, number), (LARGEST - LATEST_US) // 2000),
    ("cost of a bucket", TokenBucket(1, 1, 1).check_cost, LARGEST),
    ("cost of a meter", Gcra(1, 1, 1).check_cost, LARGEST),
    ("cost of a window", FixedWindow(9, 1).check_cost, LARGEST - 9),
    ("cost of a counter", SlidingCounter(9, 1).check_cost, LARGEST),
    ("cost of a log", RollingWindow(9, 5).check_cost, LARGEST - LATEST_US - 10_000),
    ("cost of a ring", RollingRing(9, 5).check_cost, LARGEST - 9),
]


@pytest.mark.parametrize(("make", "largest"), [edge[1:] for edge in EDGES], ids=[edge[0] for edge in EDGES])
def test_the_largest_number_that_is_exact(make: Callable[[int], object], largest: int) -> None:
    make(largest)
    with pytest.raises(InvalidLimit):
        make(largest + 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TokenBucket(0, 1, 1),
        lambda: Gcra(0, 1, 1),
        lambda: FixedWindow(0, 1),
        lambda: SlidingCounter(0, 1),
        lambda: RollingWindow(0, 1, 0),
        lambda: RollingRing(0, 1, 1),
        lambda: Concurrent(0, 1),
    ],
)
def test_the_smallest_numbers(make: Callable[[], Algorithm]) -> None:
    assert make().limit == 0


@given(st.integers(1, 10**6), st.integers(1, 10**7))
def test_lowest_terms_are_the_same_rate(rate: int, period_ms: int) -> None:
    found = TokenBucket(1, rate, period_ms).arguments()
    assert Fraction(found["rate"], found["period_ms"]) == Fraction(rate, period_ms)


def test_the_kill_switch_is_a_limit() -> None:
    assert [TokenBucket(0, 1, 1).limit, Gcra(0, 1, 1).limit, Concurrent(0, 1).limit] == [0, 0, 0]
