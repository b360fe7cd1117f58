"""One client of a run, and the nodes that it may reach. Pure."""

from dataclasses import dataclass

from rlctl.drills.model import Side
from rlctl.drills.requests import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One node as a client reaches it."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One client: where it stands, whom it may reach, what it asks for."""

    name: str
    side: Side
    places: tuple[Place, ...]
    work: Work
    tag: str
    pinned: bool
    source: str | None
