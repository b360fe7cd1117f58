"""Slot ownership: as a live node reports it, and for a silent node as other nodes' tables show it. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rlctl.observe.model import NodeFacts, Observed, Peer, Role, SlotRange
from rlctl.topology.model import Topology
from rlctl.topology.nodes import SLOTS, NodeId, NodeSpec, data_nodes, slot_range


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One observed shard: its members, the owner of its slots, and other members that claim slots (`rivals`)."""

    number: int
    members: tuple[NodeFacts, ...]
    owner: NodeFacts | None
    rivals: tuple[NodeFacts, ...] = ()

    @property
    def others(self) -> tuple[NodeFacts, ...]:
        return tuple(node for node in self.members if self.owner is None or node.id != self.owner.id)

    def live_replicas(self) -> tuple[NodeFacts, ...]:
        """The members that answer and follow the owner."""
        owner = self.owner
        return tuple(
            node
            for node in self.others
            if node.is_up and owner is not None and node.role is Role.REPLICA and node.follows == owner.id
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Slots and configuration epoch of each node, by id."""

    claims: dict[NodeId, frozenset[int]]
    epochs: dict[NodeId, int]

    def unowned(self) -> frozenset[int]:
        return frozenset(range(SLOTS)).difference(*self.claims.values())


def ownership(observed: Observed) -> Ownership:
    """Collect the slots of each node.

    A live node reports its own slots. The slots of a silent node come from the newest entry for it in any node's table.
    The table of a silent node is read from that node's disk.
    """
    live = frozenset(node.id for node in observed.up)
    claims = {node.id: _expand(node.slots) for node in observed.up}
    epochs = {node.id: node.epoch for node in observed.up}
    for peer in _primaries_in_tables(observed):
        known = epochs.get(peer.id, -1)
        if peer.id in live or peer.epoch < known:
            continue
        slots = _expand(peer.slots)
        claims[peer.id] = claims[peer.id] | slots if peer.epoch == known else slots
        epochs[peer.id] = peer.epoch
    if silent := claims.keys() - live:
        owners = _owners_in_live_tables(observed)
        for node_id in silent:
            for epoch, owner, ranges in owners:
                if owner != node_id and epoch > epochs[node_id]:
                    claims[node_id] -= _expand(ranges)
    return Ownership(claims=_without_overlaps(claims, epochs, live), epochs=epochs)


def later_owner(observed: Observed, node: NodeFacts, claim: Peer) -> NodeId | None:
    """Return the owner that running nodes list for claimed slots, if the owner's epoch is later than the claim's.

    A node that starts with an outdated claim becomes a replica of that owner, even if the owner is dead.
    """
    claimed = _expand(claim.slots)
    later = [
        (epoch, owner)
        for epoch, owner, slots in _owners_in_live_tables(observed)
        if owner != node.id and epoch > claim.epoch and not claimed.isdisjoint(_expand(slots))
    ]
    return max(later)[1] if later else None


def _owners_in_live_tables(observed: Observed) -> frozenset[tuple[int, NodeId, tuple[SlotRange, ...]]]:
    """Return epoch, id and slots of the owners in the tables of running nodes.

    An entry that several tables have is returned once: in a large fleet, nearly all tables are alike.
    """
    return frozenset(
        (peer.epoch, peer.id, peer.slots)
        for node in observed.up
        for peer in node.table
        if peer.slots and peer.role is Role.PRIMARY and not peer.handshake
    )


def shards(topology: Topology, observed: Observed) -> tuple[Shard, ...]:
    """Return every shard of the topology as observed."""
    owned = ownership(observed)
    specs = data_nodes(topology)
    return tuple(_shard(number, specs, observed, owned) for number in range(topology.cluster.shards))


def missing_slots(topology: Topology, owned: Ownership) -> dict[int, tuple[SlotRange, ...]]:
    """Return the slots without an owner, by the shard that the topology assigns them to."""
    unowned = owned.unowned()
    count = topology.cluster.shards
    wanted = {shard: _within(unowned, slot_range(shard, count)) for shard in range(count)}
    return {shard: ranges for shard, ranges in wanted.items() if ranges}


def members(topology: Topology, shard: int) -> tuple[NodeSpec, ...]:
    """Return the nodes of a shard in the topology."""
    return tuple(spec for spec in data_nodes(topology) if spec.shard == shard)


def _shard(number: int, specs: Sequence[NodeSpec], observed: Observed, owned: Ownership) -> Shard:
    nodes = tuple(observed.node(spec.name) for spec in specs if spec.shard == number)
    claimants = sorted(
        (node for node in nodes if owned.claims.get(node.id)),
        key=lambda node: (node.is_up, owned.epochs.get(node.id, 0)),
        reverse=True,
    )
    return Shard(number=number, members=nodes, owner=claimants[0] if claimants else None, rivals=tuple(claimants[1:]))


def _primaries_in_tables(observed: Observed) -> Iterable[Peer]:
    """Yield the table entries of primaries only: a replica's entry shows the epoch of its primary, not its own."""
    tables = (node.table if node.is_up else node.disk.table for node in observed.nodes)
    return (peer for table in tables for peer in table if peer.role is Role.PRIMARY and not peer.handshake)


def _without_overlaps(
    claims: dict[NodeId, frozenset[int]], epochs: dict[NodeId, int], live: frozenset[NodeId]
) -> dict[NodeId, frozenset[int]]:
    """Assign each contested slot to the claimant with the highest epoch, even a dead claimant, as Redis does."""

    def weight(node_id: NodeId) -> tuple[int, bool, str]:
        return epochs[node_id], node_id in live, node_id

    taken: set[int] = set()
    settled: dict[NodeId, frozenset[int]] = {}
    for node_id in sorted(claims, key=weight, reverse=True):
        # Subtract only where claims overlap, which is rare: on large fleets, a subtraction for every node takes long.
        claim = claims[node_id]
        settled[node_id] = claim if taken.isdisjoint(claim) else claim - taken
        taken |= claim
    return settled


@lru_cache(maxsize=4096)
def _expand(ranges: tuple[SlotRange, ...]) -> frozenset[int]:
    return frozenset(slot for first, last in ranges for slot in range(first, last + 1))


def _within(slots: frozenset[int], bounds: SlotRange) -> tuple[SlotRange, ...]:
    ranges: list[SlotRange] = []
    for slot in range(bounds[0], bounds[1] + 1):
        if slot not in slots:
            continue
        if ranges and ranges[-1][1] == slot - 1:
            ranges[-1] = (ranges[-1][0], slot)
        else:
            ranges.append((slot, slot))
    return tuple(ranges)
