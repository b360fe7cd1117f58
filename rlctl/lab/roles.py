"""Who plays which part: the victim, its replicas, the witnesses. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rlctl.observe.model import Observed, Role, SlotRange
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import SLOTS, NodeSpec, data_nodes, sentinel_nodes, slot_range

WITNESSES = 3


class LabRole(StrEnum):
    """A part that a node plays in a drill."""

    VICTIM = "victim"
    REPLICAS = "replicas"
    REPLICA = "replica"
    SECOND = "second"
    SENTINELS = "sentinels"
    PROMOTED = "promoted"
    SHARD = "shard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The nodes of a run by the parts they play, fixed before anything is broken."""

    victim: NodeSpec
    replicas: tuple[NodeSpec, ...]
    other_nodes: tuple[NodeSpec, ...]
    other_primaries: tuple[NodeSpec, ...]
    sentinels: tuple[NodeSpec, ...]
    slots: tuple[SlotRange, ...]
    other_slots: tuple[SlotRange, ...] = ()

    @property
    def shard(self) -> tuple[NodeSpec, ...]:
        """The victim's shard, the victim first."""
        return (self.victim, *self.replicas)

    @property
    def all_nodes(self) -> tuple[NodeSpec, ...]:
        """All nodes of the fleet."""
        return (*self.shard, *self.other_nodes, *self.sentinels)

    @property
    def watched(self) -> tuple[NodeSpec, ...]:
        """Whom the sampler looks at: the shard, some primaries that can accuse the victim, the sentinels."""
        return (*self.shard, *self.other_primaries[:WITNESSES], *self.sentinels)

    @property
    def alone(self) -> tuple[NodeSpec, ...]:
        """Who is shut in together: all of the victim's host; elsewhere the victim and, if there are any, a sentinel."""
        return self._with_neighbours(self.victim) if self.victim.host else (self.victim, *self.sentinels[:1])

    def cut_off(self, role: LabRole, promoted: Sequence[NodeSpec] = ()) -> tuple[NodeSpec, ...]:
        """Who is alone when these are cut off from everything: a host only goes as a whole."""
        if role is LabRole.VICTIM:
            return self.alone
        return tuple(dict.fromkeys(near for spec in self.of(role, promoted) for near in self._with_neighbours(spec)))

    def why_no_election(self) -> str | None:
        """Why there is no failover while the victim is cut off: too many of those who elect are cut off with it."""
        alone = self.alone
        electors = self.sentinels or (self.victim, *self.other_primaries)
        shut_in = [spec for spec in electors if spec in alone]
        if not shut_in or 2 * len(shut_in) < len(electors):
            return None
        what = "sentinels" if self.sentinels else "primaries"
        return f"{len(shut_in)} of {len(electors)} {what} ({', '.join(spec.name for spec in shut_in)}) would be cut off"

    def _with_neighbours(self, spec: NodeSpec) -> tuple[NodeSpec, ...]:
        near = [one for one in self.all_nodes if spec.host is not None and one.host == spec.host and one != spec]
        return (spec, *near)

    def of(self, role: LabRole, promoted: Sequence[NodeSpec] = ()) -> tuple[NodeSpec, ...]:
        """The nodes that play a part; who was promoted is not known beforehand."""
        match role:
            case LabRole.VICTIM:
                return (self.victim,)
            case LabRole.REPLICAS:
                return self.replicas
            case LabRole.REPLICA:
                return self.replicas[:1]
            case LabRole.SECOND:
                return self.other_primaries[:1]
            case LabRole.SENTINELS:
                return self.sentinels[: len(self.sentinels) // 2 + 1]
            case LabRole.SHARD:
                return self.shard
            case LabRole.PROMOTED:
                return tuple(promoted)


def assign_roles(topology: Topology, observed: Observed) -> Roles:
    """The victim is the primary of the first slots; on hosts one whose host has as few primaries as can be."""
    specs = {spec.name: spec for spec in data_nodes(topology)}
    primaries = [node for node in observed.up if node.role is Role.PRIMARY and node.name in specs]
    if topology.kind is Kind.CLUSTER:
        crowd = Counter(specs[node.name].host or node.name for node in primaries)
        primaries.sort(
            key=lambda node: (
                crowd[specs[node.name].host or node.name],
                min((low for low, _ in node.slots), default=SLOTS),
            )
        )
    victim = primaries[0]
    replicas = tuple(specs[node.name] for node in observed.up if node.follows == victim.id and node.name in specs)
    other_primaries = tuple(specs[node.name] for node in primaries[1:])
    shard = {victim.name, *(spec.name for spec in replicas)}
    return Roles(
        victim=specs[victim.name],
        replicas=replicas,
        other_nodes=tuple(spec for spec in specs.values() if spec.name not in shard),
        other_primaries=other_primaries,
        sentinels=sentinel_nodes(topology),
        slots=tuple(victim.slots) if topology.kind is Kind.CLUSTER else ((0, SLOTS - 1),),
        other_slots=tuple(primaries[-1].slots) if len(primaries) > 1 else (),
    )


def planned_roles(topology: Topology) -> Roles:
    """The parts in a fleet that is not built yet: everybody as the topology starts them."""
    data = data_nodes(topology)
    shard = tuple(spec for spec in data if spec.shard == 0)
    is_cluster = topology.kind is Kind.CLUSTER
    return Roles(
        victim=shard[0],
        replicas=shard[1:],
        other_nodes=tuple(spec for spec in data if spec not in shard),
        other_primaries=tuple(spec for spec in data if spec.starts_as_primary and spec not in shard),
        sentinels=sentinel_nodes(topology),
        slots=(slot_range(0, topology.cluster.shards),) if is_cluster else ((0, SLOTS - 1),),
    )
