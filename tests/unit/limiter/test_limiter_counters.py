"""The statistics, and the time during which breakers were open."""

import pytest

from rlctl.limiter.core.breaker import Circuit
from rlctl.limiter.core.counters import Counters


class ManualClock:
    """A clock that the test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


OPEN, CLOSED = Circuit.OPEN, Circuit.CLOSED


@pytest.mark.parametrize(
    ("changes", "fallback_s", "opened"),
    [
        pytest.param([], 0, 0, id="never"),
        pytest.param([("a", OPEN)], 1, 1, id="still open"),
        pytest.param([("a", OPEN), ("a", CLOSED)], 1, 1, id="for a second"),
        pytest.param([("a", OPEN), ("a", CLOSED), ("a", CLOSED)], 1, 1, id="closed twice"),
        pytest.param([("a", CLOSED)], 0, 0, id="closed and never open"),
        pytest.param([("a", OPEN), ("b", OPEN), ("a", CLOSED), ("b", CLOSED)], 3, 2, id="one after the other"),
        pytest.param([("a", OPEN), ("b", OPEN), ("a", CLOSED)], 3, 2, id="the other is open"),
        pytest.param([("a", OPEN), ("a", CLOSED), ("a", OPEN), ("a", CLOSED)], 2, 2, id="twice"),
    ],
)
def test_time_without_redis(changes: list[tuple[str, Circuit]], fallback_s: float, opened: int) -> None:
    clock = ManualClock()
    counters = Counters(clock)
    for breaker, circuit in changes:
        counters.circuit_changed(breaker, circuit)
        clock.now_s += 1
    stats = counters.snapshot()
    assert (stats.fallback_s, stats.breakers_opened) == (fallback_s, opened)


def test_shadows_and_refunds_are_counted_by_rule() -> None:
    counters = Counters()
    counters.shadow_denied("a")
    counters.refunded("b", is_refunded=True)
    counters.refunded("c", is_refunded=False)
    counters.looked_up()
    stats = counters.snapshot()
    assert (stats.shadow_denials, stats.refunds, stats.unrefunded) == ({"a": 1}, {"b": 1}, {"c": 1})
    assert stats.lookups == 1


def test_the_age_of_the_rules() -> None:
    clock = ManualClock()
    counters = Counters(clock)
    assert (counters.snapshot().rules_revision, counters.snapshot().rules_age_s) == (None, None)
    counters.saw_rules(7)
    clock.now_s += 2.5
    assert (counters.snapshot().rules_revision, counters.snapshot().rules_age_s) == (7, 2.5)
