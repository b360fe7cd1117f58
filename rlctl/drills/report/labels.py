"""Where the labels of marked instants stand, so that none covers another and no line runs through one. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An instant and what happened at it; the tool did it, or it was seen."""

    at_ms: float
    text: str
    is_done: bool


def reach_ms(marks: Sequence[Mark], start_ms: float, end_ms: float, share_per_letter: float) -> float:
    """Where the axis has to end for every label to fit in, when it stands to the right of its line."""
    ends = (start_ms + (one.at_ms - start_ms) / (1 - share_per_letter * len(one.text)) for one in marks)
    return max(end_ms, *ends) if marks else end_ms


def rows(marks: Sequence[Mark], ms_per_letter: float) -> tuple[tuple[Mark, int], ...]:
    """Each label's row, 0 the lowest; a label stands higher than every later one that begins below it."""
    placed: list[tuple[Mark, int]] = []
    for mark in sorted(marks, key=lambda one: -one.at_ms):
        end_ms = mark.at_ms + ms_per_letter * len(mark.text)
        below = [row for later, row in placed if later.at_ms < end_ms]
        placed.append((mark, max(below, default=-1) + 1))
    return tuple(reversed(placed))
