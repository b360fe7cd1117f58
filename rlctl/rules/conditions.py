"""When a ramp is to be broken off: `errors>1%`, `denied>20%`, `p99>5ms`. Pure."""

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
    """What can be seen of a fleet while a canary runs."""

    ERRORS = "errors"
    DENIED = "denied"
    P99 = "p99"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortCondition:
    """A signal above this breaks the ramp off; shares are 0 to 1, times milliseconds."""

    signal: Signal
    most: float
    text: str


Measurements = Mapping[Signal, float | None]


def parse_condition(text: str) -> AbortCondition:
    """A condition as it is typed; ValueError says what would be right."""
    found = _FORM.fullmatch(text.strip())
    words = ", ".join(Signal)
    if found is None or found["signal"] not in {one.value for one in Signal}:
        raise ValueError(f"{shown(text)} is no condition; write one of {words} and what is too much, such as errors>1%")
    signal = Signal(found["signal"])
    if signal is Signal.P99:
        return AbortCondition(signal=signal, most=float(parse_duration(found["most"])), text=text)
    percent = _PERCENT.fullmatch(found["most"])
    if percent is None:
        raise ValueError(f"{shown(text)}: {shown(found['most'])} is no percentage, such as 1%")
    if float(percent[1]) > _WHOLE:
        raise ValueError(f"{shown(text)} never holds: nothing is more than 100%; write such as {signal}>1%")
    return AbortCondition(signal=signal, most=float(percent[1]) / 100, text=text)


def exceeded(conditions: Sequence[AbortCondition], seen: Measurements) -> str | None:
    """What is too much, in words; what was not seen breaks nothing."""
    for condition in conditions:
        value = seen.get(condition.signal)
        if value is not None and value > condition.most:
            return f"{condition.signal} {shown_value(condition.signal, value)}, wanted not {condition.text}"
    return None


def shown_value(signal: Signal, value: float | None) -> str:
    """For people; nothing was seen is said as that."""
    if value is None:
        return "unknown"
    return f"{value:g} ms" if signal is Signal.P99 else f"{value * 100:.3g} %"


def p99_ms(histogram: Mapping[int, int]) -> float | None:
    """The upper end, in ms, of the class that 99 of 100 calls fall below; counts by class, each for itself."""
    total, seen = sum(histogram.values()), 0
    for upper_us, count in sorted(histogram.items()):
        seen += count
        if count and seen * 100 >= total * 99:
            return upper_us / 1000
    return None


def counts_by_class(cumulative: Mapping[int, int]) -> dict[int, int]:
    """Counts of each class from counts up to each class."""
    found, before = {}, 0
    for upper_us, count in sorted(cumulative.items()):
        found[upper_us], before = count - before, count
    return found
