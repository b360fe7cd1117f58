"""Which nodes a topology asks for: names, ports, shards. The same order on every target."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NewType

from rlctl.topology.model import Kind, Topology

NodeName = NewType("NodeName", str)
NodeId = NewType("NodeId", str)

SENTINEL_PORT_OFFSET = 1_000
BUS_PORT_OFFSET = 10_000
SLOTS = 16_384
_DATA_NET, _SENTINEL_NET = "127.77", "127.78"
_HOSTS_A_NET = 250


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class NodeSpec:
    """One process the topology asks for; `shard` is None for a sentinel."""

    index: int
    name: NodeName
    address: str
    port: int
    shard: int | None
    starts_as_primary: bool

    @property
    def is_sentinel(self) -> bool:
        """Whether this process watches instead of holding data."""
        return self.shard is None

    @property
    def endpoint(self) -> str:
        """host:port, as people write it."""
        return f"{self.address}:{self.port}"


# Asked for thousands of times while a plan for a hundred nodes is simulated; a topology never changes.
@lru_cache(maxsize=16)
def data_nodes(topology: Topology) -> tuple[NodeSpec, ...]:
    """Data nodes: the first of each shard, then the second of each, so that more replicas only append."""
    is_cluster = topology.kind is Kind.CLUSTER
    shards = topology.cluster.shards if is_cluster else 1
    replicas = topology.cluster.replicas if is_cluster else topology.sentinel.replicas
    return tuple(
        NodeSpec(
            index=index,
            name=NodeName(f"node-{index}"),
            address=_address(topology, _DATA_NET, index),
            port=topology.local.base_port + index,
            shard=index % shards,
            starts_as_primary=index < shards,
        )
        for index in range(shards * (1 + replicas))
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
            address=_address(topology, _SENTINEL_NET, index),
            port=topology.local.base_port + SENTINEL_PORT_OFFSET + index,
            shard=None,
            starts_as_primary=False,
        )
        for index in range(topology.sentinel.sentinels)
    )


@lru_cache(maxsize=16)
def all_nodes(topology: Topology) -> tuple[NodeSpec, ...]:
    """Every process of the fleet, data nodes first."""
    return data_nodes(topology) + sentinel_nodes(topology)


def _address(topology: Topology, net: str, index: int) -> str:
    if not topology.local.spread:
        return topology.local.address
    high, low = divmod(index, _HOSTS_A_NET)
    return f"{net}.{high}.{low + 1}"


def node_id(fleet_id: str, name: NodeName) -> NodeId:
    """The id a node carries for life; whoever holds the fleet id can name it."""
    return NodeId(hashlib.sha1(f"{fleet_id}/{name}".encode(), usedforsecurity=False).hexdigest())


def slot_range(shard: int, shards: int) -> tuple[int, int]:
    """First and last slot of a shard, as evenly as 16384 divides."""
    edges = [round(SLOTS * edge / shards) for edge in range(shards + 1)]
    first, after = list(pairwise(edges))[shard]
    return first, after - 1
