"""Windows aligned to the epoch, as in the scripts. Pure."""

_SHORTEST_MS = 600_000
_ROOM_MS = 180_000
_STEP_MS = 60_000


def window_without_edge(now_ms: int) -> int:
    """Return a window length in ms whose current window does not end within three minutes.

    If a window ended while the caller counts, its count would restart at 0, and the caller would take this for lost
    counts.
    """
    window_ms = _SHORTEST_MS
    while window_ms - now_ms % window_ms < _ROOM_MS:
        window_ms += _STEP_MS
    return window_ms
