"""What a key holds, read without its script: a server over maxmemory refuses every script, a look too. Pure.

Reads are commands whose replies are numbers or text; what follows from them is what a look would have said, or a
ValueError where the key holds something else.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Values = Mapping[str, int]
Command = tuple[object, ...]
# The formats that this version reads: another state of a script is not guessed at.
STATE = 1
_EXACT = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAdmission:
    """When the last call was admitted: the command for a key, and the instant in us, None where there is none."""

    ask: Callable[[str], Command]
    at_us: Callable[[Any], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReader:
    """How one algorithm's key is read: the command for a key at an instant, and how much its answer says is used."""

    ask: Callable[[str, Values, int], Command]
    used: Callable[[Any, Values, int], int]
    last_admission: LastAdmission | None = None


def key_reader(algorithm: str, state: int) -> KeyReader | None:
    """How to read the key; None where this version cannot."""
    return _READERS.get(algorithm) if state == STATE else None


def _bytes(key: str, words: int) -> Command:
    # Values are no text; numbers arrive whole.
    return ("BITFIELD_RO", key, *(word for at in range(words) for word in ("GET", "i64", f"#{at}")))


def _wholes(reply: Sequence[int]) -> tuple[int, ...]:
    """Three doubles that are whole numbers, as scripts keep them."""
    doubles = struct.unpack("<3d", struct.pack(">3q", *reply))
    if not all(0 <= one < _EXACT and one == int(one) for one in doubles):
        raise ValueError(f"no state of a limiter: {doubles}")
    return tuple(map(int, doubles))


def _digits(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"no state of a limiter: {text!r}")
    return int(text)


def _bucket(reply: Sequence[int], values: Values, now_us: int) -> int:
    level, scale, last = _wholes(reply)
    if scale == 0:
        return 0
    # In tokens times scale times the period, so that nothing is rounded before the end.
    period_us, full = values["period_ms"] * 1000, values["capacity"] * scale * values["period_ms"] * 1000
    held = min(full, level * period_us + max(0, now_us - last) * values["rate"] * scale)
    return values["capacity"] - held // (scale * period_us)


def _gcra(reply: str | None, values: Values, now_us: int) -> int:
    spacing_us = -(-values["period_ms"] * 1000 // values["rate"])
    return -(-max(0, _digits(reply or "0") - now_us) // spacing_us)


def _fixed(reply: str | None, values: Values, now_us: int) -> int:
    if reply is None:
        return 0
    count, window = _digits(reply[:-13]), _digits(reply[-13:])
    return count if window >= now_us // (values["window_ms"] * 1000) else 0


def _sliding(reply: Sequence[int], values: Values, now_us: int) -> int:
    start, current, previous = _wholes(reply)
    window_us = values["window_ms"] * 1000
    begin = now_us - now_us % window_us
    if start < begin:
        current, previous = 0, current if start == begin - window_us else 0
    return current + -(-previous * (window_us - max(0, now_us - begin)) // window_us)


def _ring(reply: Sequence[int], values: Values, now_us: int) -> int:
    """All entries, as long as the newest is in the window: which of the older ones are not, only the script tells."""
    newest_ms, head, live, slots = reply
    if any(reply) and not (head < slots and live <= slots):
        raise ValueError(f"no ring: {reply}")
    return live if newest_ms > now_us // 1000 - values["window_ms"] else 0


def _log(key: str, values: Values, now_us: int) -> Command:
    return ("ZCOUNT", key, f"({now_us - values['window_ms'] * 1000}", "+inf")


def _header(key: str, _values: Values, _now_us: int) -> Command:
    """Of a ring: the newest instant, the next slot, live entries, slots."""
    return ("BITFIELD_RO", key, "GET", "u48", 0, "GET", "u32", 96, "GET", "u32", 128, "GET", "u32", 160)


_READERS: Mapping[str, KeyReader] = {
    "token_bucket": KeyReader(ask=lambda key, _values, _now: _bytes(key, 3), used=_bucket),
    "gcra": KeyReader(ask=lambda key, _values, _now: ("GET", key), used=_gcra),
    "fixed_window": KeyReader(ask=lambda key, _values, _now: ("GET", key), used=_fixed),
    "sliding_counter": KeyReader(ask=lambda key, _values, _now: _bytes(key, 3), used=_sliding),
    "rolling_window": KeyReader(
        ask=_log,
        used=lambda reply, _values, _now: int(reply),
        last_admission=LastAdmission(
            ask=lambda key: ("ZRANGE", key, -1, -1, "WITHSCORES"),
            at_us=lambda reply: int(float(reply[1])) if reply else None,
        ),
    ),
    "rolling_ring": KeyReader(
        ask=_header,
        used=_ring,
        last_admission=LastAdmission(
            ask=lambda key: ("BITFIELD_RO", key, "GET", "u48", 0), at_us=lambda reply: reply[0] * 1000 or None
        ),
    ),
    "concurrent": KeyReader(
        ask=lambda key, _values, now: ("ZCOUNT", key, f"({now}", "+inf"), used=lambda reply, _values, _now: int(reply)
    ),
}
