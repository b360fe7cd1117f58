"""Reads a counter's key without its script, because a server over maxmemory refuses all scripts. Pure.

Each algorithm has a read-only command and a function that computes the used units from the reply, as a peek of the
script would. The function raises ValueError if the value is not a limiter's state.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Values = Mapping[str, int]
Command = tuple[object, ...]
# The only state format that this version reads.
STATE = 1
_EXACT = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAdmission:
    """How to read the time of the last admission from a key.

    `command` returns the command for a key. `at_us` converts the reply to a time in us; None if nothing was admitted.
    """

    command: Callable[[str], Command]
    at_us: Callable[[Any], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReader:
    """How to read the used units from a key of an algorithm.

    `command` returns the command for a key, and `used` computes the used units from the reply. Both take the parameters
    of the rule and the time in us.
    """

    command: Callable[[str, Values, int], Command]
    used: Callable[[Any, Values, int], int]
    last_admission: LastAdmission | None = None


def key_reader(algorithm: str, state: int) -> KeyReader | None:
    """The reader of this algorithm; None if this version does not know the state format."""
    return _READERS.get(algorithm) if state == STATE else None


def _three_doubles(key: str, _values: Values, _now_us: int) -> Command:
    # With GET, the reply would lose bytes: the value is binary, and the client decodes replies as text.
    return ("BITFIELD_RO", key, *(word for at in range(3) for word in ("GET", "i64", f"#{at}")))


def _text(key: str, _values: Values, _now_us: int) -> Command:
    return ("GET", key)


def _live_leases(key: str, _values: Values, now_us: int) -> Command:
    return ("ZCOUNT", key, f"({now_us}", "+inf")


def _number(reply: str, _values: Values, _now_us: int) -> int:
    return int(reply)


def _integers(reply: Sequence[int]) -> tuple[int, ...]:
    """The three doubles of a state, which must be whole numbers."""
    doubles = struct.unpack("<3d", struct.pack(">3q", *reply))
    if not all(0 <= one < _EXACT and one == int(one) for one in doubles):
        raise ValueError(f"not a limiter's state: {doubles}")
    return tuple(map(int, doubles))


def _digits(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"not a limiter's state: {text!r}")
    return int(text)


def _bucket(reply: Sequence[int], values: Values, now_us: int) -> int:
    level, scale, last = _integers(reply)
    if scale == 0:
        return 0
    # `full` and `held` are exact integers (tokens times scale times period), so only the last line rounds.
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
    start, current, previous = _integers(reply)
    window_us = values["window_ms"] * 1000
    begin = now_us - now_us % window_us
    if start < begin:
        current, previous = 0, current if start == begin - window_us else 0
    return current + -(-previous * (window_us - max(0, now_us - begin)) // window_us)


def _ring(reply: Sequence[int], values: Values, now_us: int) -> int:
    """All live entries if the newest entry is in the window, else 0.

    The header contains only the time of the newest entry, so older entries count even if they have expired.
    """
    newest_ms, head, live, slots = reply
    if any(reply) and not (head < slots and live <= slots):
        raise ValueError(f"not a limiter's ring: {reply}")
    return live if newest_ms > now_us // 1000 - values["window_ms"] else 0


def _log(key: str, values: Values, now_us: int) -> Command:
    return ("ZCOUNT", key, f"({now_us - values['window_ms'] * 1000}", "+inf")


def _header(key: str, _values: Values, _now_us: int) -> Command:
    """Command that reads the header of a ring: newest time in ms, next slot, live entries, slots."""
    return ("BITFIELD_RO", key, "GET", "u48", 0, "GET", "u32", 96, "GET", "u32", 128, "GET", "u32", 160)


_READERS: Mapping[str, KeyReader] = {
    "token_bucket": KeyReader(command=_three_doubles, used=_bucket),
    "gcra": KeyReader(command=_text, used=_gcra),
    "fixed_window": KeyReader(command=_text, used=_fixed),
    "sliding_counter": KeyReader(command=_three_doubles, used=_sliding),
    "rolling_window": KeyReader(
        command=_log,
        used=_number,
        last_admission=LastAdmission(
            command=lambda key: ("ZRANGE", key, -1, -1, "WITHSCORES"),
            at_us=lambda reply: int(float(reply[1])) if reply else None,
        ),
    ),
    "rolling_ring": KeyReader(
        command=_header,
        used=_ring,
        last_admission=LastAdmission(
            command=lambda key: ("BITFIELD_RO", key, "GET", "u48", 0), at_us=lambda reply: reply[0] * 1000 or None
        ),
    ),
    "concurrent": KeyReader(command=_live_leases, used=_number),
}
