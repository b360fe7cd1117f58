"""One client of a run, and the nodes that it may reach. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlctl.drills.model import Side
from rlctl.drills.requests import Work
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
class Source:
    """Where a client's packets come from, as packet rules can tell: an address of its own, or ports of its own."""

    address: str = ""
    ports: tuple[int, int] | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Source":
        """As a client's process gets it on its standard input."""
        ports = data["ports"]
        return cls(address=data["address"], ports=None if ports is None else (ports[0], ports[1]))


ANYWHERE = Source()


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
