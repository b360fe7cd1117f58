"""One client of a run, and the nodes that it may reach. Pure."""

from dataclasses import dataclass

from rlctl.drills.engine.requests import Work
from rlctl.drills.scenario.model import Side
from rlctl.lab.partition import Source
from rlctl.topology.nodes import NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One node as a client reaches it."""

    name: str
    host: str
    port: int

    @classmethod
    def of(cls, spec: NodeSpec) -> "Place":
        """Where the node listens."""
        return cls(name=spec.name, host=spec.address, port=spec.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One client: where it stands, whom it may reach, what it asks for."""

    name: str
    side: Side
    places: tuple[Place, ...]
    work: Work
    tag: str
    pinned: bool
    source: Source
