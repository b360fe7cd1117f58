"""The phases of bringing a Redis Cluster to its topology; each reads a state and yields steps. Pure."""

from collections.abc import Callable, Iterator

from rlctl.observe.model import NodeFacts, Observed, Role, Saved
from rlctl.plan.desired import Desired
from rlctl.plan.ownership import Shard, members, missing_slots, ownership, shards
from rlctl.plan.steps import AssignSlots, AwaitFailover, Meet, Replicate, SetEpoch, StartNode, Step, TakeOver
from rlctl.topology.model import PersistenceMode
from rlctl.topology.nodes import NodeName

Phase = Callable[[Desired, Observed], Iterator[Step]]


def revive(desired: Desired, state: Observed) -> Iterator[Step]:
    """Start what is dead and may start: everything but a primary that would come back empty."""
    for shard in shards(desired.topology, state):
        for node in shard.members:
            if node.is_dead and not _must_wait(desired, shard, node):
                yield StartNode(node=node.name)


def promote(desired: Desired, state: Observed) -> Iterator[Step]:
    """Where a dead primary has nothing to come back with, a replica takes its shard first."""
    everything = shards(desired.topology, state)
    alive = sum(1 for shard in everything if shard.owner is not None and not shard.owner.is_dead)
    has_majority = alive > len(everything) // 2
    for shard in everything:
        dead = shard.owner
        if dead is None or not dead.is_dead or not _must_wait(desired, shard, dead):
            continue
        if replica := best_replica(shard):
            # A replica that was itself dead has been out of touch for too long to be elected.
            if has_majority and not _was_revived(replica):
                yield AwaitFailover(node=dead.name, shard=shard.number)
            else:
                yield TakeOver(node=replica.name, dead=dead.name, shard=shard.number)


def revive_with_loss(desired: Desired, state: Observed) -> Iterator[Step]:
    """What is still dead has no replica alive: its shard starts from what its disk holds."""
    for shard in shards(desired.topology, state):
        owner = shard.owner
        if owner is None or not owner.is_dead:
            continue
        if not shard.live_replicas():
            yield StartNode(node=owner.name, loss=loss(desired, owner, f"shard {shard.number}"))


def set_epochs(_desired: Desired, state: Observed) -> Iterator[Step]:
    """Distinct epochs before the first meeting; later the servers refuse and do not need it."""
    for index, node in enumerate(state.nodes):
        if node.is_up and node.epoch == 0 and node.known <= {node.id}:
            yield SetEpoch(node=node.name, epoch=index + 1)


def meet(_desired: Desired, state: Observed) -> Iterator[Step]:
    """A full mesh: waiting for gossip to spread costs whole seconds."""
    up = state.up
    for index, node in enumerate(up):
        strangers = tuple(
            other.name for other in up[index + 1 :] if other.id not in node.known or node.id not in other.known
        )
        if strangers:
            yield Meet(node=node.name, peers=strangers)


def assign_slots(desired: Desired, state: Observed) -> Iterator[Step]:
    """Every slot without an owner goes to the primary of its shard."""
    missing = missing_slots(desired.topology, ownership(state))
    for shard in shards(desired.topology, state):
        if shard.number in missing and (primary := _primary(desired, shard)):
            yield AssignSlots(node=primary.name, slots=missing[shard.number])


def replicate(desired: Desired, state: Observed) -> Iterator[Step]:
    """Everyone in a shard but its primary is a replica of it."""
    for shard in shards(desired.topology, state):
        primary = _primary(desired, shard)
        if primary is None:
            continue
        for node in shard.members:
            is_replica = node.role is Role.REPLICA and node.follows == primary.id
            if node.is_up and node.id != primary.id and not is_replica and not node.slots:
                yield Replicate(node=node.name, primary=primary.name)


PHASES: tuple[Phase, ...] = (
    revive,
    promote,
    revive,
    revive_with_loss,
    revive,
    set_epochs,
    # Owned before the first meeting, slots travel with the greeting; assigned later they wait for gossip.
    assign_slots,
    meet,
    replicate,
)


def loss(desired: Desired, node: NodeFacts, what: str) -> str:
    """What is gone for good when this dead primary is started from what it has."""
    if desired.topology.persistence.mode is PersistenceMode.RDB and node.disk.saved is Saved.SNAPSHOT:
        return f"{what} comes back as it was at its last save: every count since then is lost"
    return f"{what} comes back empty: all its counters are lost, every limit in it starts anew"


def best_replica(shard: Shard) -> NodeFacts | None:
    """The live replica that received most."""
    return max(shard.live_replicas(), key=lambda node: (node.offset or 0, node.name), default=None)


def _was_revived(node: NodeFacts) -> bool:
    """A simulated start leaves a replica without an offset."""
    return node.offset is None


def _primary(desired: Desired, shard: Shard) -> NodeFacts | None:
    """The shard's owner; in a shard without one, the first member that may become it."""
    if shard.owner is not None:
        return shard.owner if shard.owner.is_up else None
    order: list[NodeName] = [spec.name for spec in members(desired.topology, shard.number)]
    candidates = (node for node in shard.members if node.is_up and node.role is Role.PRIMARY)
    return min(candidates, key=lambda node: order.index(node.name), default=None)


def _must_wait(desired: Desired, shard: Shard, node: NodeFacts) -> bool:
    """Whether starting the node now could hand emptiness, or old counts, to replicas that hold more."""
    if shard.owner is None or node.id != shard.owner.id:
        return False
    return not (desired.topology.persistence.mode is PersistenceMode.AOF and node.disk.saved is Saved.LOG)
