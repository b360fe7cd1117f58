"""Failovers that an operator requests: the plan, and the check that a failover is complete. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from rlctl.errors import NotFound
from rlctl.observe.model import NodeFacts, Observed, ReplicationLink, Role
from rlctl.plan.desired import Desired
from rlctl.plan.ownership import Shard, shards
from rlctl.plan.sentinel import ONLY_SHARD, address_of, believed_primary, named_primaries, observed_data_nodes
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import NodeName


class FailoverMode(StrEnum):
    """The mode of a failover: it decides which nodes must answer besides the replica.

    PLANNED needs the old primary, and a majority of the cluster's primaries or a quorum of Sentinels. FORCE needs only
    that majority, or a single Sentinel. TAKEOVER needs no other node.
    """

    PLANNED = "planned"
    FORCE = "force"
    TAKEOVER = "takeover"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPlan:
    """One failover from `old` to `new`.

    `replicas` are all replicas of the old primary that may be promoted; `sentinel` is the Sentinel that starts the
    failover, None in a cluster.
    """

    shard: int
    mode: FailoverMode
    old: NodeName
    new: NodeName
    behind_bytes: int | None
    is_old_up: bool
    old_run_id: str | None
    replicas: tuple[NodeName, ...]
    sentinel: NodeName | None = None

    @property
    def text(self) -> str:
        """One line for the journal and the confirmation prompt."""
        return f"{self.new}: take over shard {self.shard} from {self.old} ({self.mode})"

    @property
    def loss(self) -> str | None:
        """Describe the writes that the failover may lose; None for a planned failover."""
        if self.mode is FailoverMode.PLANNED:
            return None
        lost = f"writes that {self.old} acknowledged and {self.new} does not hold are lost"
        if not self.is_old_up or self.behind_bytes is None:
            return f"{lost}; how many is unknown, because {self.old} cannot be queried"
        behind = f"{self.new} is {self.behind_bytes} bytes behind"
        return f"{lost}; {behind}, and {self.old} accepts writes until it is replaced"


def failover_command(topology: Topology, mode: FailoverMode) -> tuple[str, ...]:
    """Return the command that starts a failover. In a cluster the new primary receives it, otherwise a Sentinel."""
    if topology.kind is Kind.SENTINEL:
        return "SENTINEL", "FAILOVER", topology.name
    return ("CLUSTER", "FAILOVER", *(() if mode is FailoverMode.PLANNED else (mode.upper(),)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStats:
    """Synchronisation counters of one server.

    `full` counts full copies to its replicas; `promoted_at` is its replication offset when it became the primary.
    """

    run_id: str
    full: int
    promoted_at: int


def shard_of(desired: Desired, state: Observed, number: int) -> Shard:
    """Return one shard with its observed nodes, or raise NotFound. A Sentinel fleet has only shard 0."""
    count = desired.topology.cluster.shards if desired.topology.kind is Kind.CLUSTER else 1
    if not 0 <= number < count:
        there = f"there are 0 to {count - 1}" if count > 1 else "there is only shard 0"
        raise NotFound(f"fleet {desired.topology.name} has no shard {number}", hint=there)
    if desired.topology.kind is Kind.CLUSTER:
        return shards(desired.topology, state)[number]
    primary, nodes = believed_primary(desired, state), observed_data_nodes(desired, state)
    rivals = tuple(node for node in nodes if node.is_up and node.role is Role.PRIMARY and node.id != primary.id)
    return Shard(number=ONLY_SHARD, members=nodes, owner=primary, rivals=rivals)


def unlinked_nodes(state: Observed, name: NodeName) -> tuple[NodeName, ...]:
    """Return the live nodes that would ignore this replica's failover requests.

    A node ignores them if a bus link between the node and the replica is down, or if the node's table does not list
    the replica under its current primary.
    """
    own = state.node(name)
    others = (node for node in state.up if node.id != own.id)
    return tuple(node.name for node in others if not (_has_link(own, node) and _hears(node, own)))


def _hears(node: NodeFacts, replica: NodeFacts) -> bool:
    return _has_link(node, replica) and any(
        peer.id == replica.id and peer.follows == replica.follows for peer in node.table
    )


def _has_link(node: NodeFacts, to: NodeFacts) -> bool:
    known = (peer for peer in node.table if peer.id == to.id)
    return any(peer.linked and not (peer.failed or peer.suspected or peer.handshake) for peer in known)


def new_primary(desired: Desired, state: Observed, plan: FailoverPlan) -> NodeFacts | None:
    """Return the node that answers as the new primary; None while the fleet still names the old one."""
    owner = shard_of(desired, state, plan.shard).owner
    if owner is None or owner.name == plan.old or not owner.is_up or owner.role is not Role.PRIMARY:
        return None
    return owner


def is_complete(desired: Desired, state: Observed, plan: FailoverPlan) -> bool:
    """Whether the fleet agrees on the new primary, and the old primary follows it.

    An old primary that is dead, or did not answer before the failover, need not follow.
    """
    new, old = new_primary(desired, state, plan), state.node(plan.old)
    if new is None or any(address != address_of(desired, new) for address in named_primaries(desired, state)):
        return False
    follows = old.is_up and old.role is Role.REPLICA and old.follows == new.id and old.link is ReplicationLink.UP
    return follows or old.is_dead or not plan.is_old_up


def kept_all_writes(before: SyncStats | None, after: SyncStats, paused_at: int | None) -> bool:
    """Whether the new primary is proven to have all writes that the old one acknowledged.

    There are two proofs. The old primary rejoined without a full copy, so it had nothing to discard. Or all writes were
    paused at offset `paused_at`, and the new primary took over at that offset or a later one.
    """
    came_whole = before is not None and before.run_id == after.run_id and before.full == after.full
    return came_whole or (paused_at is not None and after.promoted_at >= paused_at)
