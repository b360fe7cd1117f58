"""Conditions that abort a ramp: `errors>1%`, `denied>20%`, `p99>5ms`. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rlctl.files.mistakes import shown
from rlctl.files.units import parse_duration

_FORM = re.compile(r"(?P<signal>[a-z0-9]+)\s*>\s*(?P<most>\S+)")
_WHOLE = 100
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,4})?)%")


class Signal(StrEnum):
    """A metric of the fleet that rlctl measures during each step of a ramp."""

    ERRORS = "errors"
    DENIED = "denied"
    P99 = "p99"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortCondition:
    """Aborts a ramp if `signal` is above `most`. `most` is a share from 0 to 1, or milliseconds for p99."""

    signal: Signal
    most: float
    text: str


Measurements = Mapping[Signal, float | None]


def parse_condition(text: str) -> AbortCondition:
    """Parse a condition from the command line; ValueError says what to write instead."""
    found = _FORM.fullmatch(text.strip())
    words = ", ".join(Signal)
    if found is None or found["signal"] not in {one.value for one in Signal}:
        raise ValueError(f"{shown(text)} is not a condition; write one of {words} and its limit, such as errors>1%")
    signal = Signal(found["signal"])
    if signal is Signal.P99:
        return AbortCondition(signal=signal, most=float(parse_duration(found["most"])), text=text)
    percent = _PERCENT.fullmatch(found["most"])
    if percent is None:
        raise ValueError(f"{shown(text)}: {shown(found['most'])} is not a percentage; write one such as 1%")
    if float(percent[1]) > _WHOLE:
        raise ValueError(f"{shown(text)} can never be met: the share is at most 100%; write one such as {signal}>1%")
    return AbortCondition(signal=signal, most=float(percent[1]) / 100, text=text)


def exceeded(conditions: Sequence[AbortCondition], seen: Measurements) -> str | None:
    """Describe the first condition that is met; None if no condition is met. Skips signals without a measurement."""
    for condition in conditions:
        value = seen.get(condition.signal)
        if value is not None and value > condition.most:
            return f"{condition.signal} is {shown_value(condition.signal, value)}, which meets {condition.text}"
    return None


def shown_value(signal: Signal, value: float | None) -> str:
    """The value with its unit; `unknown` if it was not measured."""
    if value is None:
        return "unknown"
    return f"{value:g} ms" if signal is Signal.P99 else f"{value * 100:.3g} %"


def p99_ms(histogram: Mapping[int, int]) -> float | None:
    """The 99th percentile in ms; None without calls.

    `histogram` maps the upper bound of each latency class, in us, to the number of calls in the class.
    """
    total, seen = sum(histogram.values()), 0
    for upper_us, count in sorted(histogram.items()):
        seen += count
        if count and seen * 100 >= total * 99:
            return upper_us / 1000
    return None


def counts_by_class(cumulative: Mapping[int, int]) -> dict[int, int]:
    """Convert cumulative counts into the count of each class."""
    found, before = {}, 0
    for upper_us, count in sorted(cumulative.items()):
        found[upper_us], before = count - before, count
    return found
