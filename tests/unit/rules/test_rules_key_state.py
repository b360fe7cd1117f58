"""The count of a key, read without its script."""

import struct
from typing import Any

import pytest

from rlctl.rules.key_state import key_reader

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
        ("rolling_ring", RING, [NOW_US // 1000, 6, 6, 10], 6),
        ("rolling_ring", RING, [NOW_US // 1000 - 1000, 6, 6, 10], 0),
        ("rolling_ring", RING, [0, 0, 0, 0], 0),
        ("rolling_ring", RING, [NOW_US // 1000 - 999, 9, 10, 10], 10),
        ("concurrent", LEASES, 6, 6),
    ],
)
def test_what_is_used(algorithm: str, values: dict[str, int], reply: Any, used: int) -> None:
    how = key_reader(algorithm, 1)
    assert how is not None
    assert how.used(reply, values, NOW_US) == used
    assert how.command("k", values, NOW_US)[1] == "k"


def test_the_sliding_counter_weighs_the_window_before() -> None:
    how = key_reader("sliding_counter", 1)
    assert how is not None
    assert how.used(doubles(NOW_US, 3, 4), WINDOW, NOW_US + 300_000) == 3 + 3


@pytest.mark.parametrize(
    ("algorithm", "values", "reply"),
    [
        ("token_bucket", BUCKET, list(struct.unpack(">3q", b"hello, this is no bucket"))),
        ("token_bucket", BUCKET, [0x3500000000000000, 0, 0]),
        ("token_bucket", BUCKET, doubles(float("nan"), 1, 1)),
        ("token_bucket", BUCKET, doubles(-1, 1, 1)),
        ("sliding_counter", WINDOW, doubles(0.5, 1, 1)),
        ("gcra", METER, "hello"),
        ("gcra", METER, "-5"),
        ("fixed_window", WINDOW, "hello"),
        ("fixed_window", WINDOW, "7"),
        ("rolling_ring", RING, [NOW_US // 1000, 0, 0, 0]),
        ("rolling_ring", RING, [NOW_US // 1000, 1, 9, 5]),
        ("rolling_ring", RING, [NOW_US // 1000, 5, 5, 5]),
    ],
)
def test_what_is_no_state_is_no_number(algorithm: str, values: dict[str, int], reply: Any) -> None:
    how = key_reader(algorithm, 1)
    assert how is not None
    with pytest.raises(ValueError, match="not a limiter"):
        how.used(reply, values, NOW_US)


@pytest.mark.parametrize(
    ("algorithm", "reply", "at_us"),
    [
        ("rolling_window", ["1790000000000000", "1.79e+15"], NOW_US),
        ("rolling_window", [], None),
        ("rolling_ring", [NOW_US // 1000], NOW_US),
        ("rolling_ring", [0], None),
    ],
)
def test_the_newest_entry(algorithm: str, reply: Any, at_us: int | None) -> None:
    how = key_reader(algorithm, 1)
    assert how is not None
    assert how.last_admission is not None
    assert how.last_admission.command("k")[1] == "k"
    assert how.last_admission.at_us(reply) == at_us


@pytest.mark.parametrize(("algorithm", "state"), [("gcra", 2), ("leaky", 1)])
def test_what_this_version_does_not_know_is_not_guessed_at(algorithm: str, state: int) -> None:
    assert key_reader(algorithm, state) is None


THREE = ("GET", "i64", "#0", "GET", "i64", "#1", "GET", "i64", "#2")
HEADER = ("GET", "u48", 0, "GET", "u32", 96, "GET", "u32", 128, "GET", "u32", 160)


@pytest.mark.parametrize(
    ("algorithm", "values", "command", "newest"),
    [
        ("token_bucket", BUCKET, ("BITFIELD_RO", "k", *THREE), None),
        ("gcra", METER, ("GET", "k"), None),
        ("fixed_window", WINDOW, ("GET", "k"), None),
        ("sliding_counter", WINDOW, ("BITFIELD_RO", "k", *THREE), None),
        (
            "rolling_window",
            RING,
            ("ZCOUNT", "k", f"({NOW_US - 1_000_000}", "+inf"),
            ("ZRANGE", "k", -1, -1, "WITHSCORES"),
        ),
        ("rolling_ring", RING, ("BITFIELD_RO", "k", *HEADER), ("BITFIELD_RO", "k", "GET", "u48", 0)),
        ("concurrent", LEASES, ("ZCOUNT", "k", f"({NOW_US}", "+inf"), None),
    ],
)
def test_the_commands_that_read_a_key(
    algorithm: str, values: dict[str, int], command: tuple[object, ...], newest: tuple[object, ...] | None
) -> None:
    how = key_reader(algorithm, 1)
    assert how is not None
    assert how.command("k", values, NOW_US) == command
    assert (how.last_admission and how.last_admission.command("k")) == newest
