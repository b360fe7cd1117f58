"""The phases that bring a Redis Cluster to its topology; each reads a state and yields steps. Pure."""

from collections.abc import Callable, Iterator

from rlctl.observe.model import NodeFacts, Observed, Role, Saved
from rlctl.plan.desired import Desired
from rlctl.plan.ownership import Shard, members, missing_slots, ownership, shards
from rlctl.plan.steps import AssignSlots, AwaitFailover, Meet, Replicate, SetEpoch, StartNode, Step, TakeOver
from rlctl.topology.model import PersistenceMode
from rlctl.topology.nodes import NodeName

Phase = Callable[[Desired, Observed], Iterator[Step]]


def start_nodes(desired: Desired, state: Observed) -> Iterator[Step]:
    """Start dead nodes, except primaries that would lose data if they started, and nodes that may lack that data.

    A node that lacks the data could be promoted in place of its dead primary, and the data would be lost.
    """
    for shard in shards(desired.topology, state):
        for node in shard.members:
            if (
                node.is_dead
                and not _must_wait(desired, shard, node)
                and not _could_be_promoted_empty(desired, shard, node)
            ):
                yield StartNode(node=node.name, follow=_primary_to_follow(shard, node))


def promote(desired: Desired, state: Observed) -> Iterator[Step]:
    """Let a replica take over the shard of a dead primary if data would be lost when that primary started."""
    everything = shards(desired.topology, state)
    alive = sum(1 for shard in everything if shard.owner is not None and not shard.owner.is_dead)
    has_majority = alive > len(everything) // 2
    for shard in everything:
        dead = shard.owner
        if dead is None or not dead.is_dead or not _must_wait(desired, shard, dead):
            continue
        if replica := successor(desired, shard):
            # Primaries refuse to vote for a replica that lost contact with its primary too long ago.
            if has_majority and not never_synced(replica):
                yield AwaitFailover(node=dead.name, shard=shard.number)
            else:
                yield TakeOver(node=replica.name, dead=dead.name, shard=shard.number)


def start_with_loss(desired: Desired, state: Observed) -> Iterator[Step]:
    """Start a dead primary that no replica can replace. Data that the primary's disk does not have is lost."""
    for shard in shards(desired.topology, state):
        owner = shard.owner
        if owner is None or not owner.is_dead:
            continue
        # A member that does not answer may still have the counts. The owner must not start yet: the member would then
        # replace its counts by a copy of the owner's data.
        has_silent_member = any(not node.is_up and not node.is_dead for node in shard.others)
        if not has_silent_member and successor(desired, shard) is None:
            yield StartNode(node=owner.name, loss=loss(desired, owner, f"shard {shard.number}"))


def set_epochs(_desired: Desired, state: Observed) -> Iterator[Step]:
    """Give new nodes distinct epochs before the first CLUSTER MEET; Redis refuses to set an epoch afterwards."""
    entries = (peer for node in state.nodes for peer in (*node.table, *node.disk.table))
    latest = max((*(peer.epoch for peer in entries), *(node.epoch for node in state.nodes)), default=0)
    # Once elections have raised epochs beyond the number of nodes, new epochs must be higher than all others: the claim
    # with the highest epoch wins a slot, so an outdated claim on another node's disk would win over a new node.
    base = latest if latest > len(state.nodes) else 0
    for index, node in enumerate(state.nodes):
        # Redis refuses SET-CONFIG-EPOCH as soon as the node table has a second entry, even one in handshake.
        if node.is_up and node.epoch == 0 and all(peer.id == node.id for peer in node.table):
            yield SetEpoch(node=node.name, epoch=base + index + 1)


def meet(_desired: Desired, state: Observed) -> Iterator[Step]:
    """Introduce every node to every other node, because gossip alone would take seconds to do so."""
    up = state.up
    for index, node in enumerate(up):
        unknown = tuple(
            other.name for other in up[index + 1 :] if other.id not in node.known or node.id not in other.known
        )
        if unknown:
            yield Meet(node=node.name, peers=unknown)


def assign_slots(desired: Desired, state: Observed) -> Iterator[Step]:
    """Assign each slot without an owner to the primary of its shard."""
    missing = missing_slots(desired.topology, ownership(state))
    for shard in shards(desired.topology, state):
        if shard.number in missing and (primary := _primary(desired, shard)):
            yield AssignSlots(node=primary.name, slots=missing[shard.number])


