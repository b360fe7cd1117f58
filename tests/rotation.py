"""Variants that prove nearly the same take turns: one run has half of them, the next number has the others."""

from collections.abc import Sequence
from typing import TypeVar

from tests.seed import SEED

Variant = TypeVar("Variant")
# The same roles and playbooks, run by hand and by rlctl: a run of all layers has one or the other.
HALVES = (
    ("hosts/test_roles.py", "hosts/test_roles_in_trouble.py", "hosts/test_site.py"),
    ("hosts/test_deploy_hosts.py", "hosts/test_hosts_drills.py", "hosts/test_hosts_night.py"),
)


def in_turn(variants: Sequence[Variant], number: int | None = None) -> list[Variant]:
    """Every other one; where pairs stand together, one of each pair."""
    return list(variants[(turn() if number is None else number) % 2 :: 2])


def turn(seed: str = SEED) -> int:
    """A number that all workers of a run share: the seed is the start of a commit's hash, or digits."""
    return int(seed, 16)


def waits(file: str, number: int | None = None) -> bool:
    """Whether the next run has this file of tests, and not this one."""
    return file in HALVES[1 - (turn() if number is None else number) % 2]
