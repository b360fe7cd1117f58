"""Warnings about settings that are valid but risky."""

from collections.abc import Iterator

from rlctl.topology.model import EvictionPolicy, Kind, PersistenceMode, SentinelShape, Topology
from rlctl.topology.placement_advice import placement_faults


def warnings(topology: Topology) -> tuple[str, ...]:
    """One sentence for each risky setting; empty for the defaults."""
    placement = (f"placement: {fault}" for fault in placement_faults(topology))
    return (*_data_warnings(topology), *_kind_warnings(topology), *_consistency_warnings(topology), *placement)


def _data_warnings(topology: Topology) -> Iterator[str]:
    policy, mode = topology.memory.policy, topology.persistence.mode
    if policy is not EvictionPolicy.NOEVICTION:
        yield f"memory.policy: {policy} evicts when full; an evicted limiter key silently resets that limit"
    if mode is PersistenceMode.NONE:
        yield (
            "persistence.mode: none keeps no data on disk; a shard loses all its limits when its last node dies, "
            "and deploy starts a dead primary again only after a failover"
        )
    if mode is PersistenceMode.RDB:
        yield "persistence.mode: rdb loses the counts since the last snapshot; aof loses about a second"
    if not topology.security.acl:
        yield "security.acl: false lets every process on this machine change every limit"


def _kind_warnings(topology: Topology) -> Iterator[str]:
    if topology.kind is Kind.SENTINEL:
        yield from _sentinel_warnings(topology.sentinel)
    elif topology.cluster.replicas == 0:
        yield "cluster.replicas: 0 means no failover; the limits of a dead primary are unavailable until it returns"


def _sentinel_warnings(shape: SentinelShape) -> Iterator[str]:
    if shape.sentinels < 3:
        yield f"sentinel.sentinels: with {shape.sentinels}, the loss of one ends automatic failover; use 3"
    elif shape.sentinels % 2 == 0:
        yield (
            f"sentinel.sentinels: {shape.sentinels} tolerate no more failures than {shape.sentinels - 1}, "
            "and can split into equal halves; use an odd number"
        )
    if shape.quorum == 1:
        yield "sentinel.quorum: with 1, a single sentinel can declare the primary down by mistake; use a majority"


def _consistency_warnings(topology: Topology) -> Iterator[str]:
    consistency = topology.consistency
    is_cluster = topology.kind is Kind.CLUSTER
    replicas = topology.cluster.replicas if is_cluster else topology.sentinel.replicas
    if not consistency.min_replicas:
        return
    if consistency.min_replicas == replicas:
        yield (
            f"consistency.min_replicas: {replicas} means every replica; when one is down, its primary refuses writes"
        )
    if consistency.max_lag_ms == 1_000:
        yield "consistency.max_lag: replicas report once a second, so 1s refuses writes at times; use 2s"
