"""Parse and format durations and sizes ("5s", "256mb") to and from milliseconds and bytes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rlctl.files.mistakes import shown

_AMOUNT = re.compile(r"(?P<digits>[0-9]+)(?P<unit>[a-z]*)")
_FRACTION = re.compile(r"[0-9]*\.[0-9]+[a-z]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measure:
    noun: str
    units: Mapping[str, int]
    most: int
    example: str
    smaller: str


# No timer needs more than a year. JSON numbers above 2**53 are not exact.
_DURATION = _Measure(
    noun="duration",
    units={"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000},
    most=365 * 24 * 3_600_000,
    example="5s",
    smaller="1500ms",
)
_SIZE = _Measure(
    noun="size",
    units={"b": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3},
    most=2**53,
    example="256mb",
    smaller="1536mb",
)


def parse_duration(text: str) -> int:
    """Parse a duration such as "500ms", "5s", "2m" or "1h" to milliseconds. ValueError says what to write instead."""
    return _parse(text, text, _DURATION)


def format_duration(ms: int) -> str:
    """The shortest exact text that `parse_duration` accepts."""
    return _format(ms, _DURATION)


def parse_size(text: str) -> int:
    """Parse a size such as "100b", "512kb" or "1gb" to bytes. Units are powers of 1024, in upper or lower case."""
    return _parse(text, text.lower(), _SIZE)


def format_size(size_bytes: int) -> str:
    """The shortest exact text that `parse_size` accepts."""
    return _format(size_bytes, _SIZE)


def _parse(written: str, text: str, measure: _Measure) -> int:
    quoted = shown(written)
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"{quoted} {_malformed(text, measure)}")
    digits, unit = match["digits"], match["unit"]
    if not unit:
        raise ValueError(f"{quoted} has no unit; write it with one, such as {measure.example}")
    if unit not in measure.units:
        raise ValueError(f"{quoted} has an unknown unit; use {_listed(measure)}, such as {measure.example}")
    if not digits.strip("0"):
        raise ValueError(f"{quoted} is zero; write more than zero, such as {measure.example}")
    if digits.startswith("0"):
        raise ValueError(f"{quoted} starts with 0; write {digits.lstrip('0')[:40]}{unit}")
    # Check the length first: int() refuses thousands of digits with a message of its own.
    if len(digits) > len(str(measure.most)) or int(digits) * measure.units[unit] > measure.most:
        raise ValueError(f"{quoted} is too large; write at most {_format(measure.most, measure)}")
    return int(digits) * measure.units[unit]


def _malformed(text: str, measure: _Measure) -> str:
    if text.startswith("-"):
        return f"is negative; write more than zero, such as {measure.example}"
    if _FRACTION.fullmatch(text):
        return f"is a fraction; write a whole number of a smaller unit, such as {measure.smaller}"
    return (
        f"is not a {measure.noun}; write a whole number directly followed by "
        f"{_listed(measure)}, such as {measure.example}"
    )


def _listed(measure: _Measure) -> str:
    *first, last = measure.units
    return f"{', '.join(first)} or {last}"


def _format(amount: int, measure: _Measure) -> str:
    unit, factor = max(
        ((unit, factor) for unit, factor in measure.units.items() if amount % factor == 0),
        key=lambda pair: pair[1],
    )
    return f"{amount // factor}{unit}"
