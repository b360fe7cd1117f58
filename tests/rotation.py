"""Variants that test nearly the same alternate: a run has one half of them, the next number has the other."""

from collections.abc import Sequence
from typing import TypeVar

from tests.seed import SEED

Variant = TypeVar("Variant")
# These files run the same roles, by hand and through rlctl. A run of all layers has one of them.
HALVES = (
    ("hosts/test_roles.py", "hosts/test_roles_in_trouble.py", "hosts/test_site.py"),
    ("hosts/test_deploy_hosts.py", "hosts/test_hosts_drills.py", "hosts/test_hosts_night.py"),
)


def in_turn(variants: Sequence[Variant], number: int | None = None) -> list[Variant]:
    """Every second item; one of each pair if pairs are adjacent."""
    return list(variants[(turn() if number is None else number) % 2 :: 2])


def turn(seed: str = SEED) -> int:
    """The number of a run, the same in all workers. The seed is the start of a commit's hash, or digits."""
    return int(seed, 16)


def waits(file: str, number: int | None = None) -> bool:
    """Whether only the next run has this file of tests."""
    return file in HALVES[1 - (turn() if number is None else number) % 2]
