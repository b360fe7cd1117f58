"""One client of a run, and the nodes that it uses. Pure."""

from dataclasses import dataclass

from rlctl.drills.engine.requests import ClientWork
from rlctl.drills.scenario.model import Side
from rlctl.lab.partition import ClientSource
from rlctl.topology.nodes import NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddress:
    """A node's name and address, as a client uses it."""

    name: str
    host: str
    port: int

    @classmethod
    def of(cls, spec: NodeSpec) -> "NodeAddress":
        return cls(name=spec.name, host=spec.address, port=spec.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSpec:
    """One client: its side of a cut, the nodes that it uses, and what it sends."""

    name: str
    side: Side
    places: tuple[NodeAddress, ...]
    work: ClientWork
    tag: str
    pinned: bool
    source: ClientSource
