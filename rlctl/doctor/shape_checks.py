"""Checks of the topology itself: eviction, persistence, replicas, placement and encryption."""

from rlctl.doctor.model import Check, passed, warned
from rlctl.topology.model import EvictionPolicy, Kind, PersistenceMode, TargetName, Topology
from rlctl.topology.nodes import data_nodes
from rlctl.topology.placement_advice import placement_faults


def shape_checks(topology: Topology) -> tuple[Check, ...]:
    """The checks that need only the topology."""
    return (
        _eviction(topology),
        _persistence(topology),
        _replicas(topology),
        _placement(topology),
        _encryption(topology),
    )


def _eviction(topology: Topology) -> Check:
    name, policy = "eviction-policy", topology.memory.policy
    if policy is EvictionPolicy.NOEVICTION:
        return passed(name, topology.name, "noeviction: a full node refuses writes and keeps all limiter state")
    rules = "; it may evict the rules, too" if policy.value.startswith("allkeys-") else ""
    return warned(
        name,
        topology.name,
        f"{policy.value}: a full node evicts limiter keys, and each eviction silently resets a limit{rules}",
        "set memory.policy: noeviction in the topology, then `rlctl deploy`",
    )


def _replicas_each(topology: Topology) -> int:
    return topology.cluster.replicas if topology.kind is Kind.CLUSTER else topology.sentinel.replicas


def _persistence(topology: Topology) -> Check:
    name, mode = "persistence-restart", topology.persistence.mode
    if mode is not PersistenceMode.NONE:
        return passed(name, topology.name, f"persistence {mode.value}: a restarted primary keeps its data")
    if _replicas_each(topology):
        return passed(
            name,
            topology.name,
            "persistence none: deploy starts a dead primary again only after a failover; "
            "if all nodes of a shard die, its data is lost",
        )
    return warned(
        name,
        topology.name,
        "persistence none and no replica: a dead node has lost its data; deploy starts it again only with --confirm",
        "set persistence.mode: aof, or give each shard a replica",
    )


def _replicas(topology: Topology) -> Check:
    name, replicas = "replicas", _replicas_each(topology)
    shards = topology.cluster.shards if topology.kind is Kind.CLUSTER else 1
    evidence = f"shards: {shards}, replicas of each: {replicas}"
    if replicas:
        return passed(name, topology.name, evidence)
    return warned(
        name,
        topology.name,
        f"{evidence}: when a primary dies, no node takes over its shard",
        f"set {topology.kind.value}.replicas to 1 or more",
    )


def _placement(topology: Topology) -> Check:
    name = "placement"
    if topology.target is not TargetName.HOSTS:
        return passed(name, topology.name, "the whole fleet is on one machine, a single point of failure")
    faults = placement_faults(topology)
    if faults:
        return warned(name, topology.name, "; ".join(faults), "list more hosts, or hosts in more zones, under hosts")
    hosts = {spec.host for spec in data_nodes(topology)}
    return passed(name, topology.name, f"hosts for data nodes: {len(hosts)} ({', '.join(sorted(filter(None, hosts)))})")


def _encryption(topology: Topology) -> Check:
    name = "encryption"
    if topology.security.tls:
        return passed(name, topology.name, "TLS encrypts all connections and proves each server by its certificate")
    if not _crosses_a_network(topology):
        return passed(name, topology.name, "no TLS: the fleet is reachable from this machine only")
    return warned(
        name,
        topology.name,
        "no TLS: passwords and counts cross the network in clear, and a process that listens on a dead node's "
        "address can receive a password",
        "write `tls: true` under security before the first deploy; deploy refuses this change on a deployed fleet",
    )


def _crosses_a_network(topology: Topology) -> bool:
    """Whether other machines can connect to the nodes. Other machines cannot reach a Docker fleet's network."""
    match topology.target:
        case TargetName.LOCAL:
            return not topology.local.address.startswith("127.")
        case TargetName.DOCKER:
            return False
        case TargetName.HOSTS:
            return True
