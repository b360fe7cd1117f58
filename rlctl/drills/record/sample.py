"""One sample of a node. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A node's report about itself and the victim; empty if the node did not answer."""

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
    """Whether there is one primary, and all other nodes are replicas with a link that is up."""
    primaries = [one for one in samples if one.role == "master"]
    followers = [one for one in samples if one.role == "slave" and one.link == "up"]
    return len(primaries) == 1 and len(followers) == len(samples) - 1


def is_one(samples: Sequence[Sample]) -> bool:
    """Whether there is one primary, with all other nodes as connected replicas at the same replication offset."""
    return is_whole(samples) and len({one.offset for one in samples}) == 1
