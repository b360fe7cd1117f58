"""Which host runs which node of a fleet on hosts. Pure."""

from collections.abc import Sequence

from rlctl.topology.model import HostEntry, Topology


def data_hosts(topology: Topology, shards: int, nodes: int) -> tuple[HostEntry, ...]:
    """The host of each data node, in the nodes' order."""
    del shards
    return _in_turn(topology.hosts, nodes)


def sentinel_hosts(topology: Topology) -> tuple[HostEntry, ...]:
    """The host of each sentinel."""
    return _in_turn([host for host in topology.hosts if host.sentinel], topology.sentinel.sentinels)


def _in_turn(hosts: Sequence[HostEntry], count: int) -> tuple[HostEntry, ...]:
    return tuple(hosts[index % len(hosts)] for index in range(count))
