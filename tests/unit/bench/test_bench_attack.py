"""The attack search against the small exact models of the scripts: it must find the known worst of each."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.bench.attack import ALL, Admitted, Attack, Take, attacks, play, worst_of, worst_window
from rlctl.bench.claims import CLAIMS, Accuracy
from tests.local.limiter import models

WINDOW_MS = 10_000
WINDOW_US = WINDOW_MS * 1000
START_US = 1_800_000_000_000_000
assert START_US % WINDOW_US == 0


def take_from(model: Any, *rule: int) -> Take:
    def take(at_us: int, cost: int) -> int:
        if cost == ALL:
            cost = model.call(*rule, 0, START_US + at_us)[2]
        return cost if cost and model.call(*rule, cost, START_US + at_us)[0] else 0

    return take


def attacked(name: str, limit: int, take: Callable[[], Take]) -> Accuracy:
    planned = attacks(limit, WINDOW_US)
    found = ((attack, worst_window(play(attack, limit, WINDOW_US, take()), WINDOW_US)) for attack in planned)
    return Accuracy(script=name, limit=limit, window_ms=WINDOW_MS, attacks=len(planned), worst=worst_of(found))


@pytest.mark.parametrize("limit", [10, 100])
@pytest.mark.parametrize(
    ("name", "model", "tail", "worst", "verdict"),
    [
        ("fixed_window", models.FixedWindow, (), lambda limit: 2 * limit, "as claimed"),
        ("sliding_counter", models.SlidingCounter, (), lambda limit: 2 * limit - 1, "worse than claimed"),
        ("rolling_window", models.RollingWindow, (0,), lambda limit: limit, "exact"),
        ("rolling_ring", lambda: models.RollingWindow(unit=1000), (0,), lambda limit: limit, "exact"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_windows(
    name: str, model: Any, tail: tuple[int, ...], worst: Callable[[int], int], verdict: str, limit: int
) -> None:
    found = attacked(name, limit, lambda: take_from(model(), limit, WINDOW_MS, *tail))
    assert found.worst.admitted == worst(limit)
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("name", "model", "verdict"),
    [("token_bucket", models.TokenBucket, "worse than claimed"), ("gcra", models.Gcra, "nothing claimed")],
)
def test_a_full_bucket_gives_its_burst_and_what_flows_in(name: str, model: Any, verdict: str) -> None:
    found = attacked(name, 100, lambda: take_from(model(), 100, 100, WINDOW_MS))
    assert found.worst.admitted == 199
    assert found.over_percent == 99
    assert found.verdict == verdict


def test_a_bucket_of_half_the_limit_keeps_the_published_claim() -> None:
    found = attacked("token_bucket", 100, lambda: take_from(models.TokenBucket(), 50, 100, WINDOW_MS))
    assert found.over_percent <= 50
    assert found.verdict == "as claimed"


def test_attacks_are_the_same_every_time_and_never_go_back() -> None:
    assert attacks(100, WINDOW_US) == attacks(100, WINDOW_US)
    for attack in attacks(7, WINDOW_US):
        instants = [at_us for at_us, _cost in attack.asks(7, WINDOW_US)]
        assert instants == sorted(set(instants))
        assert {WINDOW_US, 2 * WINDOW_US} <= set(instants)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5))), st.integers(1, 20))
def test_the_worst_window_is_the_most_in_any(pairs: list[tuple[int, int]], window_us: int) -> None:
    admitted = [Admitted(at_us=at_us, units=units) for at_us, units in sorted(pairs)]
    slow = max(
        (sum(one.units for one in admitted if end - window_us < one.at_us <= end) for end in range(51)), default=0
    )
    assert worst_window(admitted, window_us) == slow


def test_every_claim_is_shown() -> None:
    attack = Attack(phase_us=0, first_share=1.0, step_us=1)
    for name, claim in CLAIMS.items():
        document = Accuracy(script=name, limit=100, window_ms=1, attacks=1, worst=worst_of([(attack, 150)])).to_json()
        assert document["claim"] == claim.text
        assert document["holds"] is (claim.most_over_percent is None or claim.most_over_percent >= 50)
