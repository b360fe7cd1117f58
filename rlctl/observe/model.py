"""Observed: what each node said of itself and of the others. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rlctl.topology.nodes import NodeId, NodeName

SlotRange = tuple[int, int]
Address = tuple[str, int]


class Presence(StrEnum):
    """What answers at a node's address."""

    UP = "up"
    LOADING = "loading"
    ABSENT = "absent"
    HUNG = "hung"
    FULL = "full"
    DENIED = "denied"
    NONSENSE = "nonsense"
    UNPROVEN = "unproven"
    STRANGER = "stranger"
    FOREIGN = "foreign"


class Role(StrEnum):
    """What a node does."""

    PRIMARY = "primary"
    REPLICA = "replica"
    SENTINEL = "sentinel"


class Link(StrEnum):
    """A replica's connection to its primary; none where there is nothing to connect to."""

    UP = "up"
    DOWN = "down"
    NONE = "none"


class Saved(StrEnum):
    """What a node would find on its disk when it starts."""

    NOTHING = "nothing"
    SNAPSHOT = "snapshot"
    LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One line of a node's table of the cluster."""

    id: NodeId
    address: str
    port: int
    role: Role
    follows: NodeId | None = None
    slots: tuple[SlotRange, ...] = ()
    epoch: int = 0
    failed: bool = False
    suspected: bool = False
    handshake: bool = False
    linked: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDisk:
    """What the target knows of a node without asking it: its process and its files.

    Where nothing can answer, it is not `reachable`; `misfit` says what of its place needs a new one to change;
    `unknown` says why it knows nothing: a host that does not answer may hold a process and files of any kind.
    """

    running: bool = False
    reachable: bool = True
    misfit: str | None = None
    unknown: str | None = None
    pid: int | None = None
    port_taken: int | None = None
    saved: Saved = Saved.NOTHING
    table: tuple[Peer, ...] = ()
    own_id: NodeId | None = None
    monitors: Address | None = None
    monitor_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SentinelView:
    """What one sentinel thinks of the fleet's primary, silent for so long; it reaches these replicas and peers.

    `silent` are those that it knows and does not reach; others agree that the primary is down where it is `failed`.
    `tilt_s`: for how many seconds it has been in TILT, or None. In TILT it keeps its opinion of who is down.
    """

    primary: Address | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    replicas: tuple[Address, ...] = ()
    peers: tuple[NodeId, ...] = ()
    silent: tuple[Address, ...] = ()
    down: bool = False
    failed: bool = False
    usable_quorum: bool = False
    epoch: int = 0
    failing_over: bool = False
    silence_ms: int = 0
    tilt_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """One node; what was not learned is None."""

    name: NodeName
    id: NodeId
    presence: Presence
    evidence: str = ""
    disk: OnDisk = field(default_factory=OnDisk)
    role: Role | None = None
    follows: NodeId | None = None
    follows_address: Address | None = None
    link: Link = Link.NONE
    slots: tuple[SlotRange, ...] = ()
    epoch: int = 0
    table: tuple[Peer, ...] = ()
    fleet_ok: bool | None = None
    offset: int | None = None
    lag_bytes: int | None = None
    priority: int | None = None
    keys: int | None = None
    good_replicas: int | None = None
    flavor: str | None = None
    version: str | None = None
    run_id: str | None = None
    pid: int | None = None
    used_bytes: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    acl_revision: str | None = None
    users_off: frozenset[str] = frozenset()
    scripts: frozenset[str] | None = None
    sentinel: SentinelView | None = None

    @property
    def is_up(self) -> bool:
        """Whether the node answers us as itself."""
        return self.presence is Presence.UP

    @property
    def is_dead(self) -> bool:
        """Whether surely no process is there; a hung or loading one is not dead."""
        return self.presence is Presence.ABSENT and not self.disk.running and self.disk.unknown is None

    @property
    def known(self) -> frozenset[NodeId]:
        """The members this node has in its table for good."""
        return frozenset(peer.id for peer in self.table if not peer.handshake)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The fleet at one moment, in the topology's order."""

    nodes: tuple[NodeFacts, ...]

    def node(self, name: NodeName) -> NodeFacts:
        """The facts of one node."""
        return next(node for node in self.nodes if node.name == name)

    def by_id(self) -> dict[NodeId, NodeFacts]:
        """The nodes by the id they carry."""
        return {node.id: node for node in self.nodes}

    @property
    def up(self) -> tuple[NodeFacts, ...]:
        """The nodes that answer."""
        return tuple(node for node in self.nodes if node.is_up)

    @property
    def exists(self) -> bool:
        """Whether anything of the fleet is there: a process or files of one."""
        return any(node.presence is not Presence.ABSENT or node.disk.own_id or node.disk.running for node in self.nodes)
