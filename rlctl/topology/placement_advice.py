"""What of a fleet on hosts stands closer together than its rules want, because the hosts allow no better. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from rlctl.topology.model import HostEntry, Kind, TargetName, Topology
from rlctl.topology.nodes import NodeSpec, data_nodes, host_name, sentinel_nodes
from rlctl.topology.placement import Group, host_of, zone_of

_SHOWN = 4


def placement_faults(topology: Topology) -> tuple[str, ...]:
    """What one lost host or zone would take along; empty where the placement keeps every rule."""
    if topology.target is not TargetName.HOSTS:
        return ()
    hosts = {host_name(host): host for host in topology.hosts}
    nodes = data_nodes(topology)
    leaders = {spec.shard: spec for spec in nodes if spec.starts_as_primary}
    pairs = [(spec, leaders[spec.shard]) for spec in nodes if not spec.starts_as_primary]
    is_cluster = topology.kind is Kind.CLUSTER
    voters, what = (tuple(leaders.values()), "primaries") if is_cluster else (sentinel_nodes(topology), "sentinels")
    on_host = [pair for pair in pairs if _is_shared(pair, hosts, host_of)]
    in_zone = [pair for pair in pairs if pair not in on_host and _is_shared(pair, hosts, zone_of)]
    return (
        *_near(on_host, "on the host of their primary"),
        *_near(in_zone, "in the zone of their primary"),
        *_majorities(voters, what, hosts),
    )


def _is_shared(
    pair: tuple[NodeSpec, NodeSpec], hosts: Mapping[str, HostEntry], group: Callable[[HostEntry], Group]
) -> bool:
    one, other = (group(hosts[spec.host or ""]) for spec in pair)
    return one == other


def _near(pairs: Sequence[tuple[NodeSpec, NodeSpec]], where: str) -> Iterator[str]:
    if pairs:
        shown = ", ".join(f"{spec.name} ({leader.name})" for spec, leader in pairs[:_SHOWN])
        more = f" and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
        yield f"replicas {where}: {shown}{more}"


def _majorities(voters: Sequence[NodeSpec], what: str, hosts: Mapping[str, HostEntry]) -> Iterator[str]:
    for (kind, name), count in Counter(zone_of(hosts[spec.host or ""]) for spec in voters).items():
        if 1 < len(voters) < 2 * count:
            yield f"{count} of {len(voters)} {what} are in {kind} {name}: without it there is no majority"
