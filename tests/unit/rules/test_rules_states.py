"""What a key says without its script."""

import struct
from typing import Any

import pytest

from rlctl.rules.states import reading

NOW_US = 1_790_000_000_000_000
WINDOW = {"limit": 10, "window_ms": 1000}
BUCKET = {"capacity": 10, "rate": 2, "period_ms": 1000}
METER = {"burst": 10, "rate": 2, "period_ms": 1000}
RING = {**WINDOW, "min_interval_ms": 0}
LEASES = {"limit": 10, "lease_ms": 1000}


def doubles(*values: float) -> list[int]:
    return list(struct.unpack(">3q", struct.pack("<3d", *values)))


@pytest.mark.parametrize(
    ("algorithm", "values", "reply", "used"),
    [
        # 4 of 10 tokens at a scale of 500,000, half a second ago: one came back.
        ("token_bucket", BUCKET, doubles(4 * 500_000, 500_000, NOW_US - 500_000), 5),
        ("token_bucket", BUCKET, doubles(4 * 500_000, 500_000, NOW_US + 1), 6),
        ("token_bucket", BUCKET, [0, 0, 0], 0),
        ("token_bucket", BUCKET, doubles(0, 500_000, 0), 0),
        ("gcra", METER, str(NOW_US + 1_200_000), 3),
        ("gcra", METER, str(NOW_US - 1), 0),
        ("gcra", METER, None, 0),
        ("fixed_window", WINDOW, f"7{NOW_US // 1_000_000:013d}", 7),
        ("fixed_window", WINDOW, f"7{NOW_US // 1_000_000 - 1:013d}", 0),
        ("fixed_window", WINDOW, None, 0),
        ("sliding_counter", WINDOW, doubles(NOW_US, 3, 4), 7),
        ("sliding_counter", WINDOW, doubles(NOW_US - 1_000_000, 3, 4), 3),
        ("sliding_counter", WINDOW, doubles(NOW_US - 2_000_000, 3, 4), 0),
        ("sliding_counter", WINDOW, [0, 0, 0], 0),
        ("rolling_window", RING, 6, 6),
        ("rolling_ring", RING, [NOW_US // 1000, 6], 6),
        ("rolling_ring", RING, [NOW_US // 1000 - 1000, 6], 0),
        ("rolling_ring", RING, [0, 0], 0),
        ("concurrent", LEASES, 6, 6),
    ],
)
def test_what_is_used(algorithm: str, values: dict[str, int], reply: Any, used: int) -> None:
    how = reading(algorithm, 1)
    assert how is not None
    assert how.used(reply, values, NOW_US) == used
    assert how.ask("k", values, NOW_US)[1] == "k"


def test_the_sliding_counter_weighs_the_window_before() -> None:
    how = reading("sliding_counter", 1)
    assert how is not None
    assert how.used(doubles(NOW_US, 3, 4), WINDOW, NOW_US + 300_000) == 3 + 3


@pytest.mark.parametrize(("algorithm", "state"), [("gcra", 2), ("leaky", 1)])
def test_what_this_version_does_not_know_is_not_guessed_at(algorithm: str, state: int) -> None:
    assert reading(algorithm, state) is None
