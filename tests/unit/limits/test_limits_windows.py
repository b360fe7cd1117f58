"""Lengths of windows."""

from hypothesis import given
from hypothesis import strategies as st

from rlctl.limits.windows import window_without_edge


@given(st.integers(min_value=0, max_value=2**43))
def test_no_window_ends_within_three_minutes(now_ms: int) -> None:
    window_ms = window_without_edge(now_ms)
    assert 600_000 <= window_ms <= 1_200_000
    assert window_ms - now_ms % window_ms >= 180_000
