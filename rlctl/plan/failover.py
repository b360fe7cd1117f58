"""Moving a shard's primary on purpose: the order, and when it is done. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from rlctl.errors import NotFound
from rlctl.observe.model import NodeFacts, Observed, ReplicationLink, Role
from rlctl.plan.desired import Desired
from rlctl.plan.ownership import Shard, shards
from rlctl.plan.sentinel import ONLY_SHARD, address_of, believed_primary, data, named_primaries
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeName


class FailoverMode(StrEnum):
    """How the primary is moved: with its help, with votes but without it, without anybody's."""

    PLANNED = "planned"
    FORCE = "force"
    TAKEOVER = "takeover"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPlan:
    """One move as it is ordered; `replicas` are all that follow, `sentinel` is who is ordered where there are any."""

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
        """As the journal and the question put it."""
        return f"{self.new}: take shard {self.shard} over from {self.old} ({self.mode})"

    @property
    def loss(self) -> str | None:
        """What a move that does not wait for the old primary can lose."""
        if self.mode is FailoverMode.PLANNED:
            return None
        lost = f"writes that {self.old} acknowledged and {self.new} does not hold are lost"
        if not self.is_old_up or self.behind_bytes is None:
            return f"{lost}; nobody can tell how many: {self.old} cannot be asked what it acknowledged"
        return f"{lost}; {self.new} is {self.behind_bytes} bytes behind, and {self.old} goes on for a moment"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStats:
    """What a server says of those who synchronised with it; `promoted_at` is the offset at which it took over."""

    run_id: str
    full: int
    promoted_at: int


def shard_of(desired: Desired, state: Observed, number: int) -> Shard:
    """A shard as it stands; behind Sentinel the whole fleet is one."""
    count = desired.topology.cluster.shards if desired.topology.kind is Kind.CLUSTER else 1
    if not 0 <= number < count:
        there = f"there are 0 to {count - 1}" if count > 1 else "there is only shard 0"
        raise NotFound(f"fleet {desired.topology.name} has no shard {number}", hint=there)
    if desired.topology.kind is Kind.CLUSTER:
        return shards(desired.topology, state)[number]
    primary, nodes = believed_primary(desired, state), data(desired, state)
    rivals = tuple(node for node in nodes if node.is_up and node.role is Role.PRIMARY and node.id != primary.id)
    return Shard(number=ONLY_SHARD, members=nodes, owner=primary, rivals=rivals)


def unlinked_nodes(state: Observed, name: NodeName) -> tuple[NodeName, ...]:
    """The answering nodes that would not hear this replica: a bus link is down, or they do not know whom it follows.

    Redis ignores the order to a primary, and the call for votes, of a node that is not known as the shard's replica.
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
    """Who has taken over and answers as the primary; nobody as long as the old one is believed in."""
    owner = shard_of(desired, state, plan.shard).owner
    if owner is None or owner.name == plan.old or not owner.is_up or owner.role is not Role.PRIMARY:
        return None
    return owner


def is_settled(desired: Desired, state: Observed, plan: FailoverPlan) -> bool:
    """Whether the fleet agrees on the new primary, and the old one follows it; one that is gone need not."""
    new, old = new_primary(desired, state, plan), state.node(plan.old)
    if new is None or any(address != address_of(desired, new) for address in named_primaries(desired, state)):
        return False
    follows = old.is_up and old.role is Role.REPLICA and old.follows == new.id and old.link is ReplicationLink.UP
    return follows or old.is_dead or not plan.is_old_up


def kept_all_writes(before: SyncStats | None, after: SyncStats, paused_at: int | None) -> bool:
    """Whether it was seen that the new primary has all that the old one acknowledged.

    A replica that comes without a full copy has had nothing that was discarded. And what was written before a pause of
    all writes is there when the new primary took over at a later offset; behind it, only pings can have been lost.
    """
    came_whole = before is not None and before.run_id == after.run_id and before.full == after.full
    return came_whole or (paused_at is not None and after.promoted_at >= paused_at)
