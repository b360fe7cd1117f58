import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.files.units import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1ms", 1),
        ("500ms", 500),
        ("5s", 5_000),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("8760h", 31_536_000_000),
    ],
)
def test_durations_are_read(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("100b", 100),
        ("512kb", 524_288),
        ("256mb", 268_435_456),
        ("1gb", 1_073_741_824),
        ("1GB", 1_073_741_824),
    ],
)
def test_sizes_are_read(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("5", "`5` has no unit; write it with one, such as 5s", id="plain-number"),
        pytest.param("0", "`0` has no unit; write it with one, such as 5s", id="plain-zero"),
        pytest.param("0s", "`0s` is zero; write more than zero, such as 5s", id="zero"),
        pytest.param("-5s", "`-5s` is negative; write more than zero, such as 5s", id="negative"),
        pytest.param(
            "1.5s",
            "`1.5s` is a fraction; write a whole number of a smaller unit, such as 1500ms",
            id="fraction",
        ),
        pytest.param("05s", "`05s` starts with 0; write 5s", id="leading-zero"),
        pytest.param("3d", "`3d` has an unknown unit; use ms, s, m or h, such as 5s", id="unit"),
        pytest.param("8761h", "`8761h` is too large; write at most 8760h", id="past-a-year"),
        pytest.param("9" * 30 + "s", f"`{'9' * 30}s` is too large; write at most 8760h", id="huge"),
        pytest.param("9" * 9_000 + "s", f"`{'9' * 80}...` is too large; write at most 8760h", id="enormous"),
        *(
            pytest.param(
                text,
                f"`{text}` is not a duration; write a whole number directly followed by ms, s, m or h, such as 5s",
                id=name,
            )
            for name, text in [
                ("empty", ""),
                ("space", "5 s"),
                ("capital", "5S"),
                ("mixed", "1m30s"),
                ("arabic", "\u0665s"),
            ]
        ),
    ],
)
def test_durations_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("256", "`256` has no unit; write it with one, such as 256mb", id="plain-number"),
        pytest.param("256M", "`256M` has an unknown unit; use b, kb, mb or gb, such as 256mb", id="redis-m"),
        pytest.param("0mb", "`0mb` is zero; write more than zero, such as 256mb", id="zero"),
        pytest.param(
            "1.5gb",
            "`1.5gb` is a fraction; write a whole number of a smaller unit, such as 1536mb",
            id="fraction",
        ),
        pytest.param("8388609gb", "`8388609gb` is too large; write at most 8388608gb", id="past-2**53"),
    ],
)
def test_sizes_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_size(text)


@given(st.integers(1, 365 * 24 * 3_600_000))
def test_durations_come_back(ms: int) -> None:
    assert parse_duration(format_duration(ms)) == ms


@given(st.integers(1, 2**53))
def test_sizes_come_back(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


@pytest.mark.parametrize(("ms", "text"), [(1_500, "1500ms"), (60_000, "1m"), (90_000, "90s"), (7_200_000, "2h")])
def test_the_largest_exact_unit_is_shown(ms: int, text: str) -> None:
    assert format_duration(ms) == text


@given(st.text(max_size=20))
def test_nothing_but_value_error_comes_of_any_text(text: str) -> None:
    for parse in (parse_duration, parse_size):
        with suppress(ValueError):
            assert parse(text) > 0
