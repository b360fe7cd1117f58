"""A straight line through points, by least squares. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """y = slope * x + offset; `fit` is R squared, 1 where every point lies on it."""

    slope: float
    offset: float
    fit: float

    def at(self, x: float) -> float:
        """Its height over x."""
        return self.slope * x + self.offset


def fitted(points: Sequence[Point]) -> Line | None:
    """The line with the least squares of distances; None where there are not two different places."""
    if len({x for x, _ in points}) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    line = Line(slope=slope, offset=mean_y - slope * mean_x, fit=1.0)
    spread = sum((y - mean_y) ** 2 for _, y in points)
    missed = sum((y - line.at(x)) ** 2 for x, y in points)
    return Line(slope=line.slope, offset=line.offset, fit=1 - missed / spread if spread else 1.0)
