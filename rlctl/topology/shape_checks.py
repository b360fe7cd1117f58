"""Count the nodes and ports of a topology, and refuse numbers that are impossible."""

from collections.abc import Iterator

from rlctl.files.mistakes import Problem
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import BUS_PORT_OFFSET, SENTINEL_PORT_OFFSET

MOST_NODES = 1_000
LAST_PORT = 65_535

_SHAPES = {
    Kind.CLUSTER: ("cluster.shards", "cluster.replicas", "kind"),
    Kind.SENTINEL: ("sentinel.replicas", "sentinel.sentinels", "kind"),
}


def shape_paths(topology: Topology) -> tuple[str, ...]:
    """The settings that decide the number of nodes."""
    return _SHAPES[topology.kind]


def data_count(topology: Topology) -> int:
    """The number of data nodes, computed from the settings alone."""
    if topology.kind is Kind.CLUSTER:
        return topology.cluster.shards * (1 + topology.cluster.replicas)
    return 1 + topology.sentinel.replicas


def port_spans(topology: Topology, base_port: int) -> tuple[tuple[str, int, int], ...]:
    """(name, first port, last port) of each range of ports that the nodes use, counted from a base port."""
    nodes = data_count(topology)
    data = ("data nodes", base_port, base_port + nodes - 1)
    if topology.kind is Kind.CLUSTER:
        return (data, ("cluster bus", base_port + BUS_PORT_OFFSET, base_port + BUS_PORT_OFFSET + nodes - 1))
    first = base_port + SENTINEL_PORT_OFFSET
    return (data, ("sentinels", first, first + topology.sentinel.sentinels - 1))


def refuse_shapes(topology: Topology) -> Iterator[Problem]:
    """Problems with the numbers of nodes. The section of the unused kind is checked too."""
    cluster, sentinel = topology.cluster, topology.sentinel
    nodes = cluster.shards * (1 + cluster.replicas)
    if nodes > MOST_NODES:
        yield Problem(
            paths=("cluster.shards", "cluster.replicas"),
            text=f"cluster.shards: {cluster.shards} shards with {cluster.replicas} replicas each are {nodes} "
            f"nodes; write fewer, a fleet has at most {MOST_NODES} nodes",
        )
    if sentinel.quorum > sentinel.sentinels:
        yield Problem(
            paths=("sentinel.quorum", "sentinel.sentinels"),
            text=f"sentinel.quorum: {sentinel.quorum} is more than the {sentinel.sentinels} sentinels of the fleet; "
            f"write at most {sentinel.sentinels}, best {sentinel.sentinels // 2 + 1}",
        )
    yield from _refuse_consistency(topology)


def _refuse_consistency(topology: Topology) -> Iterator[Problem]:
    is_cluster = topology.kind is Kind.CLUSTER
    key = "cluster.replicas" if is_cluster else "sentinel.replicas"
    replicas = topology.cluster.replicas if is_cluster else topology.sentinel.replicas
    if topology.consistency.min_replicas > replicas:
        yield Problem(
            paths=("consistency.min_replicas", key, "kind"),
            text=f"consistency.min_replicas: {topology.consistency.min_replicas} would refuse every write, "
            f"since {key} is {replicas}; write at most {replicas}",
        )


def refuse_ports(topology: Topology) -> Iterator[Problem]:
    """Problems with base ports from which the nodes would exceed the last port, 65535."""
    bases = [("local.base_port", topology.local.base_port)]
    bases += [
        (f"hosts[{index}].base_port", host.base_port)
        for index, host in enumerate(topology.hosts)
        if host.base_port is not None
    ]
    for path, base_port in bases:
        what, _first, last = port_spans(topology, base_port)[-1]
        if last > LAST_PORT:
            yield Problem(
                paths=(path, *shape_paths(topology)),
                text=f"{path}: from {base_port}, the last port of the {what} is {last}, above {LAST_PORT}; "
                f"write at most {base_port - (last - LAST_PORT)}",
            )
