"""Fits a straight line to points by least squares. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLine:
    """y = slope * x + offset; `fit` is R squared, 1 if every point is on the line."""

    slope: float
    offset: float
    fit: float

    def at(self, x: float) -> float:
        return self.slope * x + self.offset


def fitted(points: Sequence[Point]) -> FittedLine | None:
    """The least-squares line through points; None for fewer than two different values of x."""
    if len({x for x, _ in points}) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    line = FittedLine(slope=slope, offset=mean_y - slope * mean_x, fit=1.0)
    spread = sum((y - mean_y) ** 2 for _, y in points)
    missed = sum((y - line.at(x)) ** 2 for x, y in points)
    return FittedLine(slope=line.slope, offset=line.offset, fit=1 - missed / spread if spread else 1.0)
