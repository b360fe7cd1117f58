"""Who owns which slots, from what all live nodes say; the disks speak only when nobody is alive. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlctl.observe.model import NodeFacts, Observed, Peer, Role, SlotRange
from rlctl.topology.model import Topology
from rlctl.topology.nodes import SLOTS, NodeId, NodeSpec, data_nodes, slot_range


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One shard as it stands: its members, and the member that owns its slots."""

    number: int
    members: tuple[NodeFacts, ...]
    owner: NodeFacts | None
    rivals: tuple[NodeFacts, ...] = ()

    @property
    def others(self) -> tuple[NodeFacts, ...]:
        """All members but the owner."""
        return tuple(node for node in self.members if self.owner is None or node.id != self.owner.id)

    def live_replicas(self) -> tuple[NodeFacts, ...]:
        """Members that could take over: they answer and follow the owner."""
        owner = self.owner
        return tuple(
            node
            for node in self.others
            if node.is_up and owner is not None and node.role is Role.REPLICA and node.follows == owner.id
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The slots of a cluster: claims by node id, and what nobody claims."""

    claims: dict[NodeId, frozenset[int]]
    epochs: dict[NodeId, int]

    def unowned(self) -> frozenset[int]:
        """Slots that no member claims."""
        return frozenset(range(SLOTS)).difference(*self.claims.values())


def ownership(observed: Observed) -> Ownership:
    """The claims: a live node speaks for itself, the others' tables speak for a dead one."""
    nodes = observed.by_id()
    claims: dict[NodeId, frozenset[int]] = {}
    epochs: dict[NodeId, int] = {}
    for peer in _testimony(observed):
        node = nodes.get(peer.id)
        slots = _expand(node.slots if node and node.is_up else peer.slots)
        epoch = max(peer.epoch, node.epoch if node and node.is_up else 0, epochs.get(peer.id, 0))
        claims[peer.id] = claims.get(peer.id, frozenset()) | slots
        epochs[peer.id] = epoch
    return Ownership(claims=_settled(claims, epochs, nodes), epochs=epochs)


def shards(topology: Topology, observed: Observed) -> tuple[Shard, ...]:
    """Every shard of the topology with its members and its owner."""
    owned = ownership(observed)
    specs = data_nodes(topology)
    return tuple(_shard(number, specs, observed, owned) for number in range(topology.cluster.shards))


def missing_slots(topology: Topology, owned: Ownership) -> dict[int, tuple[SlotRange, ...]]:
    """What each shard would have to be given for full coverage."""
    unowned = owned.unowned()
    count = topology.cluster.shards
    wanted = {shard: _within(unowned, slot_range(shard, count)) for shard in range(count)}
    return {shard: ranges for shard, ranges in wanted.items() if ranges}


def members(topology: Topology, shard: int) -> tuple[NodeSpec, ...]:
    """The nodes that the topology gives to a shard."""
    return tuple(spec for spec in data_nodes(topology) if spec.shard == shard)


def _shard(number: int, specs: Sequence[NodeSpec], observed: Observed, owned: Ownership) -> Shard:
    nodes = tuple(observed.node(spec.name) for spec in specs if spec.shard == number)
    claimants = sorted(
        (node for node in nodes if owned.claims.get(node.id)),
        key=lambda node: (node.is_up, owned.epochs.get(node.id, 0)),
        reverse=True,
    )
    return Shard(number=number, members=nodes, owner=claimants[0] if claimants else None, rivals=tuple(claimants[1:]))


def _testimony(observed: Observed) -> Iterable[Peer]:
    tables = [node.table for node in observed.up] or [node.disk.table for node in observed.nodes]
    return (peer for table in tables for peer in table if not peer.handshake)


def _settled(
    claims: dict[NodeId, frozenset[int]], epochs: dict[NodeId, int], nodes: dict[NodeId, NodeFacts]
) -> dict[NodeId, frozenset[int]]:
    """A slot with two claimants belongs to a live one before a dead one, then to the higher epoch."""

    def weight(node_id: NodeId) -> tuple[bool, int, str]:
        node = nodes.get(node_id)
        return bool(node and node.is_up), epochs[node_id], node_id

    taken: frozenset[int] = frozenset()
    settled: dict[NodeId, frozenset[int]] = {}
    for node_id in sorted(claims, key=weight, reverse=True):
        settled[node_id] = claims[node_id] - taken
        taken |= claims[node_id]
    return settled


def _expand(ranges: Iterable[SlotRange]) -> frozenset[int]:
    return frozenset(slot for first, last in ranges for slot in range(first, last + 1))


def _within(slots: frozenset[int], bounds: SlotRange) -> tuple[SlotRange, ...]:
    """The slots inside the bounds, as ranges."""
    ranges: list[SlotRange] = []
    for slot in range(bounds[0], bounds[1] + 1):
        if slot not in slots:
            continue
        if ranges and ranges[-1][1] == slot - 1:
            ranges[-1] = (ranges[-1][0], slot)
        else:
            ranges.append((slot, slot))
    return tuple(ranges)
