"""One client of a run, and the nodes that it may reach. Pure."""

from dataclasses import dataclass

from rlctl.drills.engine.requests import ClientWork
from rlctl.drills.scenario.model import Side
from rlctl.lab.partition import ClientSource
from rlctl.topology.nodes import NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddress:
    """One node as a client reaches it."""

    name: str
    host: str
    port: int

    @classmethod
    def of(cls, spec: NodeSpec) -> "NodeAddress":
        """Where the node listens."""
        return cls(name=spec.name, host=spec.address, port=spec.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSpec:
    """One client: where it stands, whom it may reach, what it asks for."""

    name: str
    side: Side
    places: tuple[NodeAddress, ...]
    work: ClientWork
    tag: str
    pinned: bool
    source: ClientSource
