"""One look at a node. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a node says of itself and of the victim; a node that does not answer says nothing."""

    alive: bool
    role: str = ""
    epoch: int = 0
    link: str = ""
    offset: int = 0
    suspects: bool = False
    condemns: bool = False
    names: str = ""


SILENT = Sample(alive=False)


def is_whole(samples: Sequence[Sample]) -> bool:
    """One primary, and everybody else follows it with a connection that is up."""
    primaries = [one for one in samples if one.role == "master"]
    followers = [one for one in samples if one.role == "slave" and one.link == "up"]
    return len(primaries) == 1 and len(followers) == len(samples) - 1


def is_one(samples: Sequence[Sample]) -> bool:
    """Whole, and all got equally far."""
    return is_whole(samples) and len({one.offset for one in samples}) == 1
