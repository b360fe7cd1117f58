"""The observed state of a fleet: what each node reports about itself and the others. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rlctl.topology.nodes import NodeId, NodeName

SlotRange = tuple[int, int]
Address = tuple[str, int]


class Presence(StrEnum):
    """The result of a query to the address of a node."""

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
    PRIMARY = "primary"
    REPLICA = "replica"
    SENTINEL = "sentinel"


class ReplicationLink(StrEnum):
    """The state of a replica's connection to its primary; NONE for other roles."""

    UP = "up"
    DOWN = "down"
    NONE = "none"


class Saved(StrEnum):
    """The data that a node would load from disk at its start."""

    NOTHING = "nothing"
    SNAPSHOT = "snapshot"
    LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """An entry in the cluster table of a node (CLUSTER NODES)."""

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
    """The process and the files of a node, as its target finds them without a query to the node.

    `reachable` is False if a query cannot succeed. `misfit` describes a difference from the topology that needs a new
    container or process. `unknown` is the reason why the target could not read the state, such as a host that is down;
    the node's process and files may exist in this case too.
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
    """The view of one sentinel: the primary, and the replicas and sentinels that the sentinel reaches.

    `silent` lists the known addresses that the sentinel does not reach. `down` means that the sentinel considers the
    primary down; `failed` means that enough sentinels agree. `silence_ms` is the time since the last valid reply of the
    primary. `tilt_s` is how long the sentinel has been in TILT mode, and None outside TILT mode. In TILT mode a
    sentinel does not update `down`.
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
    """The facts about a node; unknown values are None."""

    name: NodeName
    id: NodeId
    presence: Presence
    evidence: str = ""
    disk: OnDisk = field(default_factory=OnDisk)
    role: Role | None = None
    follows: NodeId | None = None
    follows_address: Address | None = None
    link: ReplicationLink = ReplicationLink.NONE
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
        """Whether the node answers and has proven its identity."""
        return self.presence is Presence.UP

    @property
    def is_dead(self) -> bool:
        """Whether the process of the node surely does not run. A node that hangs or loads its data is not dead."""
        return self.presence is Presence.ABSENT and not self.disk.running and self.disk.unknown is None

    @property
    def known(self) -> frozenset[NodeId]:
        """The ids in the cluster table of the node, without nodes in handshake."""
        return frozenset(peer.id for peer in self.table if not peer.handshake)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The fleet at one moment; nodes are in the order of the topology."""

    nodes: tuple[NodeFacts, ...]

    def node(self, name: NodeName) -> NodeFacts:
        return next(node for node in self.nodes if node.name == name)

    def by_id(self) -> dict[NodeId, NodeFacts]:
        return {node.id: node for node in self.nodes}

    @property
    def up(self) -> tuple[NodeFacts, ...]:
        """The nodes that answer and have proven their identity."""
        return tuple(node for node in self.nodes if node.is_up)

    @property
    def exists(self) -> bool:
        """Whether any process or file of the fleet exists."""
        return any(node.presence is not Presence.ABSENT or node.disk.own_id or node.disk.running for node in self.nodes)
