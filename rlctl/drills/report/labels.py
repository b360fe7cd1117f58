"""Places the labels of a timeline so that no label covers another and no line crosses one. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLabel:
    """The label of an instant: an action of rlctl (`is_done`) or an observation."""

    at_ms: float
    text: str
    is_done: bool


def reach_ms(labels: Sequence[TimelineLabel], start_ms: float, end_ms: float, share_per_letter: float) -> float:
    """The end of the time axis that leaves room for every label to the right of its line."""
    ends = (start_ms + (one.at_ms - start_ms) / (1 - share_per_letter * len(one.text)) for one in labels)
    return max(end_ms, *ends) if labels else end_ms


def rows(labels: Sequence[TimelineLabel], ms_per_letter: float) -> tuple[tuple[TimelineLabel, int], ...]:
    """Assign each label a row; row 0 is at the bottom. A label is above all later labels that its text would cover."""
    placed: list[tuple[TimelineLabel, int]] = []
    for label in sorted(labels, key=lambda one: -one.at_ms):
        end_ms = label.at_ms + ms_per_letter * len(label.text)
        below = [row for later, row in placed if later.at_ms < end_ms]
        placed.append((label, max(below, default=-1) + 1))
    return tuple(reversed(placed))
