"""The nodes of a topology: names, addresses, ports and shards, in the same order on every target."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network
from itertools import pairwise
from typing import NewType

from rlctl.topology.model import HostEntry, Kind, TargetName, Topology
from rlctl.topology.placement import data_hosts, sentinel_hosts
from rlctl.topology.subnets import data_address, sentinel_address, subnet_of

NodeName = NewType("NodeName", str)
NodeId = NewType("NodeId", str)

SENTINEL_PORT_OFFSET = 1_000
BUS_PORT_OFFSET = 10_000
SLOTS = 16_384
_DATA_NET, _SENTINEL_NET = "127.77", "127.78"
_ADDRESSES_PER_NET = 250


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class NodeSpec:
    """One process of the fleet. `shard` is None for a sentinel; `host` is None unless the target is hosts."""

    index: int
    name: NodeName
    address: str
    port: int
    shard: int | None
    starts_as_primary: bool
    host: str | None = None

    @property
    def is_sentinel(self) -> bool:
        return self.shard is None

    @property
    def endpoint(self) -> str:
        """`address:port`."""
        return f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Location:
    """Where a node runs. Ports on its host count up from `base_port`."""

    address: str
    base_port: int
    host: str | None = None


# Cached because the simulation of a plan for a hundred nodes calls this thousands of times.
@lru_cache(maxsize=16)
def data_nodes(topology: Topology) -> tuple[NodeSpec, ...]:
    """Data nodes: rank 0 of every shard, then rank 1, so that adding replicas only appends nodes."""
    shards, nodes = _data_shape(topology)
    return tuple(
        NodeSpec(
            index=index,
            name=NodeName(f"node-{index}"),
            address=location.address,
            port=location.base_port + index,
            shard=index % shards,
            starts_as_primary=index < shards,
            host=location.host,
        )
        for index, location in enumerate(_data_locations(topology, shards, nodes))
    )


@lru_cache(maxsize=16)
def sentinel_nodes(topology: Topology) -> tuple[NodeSpec, ...]:
    """The sentinels; empty for a cluster."""
    if topology.kind is Kind.CLUSTER:
        return ()
    return tuple(
        NodeSpec(
            index=index,
            name=NodeName(f"sentinel-{index}"),
            address=location.address,
            port=location.base_port + SENTINEL_PORT_OFFSET + index,
            shard=None,
            starts_as_primary=False,
            host=location.host,
        )
        for index, location in enumerate(_sentinel_locations(topology))
    )


@lru_cache(maxsize=16)
def all_nodes(topology: Topology) -> tuple[NodeSpec, ...]:
    """Data nodes, then sentinels."""
    return data_nodes(topology) + sentinel_nodes(topology)


def _data_shape(topology: Topology) -> tuple[int, int]:
    """Number of shards, number of data nodes."""
    is_cluster = topology.kind is Kind.CLUSTER
    shards = topology.cluster.shards if is_cluster else 1
    replicas = topology.cluster.replicas if is_cluster else topology.sentinel.replicas
    return shards, shards * (1 + replicas)


def _data_locations(topology: Topology, shards: int, nodes: int) -> list[_Location]:
    match topology.target:
        case TargetName.LOCAL:
            return [_local_location(topology, _DATA_NET, index) for index in range(nodes)]
        case TargetName.DOCKER:
            network = network_of(topology)
            return [_docker_location(topology, data_address(network, index)) for index in range(nodes)]
        case TargetName.HOSTS:
            return [_host_location(topology, host) for host in data_hosts(topology, shards, nodes)]


def _sentinel_locations(topology: Topology) -> list[_Location]:
    count = topology.sentinel.sentinels
    match topology.target:
        case TargetName.LOCAL:
            return [_local_location(topology, _SENTINEL_NET, index) for index in range(count)]
        case TargetName.DOCKER:
            network = network_of(topology)
            return [_docker_location(topology, sentinel_address(network, index)) for index in range(count)]
        case TargetName.HOSTS:
            return [_host_location(topology, host) for host in sentinel_hosts(topology)]


def network_of(topology: Topology) -> IPv4Network:
    """The network of a Docker fleet."""
    _shards, nodes = _data_shape(topology)
    return subnet_of(topology, nodes + (topology.sentinel.sentinels if topology.kind is Kind.SENTINEL else 0))


def _local_location(topology: Topology, net: str, index: int) -> _Location:
    place = topology.local
    high, low = divmod(index, _ADDRESSES_PER_NET)
    address = f"{net}.{high}.{low + 1}" if place.spread else place.address
    return _Location(address=address, base_port=place.base_port)


def _docker_location(topology: Topology, address: str) -> _Location:
    return _Location(address=address, base_port=topology.local.base_port)


def _host_location(topology: Topology, host: HostEntry) -> _Location:
    base_port = topology.local.base_port if host.base_port is None else host.base_port
    return _Location(address=host.address, base_port=base_port, host=host_name(host))


def host_name(host: HostEntry) -> str:
    """Name of a host in the inventory and in messages."""
    return host.name or host.address


def node_id(fleet_id: str, name: NodeName) -> NodeId:
    """The node's permanent id, which follows from the fleet id and the name."""
    return NodeId(hashlib.sha1(f"{fleet_id}/{name}".encode(), usedforsecurity=False).hexdigest())


def slot_range(shard: int, shards: int) -> tuple[int, int]:
    """First and last hash slot of a shard; slots are divided as evenly as possible."""
    edges = [round(SLOTS * edge / shards) for edge in range(shards + 1)]
    first, after = list(pairwise(edges))[shard]
    return first, after - 1
