"""Who plays which part: the victim, its replicas, the witnesses. Pure."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from rlctl.observe.model import Observed, Role, SlotRange
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import SLOTS, NodeSpec, data_nodes, sentinel_nodes, slot_range

WITNESSES = 3


class Who(StrEnum):
    """A part that a node plays in a drill."""

    VICTIM = "victim"
    REPLICAS = "replicas"
    REPLICA = "replica"
    SECOND = "second"
    SENTINELS = "sentinels"
    PROMOTED = "promoted"
    SHARD = "shard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """The nodes of a run by the parts they play, fixed before anything is broken."""

    victim: NodeSpec
    replicas: tuple[NodeSpec, ...]
    others: tuple[NodeSpec, ...]
    seconds: tuple[NodeSpec, ...]
    sentinels: tuple[NodeSpec, ...]
    slots: tuple[SlotRange, ...]
    other_slots: tuple[SlotRange, ...] = ()

    @property
    def shard(self) -> tuple[NodeSpec, ...]:
        """The victim's shard, the victim first."""
        return (self.victim, *self.replicas)

    @property
    def everybody(self) -> tuple[NodeSpec, ...]:
        """All nodes of the fleet."""
        return (*self.shard, *self.others, *self.sentinels)

    @property
    def watched(self) -> tuple[NodeSpec, ...]:
        """Whom the sampler looks at: the shard, some primaries that can accuse the victim, the sentinels."""
        return (*self.shard, *self.seconds[:WITNESSES], *self.sentinels)

    @property
    def alone(self) -> tuple[NodeSpec, ...]:
        """Who is shut in together: all of the victim's host; elsewhere the victim and, if there are any, a sentinel."""
        return self._with_neighbours(self.victim) if self.victim.host else (self.victim, *self.sentinels[:1])

    def cut_off(self, who: Who) -> tuple[NodeSpec, ...]:
        """Who is alone when these are cut off from everything: a host only goes as a whole."""
        if who is Who.VICTIM:
            return self.alone
        return tuple(dict.fromkeys(near for spec in self.of(who) for near in self._with_neighbours(spec)))

    def why_nobody_is_elected(self) -> str | None:
        """Why there is no failover while the victim is cut off: too many of those who elect are cut off with it."""
        alone = self.alone
        electors = self.sentinels or (self.victim, *self.seconds)
        shut_in = [spec for spec in electors if spec in alone]
        if not shut_in or 2 * len(shut_in) < len(electors):
            return None
        what = "sentinels" if self.sentinels else "primaries"
        return f"{len(shut_in)} of {len(electors)} {what} ({', '.join(spec.name for spec in shut_in)}) would be cut off"

    def _with_neighbours(self, spec: NodeSpec) -> tuple[NodeSpec, ...]:
        near = [one for one in self.everybody if spec.host is not None and one.host == spec.host and one != spec]
        return (spec, *near)

    def of(self, who: Who) -> tuple[NodeSpec, ...]:
        """The nodes that play a part; who was promoted is not known beforehand."""
        match who:
            case Who.VICTIM:
                return (self.victim,)
            case Who.REPLICAS:
                return self.replicas
            case Who.REPLICA:
                return self.replicas[:1]
            case Who.SECOND:
                return self.seconds[:1]
            case Who.SENTINELS:
                return self.sentinels[: len(self.sentinels) // 2 + 1]
            case Who.SHARD:
                return self.shard
            case Who.PROMOTED:
                return ()


def cast(topology: Topology, observed: Observed) -> Cast:
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
    seconds = tuple(specs[node.name] for node in primaries[1:])
    shard = {victim.name, *(spec.name for spec in replicas)}
    return Cast(
        victim=specs[victim.name],
        replicas=replicas,
        others=tuple(spec for spec in specs.values() if spec.name not in shard),
        seconds=seconds,
        sentinels=sentinel_nodes(topology),
        slots=tuple(victim.slots) if topology.kind is Kind.CLUSTER else ((0, SLOTS - 1),),
        other_slots=tuple(primaries[-1].slots) if len(primaries) > 1 else (),
    )


def planned_cast(topology: Topology) -> Cast:
    """The parts in a fleet that is not built yet: everybody as the topology starts them."""
    data = data_nodes(topology)
    shard = tuple(spec for spec in data if spec.shard == 0)
    is_cluster = topology.kind is Kind.CLUSTER
    return Cast(
        victim=shard[0],
        replicas=shard[1:],
        others=tuple(spec for spec in data if spec not in shard),
        seconds=tuple(spec for spec in data if spec.starts_as_primary and spec not in shard),
        sentinels=sentinel_nodes(topology),
        slots=(slot_range(0, topology.cluster.shards),) if is_cluster else ((0, SLOTS - 1),),
    )
