"""What is possible but unwise, in sentences for the operator."""

from collections.abc import Iterator

from rlctl.topology.model import EvictionPolicy, Kind, PersistenceMode, SentinelShape, Topology
from rlctl.topology.placement_advice import placement_faults


def warnings(topology: Topology) -> tuple[str, ...]:
    """What the operator should know before deploying this; empty for the defaults."""
    placement = (f"placement: {fault}" for fault in placement_faults(topology))
    return (*_of_data(topology), *_of_kind(topology), *_of_consistency(topology), *placement)


def _of_data(topology: Topology) -> Iterator[str]:
    policy, mode = topology.memory.policy, topology.persistence.mode
    if policy is not EvictionPolicy.NOEVICTION:
        yield f"memory.policy: {policy} evicts when full; an evicted limiter key silently resets that limit"
    if mode is PersistenceMode.NONE:
        yield (
            "persistence.mode: none keeps nothing on disk; every limit of a shard starts anew when its last "
            "node dies, and a dead primary waits for a failover before it may come back"
        )
    if mode is PersistenceMode.RDB:
        yield "persistence.mode: rdb loses what was counted since the last snapshot; aof loses about a second"
    if not topology.security.acl:
        yield "security.acl: false lets every process on this machine change every limit"


def _of_kind(topology: Topology) -> Iterator[str]:
    if topology.kind is Kind.SENTINEL:
        yield from _of_sentinels(topology.sentinel)
    elif topology.cluster.replicas == 0:
        yield "cluster.replicas: 0 means no failover; a dead primary takes its share of the limits along"


def _of_sentinels(shape: SentinelShape) -> Iterator[str]:
    if shape.sentinels < 3:
        yield f"sentinel.sentinels: with {shape.sentinels}, losing one ends automatic failover; use 3"
    elif shape.sentinels % 2 == 0:
        yield (
            f"sentinel.sentinels: {shape.sentinels} survive no more failures than {shape.sentinels - 1}, "
            "and can split into equal halves; use an odd number"
        )
    if shape.quorum == 1:
        yield "sentinel.quorum: 1 lets a single mistaken sentinel call the primary down; use a majority"


def _of_consistency(topology: Topology) -> Iterator[str]:
    consistency = topology.consistency
    is_cluster = topology.kind is Kind.CLUSTER
    replicas = topology.cluster.replicas if is_cluster else topology.sentinel.replicas
    if not consistency.min_replicas:
        return
    if consistency.min_replicas == replicas:
        yield (
            f"consistency.min_replicas: {replicas} is every replica there is; "
            "one of them down stops the writes of its primary"
        )
    if consistency.max_lag_ms == 1_000:
        yield "consistency.max_lag: replicas report once a second, so 1s refuses writes at times; use 2s"
