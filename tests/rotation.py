"""Variants that prove nearly the same take turns: one run has half of them, the next number has the others."""

from collections.abc import Sequence
from typing import TypeVar

from tests.seed import SEED

Variant = TypeVar("Variant")


def in_turn(variants: Sequence[Variant], number: int | None = None) -> list[Variant]:
    """Every other one; where pairs stand together, one of each pair."""
    return list(variants[(turn() if number is None else number) % 2 :: 2])


def turn(seed: str = SEED) -> int:
    """A number that all workers of a run share: the seed is the start of a commit's hash, or digits."""
    return int(seed, 16)
