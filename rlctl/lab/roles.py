"""Roles of nodes in a run: the victim, its replicas, the other primaries, the sentinels. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rlctl.observe.model import Observed, Role, SlotRange
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import SLOTS, NodeSpec, data_nodes, sentinel_nodes, slot_range

WITNESSES = 3


class LabRole(StrEnum):
    """The role of a node in a run, as scenario files spell it."""

    VICTIM = "victim"
    REPLICAS = "replicas"
    REPLICA = "replica"
    SECOND = "second"
    SENTINELS = "sentinels"
    PROMOTED = "promoted"
    SHARD = "shard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The nodes of a run by their roles, fixed before the first fault."""

    victim: NodeSpec
    replicas: tuple[NodeSpec, ...]
    other_nodes: tuple[NodeSpec, ...]
    other_primaries: tuple[NodeSpec, ...]
    sentinels: tuple[NodeSpec, ...]
    slots: tuple[SlotRange, ...]
    other_slots: tuple[SlotRange, ...] = ()

    @property
    def shard(self) -> tuple[NodeSpec, ...]:
        """The victim and its replicas, the victim first."""
        return (self.victim, *self.replicas)

    @property
    def all_nodes(self) -> tuple[NodeSpec, ...]:
        return (*self.shard, *self.other_nodes, *self.sentinels)

    @property
    def watched(self) -> tuple[NodeSpec, ...]:
        """The nodes to sample: the shard, the sentinels, and up to WITNESSES primaries that can suspect the victim."""
        return (*self.shard, *self.other_primaries[:WITNESSES], *self.sentinels)

    @property
    def isolated(self) -> tuple[NodeSpec, ...]:
        """The victim and the nodes that are cut off together with the victim.

        On hosts, these are the other nodes of the victim's host. On other targets, it is one sentinel if there is any.
        """
        return self._with_neighbours(self.victim) if self.victim.host else (self.victim, *self.sentinels[:1])

    def cut_off(self, role: LabRole, promoted: Sequence[NodeSpec] = ()) -> tuple[NodeSpec, ...]:
        """The nodes that a cut of a role isolates. On hosts, these include all nodes on the same hosts."""
        if role is LabRole.VICTIM:
            return self.isolated
        return tuple(dict.fromkeys(near for spec in self.of(role, promoted) for near in self._with_neighbours(spec)))

    def why_no_election(self) -> str | None:
        """Explain why an election is impossible while the victim is cut off; None if most voters are not cut off."""
        isolated = self.isolated
        voters = self.sentinels or (self.victim, *self.other_primaries)
        cut_off = [spec for spec in voters if spec in isolated]
        if not cut_off or 2 * len(cut_off) < len(voters):
            return None
        what = "sentinels" if self.sentinels else "primaries"
        return f"{len(cut_off)} of {len(voters)} {what} ({', '.join(spec.name for spec in cut_off)}) would be cut off"

    def _with_neighbours(self, spec: NodeSpec) -> tuple[NodeSpec, ...]:
        near = [one for one in self.all_nodes if spec.host is not None and one.host == spec.host and one != spec]
        return (spec, *near)

    def of(self, role: LabRole, promoted: Sequence[NodeSpec] = ()) -> tuple[NodeSpec, ...]:
        """The nodes of a role. `promoted` has the promoted node, or is empty before the promotion."""
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
    """Assign roles to the nodes of a running fleet.

    The victim is the primary of the first slots; on hosts, it is a primary on the host with the fewest primaries.
    """
    specs = {spec.name: spec for spec in data_nodes(topology)}
    primaries = [node for node in observed.up if node.role is Role.PRIMARY and node.name in specs]
    if topology.kind is Kind.CLUSTER:
        primaries_on = Counter(specs[node.name].host or node.name for node in primaries)
        primaries.sort(
            key=lambda node: (
                primaries_on[specs[node.name].host or node.name],
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
    """Assign roles in a fleet that does not exist yet, from the Redis roles with which its nodes start."""
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
