"""How many nodes a topology asks for and which ports they take; what of that is impossible."""

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
    """The settings that decide how many nodes there are."""
    return _SHAPES[topology.kind]


def data_count(topology: Topology) -> int:
    """How many data nodes there are, without building any."""
    if topology.kind is Kind.CLUSTER:
        return topology.cluster.shards * (1 + topology.cluster.replicas)
    return 1 + topology.sentinel.replicas


def port_spans(topology: Topology, base_port: int) -> tuple[tuple[str, int, int], ...]:
    """What takes ports above a base port, with the first and last port of each."""
    nodes = data_count(topology)
    data = ("data nodes", base_port, base_port + nodes - 1)
    if topology.kind is Kind.CLUSTER:
        return (data, ("cluster bus", base_port + BUS_PORT_OFFSET, base_port + BUS_PORT_OFFSET + nodes - 1))
    first = base_port + SENTINEL_PORT_OFFSET
    return (data, ("sentinels", first, first + topology.sentinel.sentinels - 1))


def refuse_shapes(topology: Topology) -> Iterator[Problem]:
    """Shapes that no fleet can have, those of the other kind included."""
    cluster, sentinel = topology.cluster, topology.sentinel
    nodes = cluster.shards * (1 + cluster.replicas)
    if nodes > MOST_NODES:
        yield Problem(
            paths=("cluster.shards", "cluster.replicas"),
            text=f"cluster.shards: {cluster.shards} shards with {cluster.replicas} replicas each are {nodes} "
            f"nodes; write fewer, at most {MOST_NODES} nodes in all",
        )
    if sentinel.quorum > sentinel.sentinels:
        yield Problem(
            paths=("sentinel.quorum", "sentinel.sentinels"),
            text=f"sentinel.quorum: {sentinel.quorum} cannot agree where there are {sentinel.sentinels} "
            f"sentinels; write at most {sentinel.sentinels}, best {sentinel.sentinels // 2 + 1}",
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
    """Ports past the last one, counted from every base port in the file."""
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
                text=f"{path}: {base_port} puts the {what} at ports up to {last}, above {LAST_PORT}; "
                f"write at most {base_port - (last - LAST_PORT)}",
            )
