"""What a key holds, read without its script: a server over maxmemory refuses every script, a look too. Pure.

Reads are commands whose replies are numbers or text; what follows from them is what a look would have said.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Values = Mapping[str, int]
Command = tuple[object, ...]
# The formats that this version reads: another state of a script is not guessed at.
STATE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How one algorithm's key is read: the command for a key at an instant, and how much its answer says is used."""

    ask: Callable[[str, Values, int], Command]
    used: Callable[[Any, Values, int], int]


def reading(algorithm: str, state: int) -> Reading | None:
    """How to read the key; None where this version cannot."""
    return _READINGS.get(algorithm) if state == STATE else None


def _bytes(key: str, words: int) -> Command:
    # Values are no text; numbers arrive whole.
    return ("BITFIELD_RO", key, *(word for at in range(words) for word in ("GET", "i64", f"#{at}")))


def _doubles(reply: Sequence[int]) -> tuple[float, ...]:
    return struct.unpack("<3d", struct.pack(">3q", *reply))


def _bucket(reply: Sequence[int], values: Values, now_us: int) -> int:
    level, scale, last = map(int, _doubles(reply))
    if scale == 0:
        return 0
    # In tokens times scale times the period, so that nothing is rounded before the end.
    period_us, full = values["period_ms"] * 1000, values["capacity"] * scale * values["period_ms"] * 1000
    held = min(full, level * period_us + max(0, now_us - last) * values["rate"] * scale)
    return values["capacity"] - held // (scale * period_us)


def _gcra(reply: str | None, values: Values, now_us: int) -> int:
    spacing_us = -(-values["period_ms"] * 1000 // values["rate"])
    return -(-max(0, int(reply or 0) - now_us) // spacing_us)


def _fixed(reply: str | None, values: Values, now_us: int) -> int:
    if reply is None or int(reply[-13:]) < now_us // (values["window_ms"] * 1000):
        return 0
    return int(reply[:-13])


def _sliding(reply: Sequence[int], values: Values, now_us: int) -> int:
    start, current, previous = map(int, _doubles(reply))
    window_us = values["window_ms"] * 1000
    begin = now_us - now_us % window_us
    if start < begin:
        current, previous = 0, current if start == begin - window_us else 0
    return current + -(-previous * (window_us - max(0, now_us - begin)) // window_us)


def _ring(reply: Sequence[int], values: Values, now_us: int) -> int:
    """All entries, as long as the newest is in the window: which of the older ones are not, only the script tells."""
    newest_ms, live = reply
    return live if newest_ms > now_us // 1000 - values["window_ms"] else 0


def _log(key: str, values: Values, now_us: int) -> Command:
    return ("ZCOUNT", key, f"({now_us - values['window_ms'] * 1000}", "+inf")


_READINGS: Mapping[str, Reading] = {
    "token_bucket": Reading(ask=lambda key, _values, _now: _bytes(key, 3), used=_bucket),
    "gcra": Reading(ask=lambda key, _values, _now: ("GET", key), used=_gcra),
    "fixed_window": Reading(ask=lambda key, _values, _now: ("GET", key), used=_fixed),
    "sliding_counter": Reading(ask=lambda key, _values, _now: _bytes(key, 3), used=_sliding),
    "rolling_window": Reading(ask=_log, used=lambda reply, _values, _now: int(reply)),
    "rolling_ring": Reading(
        ask=lambda key, _values, _now: ("BITFIELD_RO", key, "GET", "u48", 0, "GET", "u32", 128), used=_ring
    ),
    "concurrent": Reading(
        ask=lambda key, _values, now: ("ZCOUNT", key, f"({now}", "+inf"), used=lambda reply, _values, _now: int(reply)
    ),
}
