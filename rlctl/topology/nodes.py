"""Which nodes a topology asks for: names, ports, shards. The same order on every target."""

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
_HOSTS_A_NET = 250


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class NodeSpec:
    """One process the topology asks for; `shard` is None for a sentinel, `host` off target hosts."""

    index: int
    name: NodeName
    address: str
    port: int
    shard: int | None
    starts_as_primary: bool
    host: str | None = None

    @property
    def is_sentinel(self) -> bool:
        """Whether this process watches instead of holding data."""
        return self.shard is None

    @property
    def endpoint(self) -> str:
        """host:port, as people write it."""
        return f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """Where a node is: its address, the port from which its host counts, and the host's name."""

    address: str
    base_port: int
    host: str | None = None


# Asked for thousands of times while a plan for a hundred nodes is simulated; a topology never changes.
@lru_cache(maxsize=16)
def data_nodes(topology: Topology) -> tuple[NodeSpec, ...]:
    """Data nodes: the first of each shard, then the second of each, so that more replicas only append."""
    shards, nodes = _data_shape(topology)
    return tuple(
        NodeSpec(
            index=index,
            name=NodeName(f"node-{index}"),
            address=site.address,
            port=site.base_port + index,
            shard=index % shards,
            starts_as_primary=index < shards,
            host=site.host,
        )
        for index, site in enumerate(_data_sites(topology, shards, nodes))
    )


@lru_cache(maxsize=16)
def sentinel_nodes(topology: Topology) -> tuple[NodeSpec, ...]:
    """The sentinels of a topology; none for a cluster."""
    if topology.kind is Kind.CLUSTER:
        return ()
    return tuple(
        NodeSpec(
            index=index,
            name=NodeName(f"sentinel-{index}"),
            address=site.address,
            port=site.base_port + SENTINEL_PORT_OFFSET + index,
            shard=None,
            starts_as_primary=False,
            host=site.host,
        )
        for index, site in enumerate(_sentinel_sites(topology))
    )


@lru_cache(maxsize=16)
def all_nodes(topology: Topology) -> tuple[NodeSpec, ...]:
    """Every process of the fleet, data nodes first."""
    return data_nodes(topology) + sentinel_nodes(topology)


def _data_shape(topology: Topology) -> tuple[int, int]:
    """How many shards, and how many data nodes."""
    is_cluster = topology.kind is Kind.CLUSTER
    shards = topology.cluster.shards if is_cluster else 1
    replicas = topology.cluster.replicas if is_cluster else topology.sentinel.replicas
    return shards, shards * (1 + replicas)


def _data_sites(topology: Topology, shards: int, nodes: int) -> list[_Site]:
    match topology.target:
        case TargetName.LOCAL:
            return [_local_site(topology, _DATA_NET, index) for index in range(nodes)]
        case TargetName.DOCKER:
            network = network_of(topology)
            return [_docker_site(topology, data_address(network, index)) for index in range(nodes)]
        case TargetName.HOSTS:
            return [_host_site(topology, host) for host in data_hosts(topology, shards, nodes)]


def _sentinel_sites(topology: Topology) -> list[_Site]:
    count = topology.sentinel.sentinels
    match topology.target:
        case TargetName.LOCAL:
            return [_local_site(topology, _SENTINEL_NET, index) for index in range(count)]
        case TargetName.DOCKER:
            network = network_of(topology)
            return [_docker_site(topology, sentinel_address(network, index)) for index in range(count)]
        case TargetName.HOSTS:
            return [_host_site(topology, host) for host in sentinel_hosts(topology)]


def network_of(topology: Topology) -> IPv4Network:
    """The network of a Docker fleet."""
    _shards, nodes = _data_shape(topology)
    return subnet_of(topology, nodes + (topology.sentinel.sentinels if topology.kind is Kind.SENTINEL else 0))


def _local_site(topology: Topology, net: str, index: int) -> _Site:
    place = topology.local
    high, low = divmod(index, _HOSTS_A_NET)
    address = f"{net}.{high}.{low + 1}" if place.spread else place.address
    return _Site(address=address, base_port=place.base_port)


def _docker_site(topology: Topology, address: str) -> _Site:
    return _Site(address=address, base_port=topology.local.base_port)


def _host_site(topology: Topology, host: HostEntry) -> _Site:
    base_port = topology.local.base_port if host.base_port is None else host.base_port
    return _Site(address=host.address, base_port=base_port, host=host_name(host))


def host_name(host: HostEntry) -> str:
    """What people and playbooks call a host."""
    return host.name or host.address


def node_id(fleet_id: str, name: NodeName) -> NodeId:
    """The id a node carries for life; whoever holds the fleet id can name it."""
    return NodeId(hashlib.sha1(f"{fleet_id}/{name}".encode(), usedforsecurity=False).hexdigest())


def slot_range(shard: int, shards: int) -> tuple[int, int]:
    """First and last slot of a shard, as evenly as 16384 divides."""
    edges = [round(SLOTS * edge / shards) for edge in range(shards + 1)]
    first, after = list(pairwise(edges))[shard]
    return first, after - 1
