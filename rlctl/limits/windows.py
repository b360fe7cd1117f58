"""Windows aligned to the epoch, as in the scripts. Pure."""

_SHORTEST_MS = 600_000
_ROOM_MS = 180_000
_STEP_MS = 60_000


def window_without_edge(now_ms: int) -> int:
    """A window length with at least three minutes left in the current window: its end would look like lost counts."""
    window_ms = _SHORTEST_MS
    while window_ms - now_ms % window_ms < _ROOM_MS:
        window_ms += _STEP_MS
    return window_ms
