"""One look at a node. Pure."""

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


def is_one(samples: list[Sample]) -> bool:
    """One primary, everybody else follows it, and all got equally far."""
    primaries = [one for one in samples if one.role == "master"]
    followers = [one for one in samples if one.role == "slave" and one.link == "up"]
    return len(primaries) == 1 and len(followers) == len(samples) - 1 and len({one.offset for one in samples}) == 1
