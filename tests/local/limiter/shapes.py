"""The six limiters that accept a cost, with a rule that all of them support: five calls a second."""

from dataclasses import dataclass

import pytest

from tests.local.limiter.server import Argument, Limiter


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A script and the arguments before the cost."""

    script: str
    rule: tuple[int, ...]

    def call(self, limiter: Limiter, key: str, cost: Argument, at: Argument) -> list[int]:
        return limiter.call(self.script, key, *self.rule, cost, at)

    def spent(self, limiter: Limiter, key: str, at: int) -> None:
        """Use all five at one instant."""
        assert self.call(limiter, key, 5, at)[:3] == [1, 5, 0]

    @property
    def killed(self) -> "Shape":
        """The same rule with limit 0, the kill switch."""
        return Shape(script=self.script, rule=(0, *self.rule[1:]))


FIVE_A_SECOND = {
    "token_bucket": (5, 5, 1000),
    "gcra": (5, 5, 1000),
    "fixed_window": (5, 1000),
    "sliding_counter": (5, 1000),
    "rolling_window": (5, 1000, 0),
    "rolling_ring": (5, 1000, 0),
}
SHAPES = [Shape(script=script, rule=rule) for script, rule in FIVE_A_SECOND.items()]
ALL = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.script)
