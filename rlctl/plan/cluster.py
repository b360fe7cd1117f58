"""The phases of bringing a Redis Cluster to its topology; each reads a state and yields steps. Pure."""

from collections.abc import Callable, Iterator

from rlctl.observe.model import NodeFacts, Observed, Role, Saved
from rlctl.plan.desired import Desired
from rlctl.plan.ownership import Shard, members, missing_slots, ownership, shards
from rlctl.plan.steps import AssignSlots, AwaitFailover, Meet, Replicate, SetEpoch, StartNode, Step, TakeOver
from rlctl.topology.model import PersistenceMode
from rlctl.topology.nodes import NodeName

Phase = Callable[[Desired, Observed], Iterator[Step]]


def start_nodes(desired: Desired, state: Observed) -> Iterator[Step]:
    """Start what is dead and may start: not a primary that would come back empty, nor an empty heir to it."""
    for shard in shards(desired.topology, state):
        for node in shard.members:
            if (
                node.is_dead
                and not _must_wait(desired, shard, node)
                and not _could_be_promoted_empty(desired, shard, node)
            ):
                yield StartNode(node=node.name, follow=_primary_to_follow(shard, node))


def promote(desired: Desired, state: Observed) -> Iterator[Step]:
    """Where a dead primary has nothing to come back with, a replica takes its shard first."""
    everything = shards(desired.topology, state)
    alive = sum(1 for shard in everything if shard.owner is not None and not shard.owner.is_dead)
    has_majority = alive > len(everything) // 2
    for shard in everything:
        dead = shard.owner
        if dead is None or not dead.is_dead or not _must_wait(desired, shard, dead):
            continue
        if replica := successor(desired, shard):
            # A replica that was itself dead has been out of touch for too long to be elected.
            if has_majority and not never_synced(replica):
                yield AwaitFailover(node=dead.name, shard=shard.number)
            else:
                yield TakeOver(node=replica.name, dead=dead.name, shard=shard.number)


def start_with_loss(desired: Desired, state: Observed) -> Iterator[Step]:
    """What is still dead has nobody who could take over: its shard starts from what its disk holds."""
    for shard in shards(desired.topology, state):
        owner = shard.owner
        if owner is None or not owner.is_dead:
            continue
        # A member that keeps silent may hold the counts; started now, the owner would empty it.
        has_silent_member = any(not node.is_up and not node.is_dead for node in shard.others)
        if not has_silent_member and successor(desired, shard) is None:
            yield StartNode(node=owner.name, loss=loss(desired, owner, f"shard {shard.number}"))


def set_epochs(_desired: Desired, state: Observed) -> Iterator[Step]:
    """Distinct epochs before the first meeting; later the servers refuse and do not need it."""
    for index, node in enumerate(state.nodes):
        # Members in a handshake count too: the servers refuse as soon as there is a second line.
        if node.is_up and node.epoch == 0 and all(peer.id == node.id for peer in node.table):
            yield SetEpoch(node=node.name, epoch=index + 1)


def meet(_desired: Desired, state: Observed) -> Iterator[Step]:
    """A full mesh: waiting for gossip to spread costs whole seconds."""
    up = state.up
    for index, node in enumerate(up):
        unknown = tuple(
            other.name for other in up[index + 1 :] if other.id not in node.known or node.id not in other.known
        )
        if unknown:
            yield Meet(node=node.name, peers=unknown)


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


STARTING: tuple[Phase, ...] = (start_nodes, promote, start_nodes, start_with_loss, start_nodes)
# Owned before the first meeting, slots travel with the greeting; assigned later they wait for gossip.
FORMING: tuple[Phase, ...] = (set_epochs, assign_slots, meet, replicate)


def loss(desired: Desired, node: NodeFacts, what: str) -> str:
    """What is gone for good when this dead primary is started from what it has."""
    if _has_data(desired, node):
        return f"{what} comes back as it was at its last save: every count since then is lost"
    return f"{what} comes back empty: all its counters are lost, every limit in it starts anew"


def has_more_data(desired: Desired, node: NodeFacts, dead: NodeFacts) -> bool:
    """Whether the node has counts that the dead primary's disk has not."""
    return _has_data(desired, node) and not _has_data(desired, dead)


def successor(desired: Desired, shard: Shard) -> NodeFacts | None:
    """Who takes over from a dead owner: the live replica that received most.

    One that was dead itself has not heard from the owner since: it only counts where it brings what the owner lost.
    """
    owner, replicas = shard.owner, shard.live_replicas()
    in_touch = [node for node in replicas if not never_synced(node)]
    revived = [node for node in replicas if owner is not None and has_more_data(desired, node, owner)]
    return max(in_touch or revived, key=lambda node: (node.offset or 0, node.name), default=None)


def never_synced(node: NodeFacts) -> bool:
    """Whether a replica has not been in touch with its primary since its start: it has no offset then."""
    return node.offset is None


def _has_data(desired: Desired, node: NodeFacts) -> bool:
    """Whether there are counts in memory, or a start reads them; a file that the mode does not read is none."""
    if node.is_up and node.keys is not None:
        return node.keys > 0
    match desired.topology.persistence.mode:
        case PersistenceMode.AOF:
            return node.disk.saved is Saved.LOG
        case PersistenceMode.RDB:
            return node.disk.saved is Saved.SNAPSHOT
        case PersistenceMode.NONE:
            return False


def _primary_to_follow(shard: Shard, node: NodeFacts) -> NodeName | None:
    """Whom a node must follow from its start: without a table it would claim the slots of all keys on its disk."""
    knows_itself = any(peer.id == node.id for peer in node.disk.table)
    if knows_itself or shard.owner is None or shard.owner.id == node.id:
        return None
    return shard.owner.name


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


def _could_be_promoted_empty(desired: Desired, shard: Shard, node: NodeFacts) -> bool:
    """Whether the node could be made the primary of a shard whose counts it does not have."""
    owner = shard.owner
    if owner is None or node.id == owner.id or not owner.is_dead or not _must_wait(desired, shard, owner):
        return False
    return not has_more_data(desired, node, owner)