def replicate(desired: Desired, state: Observed) -> Iterator[Step]:
    """Make every node of a shard, except its primary, a replica of that primary."""
    for shard in shards(desired.topology, state):
        primary = _primary(desired, shard)
        if primary is None:
            continue
        for node in shard.members:
            is_replica = node.role is Role.REPLICA and node.follows == primary.id
            if node.is_up and node.id != primary.id and not is_replica and not node.slots:
                yield Replicate(node=node.name, primary=primary.name)


STARTING: tuple[Phase, ...] = (start_nodes, promote, start_nodes, start_with_loss, start_nodes)
# Assign slots before MEET: the handshake of MEET carries the slots that a node owns at that time. Slots that are
# assigned later reach other nodes only by gossip, which may take seconds.
FORMING: tuple[Phase, ...] = (set_epochs, assign_slots, meet, replicate)


def loss(desired: Desired, node: NodeFacts, what: str) -> str:
    """Describe the data that is lost for good if this dead primary starts from its disk.

    `what` is the subject of the sentence: a shard or the fleet.
    """
    if _has_data(desired, node):
        return f"{what} comes back as it was at its last save: every count since then is lost"
    return f"{what} comes back empty: all its counters are lost, every limit in it starts anew"


def has_more_data(desired: Desired, node: NodeFacts, dead: NodeFacts) -> bool:
    """Whether the node has data and the disk of the dead primary has none."""
    return _has_data(desired, node) and not _has_data(desired, dead)


def successor(desired: Desired, shard: Shard) -> NodeFacts | None:
    """Return the replica that takes over from the owner: the one that has received the most data.

    A replica that restarted after the owner died has no recent data. Such a replica is chosen only if it has data, the
    owner's disk has none, and no other replica can take over.
    """
    owner, replicas = shard.owner, shard.live_replicas()
    in_touch = [node for node in replicas if not never_synced(node)]
    revived = [node for node in replicas if owner is not None and has_more_data(desired, node, owner)]
    return max(in_touch or revived, key=lambda node: (node.offset or 0, node.name), default=None)


def never_synced(node: NodeFacts) -> bool:
    """Whether a replica has had no contact with its primary since the replica started, and thus has no offset."""
    return node.offset is None


def _has_data(desired: Desired, node: NodeFacts) -> bool:
    """Whether the node has keys in memory, or a file on disk that its persistence mode loads at start."""
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
    """Return the primary that a node must follow from its start, or None.

    A node without a saved node table would claim the slots of all keys on its disk if it started as a primary. Such a
    node therefore starts as a replica of its shard's owner.
    """
    knows_itself = any(peer.id == node.id for peer in node.disk.table)
    if knows_itself or shard.owner is None or shard.owner.id == node.id:
        return None
    return shard.owner.name


def _primary(desired: Desired, shard: Shard) -> NodeFacts | None:
    """Return the live owner of the shard; if no node owns its slots, the first primary in the topology's order."""
    if shard.owner is not None:
        return shard.owner if shard.owner.is_up else None
    order: list[NodeName] = [spec.name for spec in members(desired.topology, shard.number)]
    candidates = (node for node in shard.members if node.is_up and node.role is Role.PRIMARY)
    return min(candidates, key=lambda node: order.index(node.name), default=None)


def _must_wait(desired: Desired, shard: Shard, node: NodeFacts) -> bool:
    """Whether the node is a primary that must stay down, because it has no append-only file to load.

    If it started, its replicas would replace their newer data by a copy of the primary's data.
    """
    if shard.owner is None or node.id != shard.owner.id:
        return False
    return not (desired.topology.persistence.mode is PersistenceMode.AOF and node.disk.saved is Saved.LOG)


def _could_be_promoted_empty(desired: Desired, shard: Shard, node: NodeFacts) -> bool:
    """Whether the node may lack the dead owner's data, but could be promoted in place of the owner once started."""
    owner = shard.owner
    if owner is None or node.id == owner.id or not owner.is_dead or not _must_wait(desired, shard, owner):
        return False
    return not has_more_data(desired, node, owner)
