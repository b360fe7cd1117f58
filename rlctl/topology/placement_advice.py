"""Find nodes that share a host or zone because `hosts` allows no better placement. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from rlctl.topology.model import HostEntry, Kind, TargetName, Topology
from rlctl.topology.nodes import NodeSpec, data_nodes, host_name, sentinel_nodes
from rlctl.topology.placement import FailureDomain, host_of, zone_of

_SHOWN = 4


def placement_faults(topology: Topology) -> tuple[str, ...]:
    """Sentences that say which nodes share a host or zone against the placement rules; empty if none do."""
    if topology.target is not TargetName.HOSTS:
        return ()
    hosts = {host_name(host): host for host in topology.hosts}
    nodes = data_nodes(topology)
    primaries = {spec.shard: spec for spec in nodes if spec.starts_as_primary}
    pairs = [(spec, primaries[spec.shard]) for spec in nodes if not spec.starts_as_primary]
    is_cluster = topology.kind is Kind.CLUSTER
    voters, what = (tuple(primaries.values()), "primaries") if is_cluster else (sentinel_nodes(topology), "sentinels")
    on_host = [pair for pair in pairs if _is_shared(pair, hosts, host_of)]
    in_zone = [pair for pair in pairs if pair not in on_host and _is_shared(pair, hosts, zone_of)]
    return (
        *_listed(on_host, "on the host of their primary"),
        *_listed(in_zone, "in the zone of their primary"),
        *_majorities(voters, what, hosts),
    )


def _is_shared(
    pair: tuple[NodeSpec, NodeSpec], hosts: Mapping[str, HostEntry], domain: Callable[[HostEntry], FailureDomain]
) -> bool:
    one, other = (domain(hosts[spec.host or ""]) for spec in pair)
    return one == other


def _listed(pairs: Sequence[tuple[NodeSpec, NodeSpec]], where: str) -> Iterator[str]:
    if pairs:
        shown = ", ".join(f"{spec.name} ({primary.name})" for spec, primary in pairs[:_SHOWN])
        more = f" and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
        yield f"replicas {where}: {shown}{more}"


def _majorities(voters: Sequence[NodeSpec], what: str, hosts: Mapping[str, HostEntry]) -> Iterator[str]:
    for (kind, name), count in Counter(zone_of(hosts[spec.host or ""]) for spec in voters).items():
        if 1 < len(voters) < 2 * count:
            yield f"{count} of {len(voters)} {what} are in {kind} {name}: without it there is no majority"
