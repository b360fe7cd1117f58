"""Checks of the topology itself."""

from dataclasses import replace

import pytest

from rlctl.doctor.model import CheckSeverity
from rlctl.doctor.shape_checks import shape_checks
from rlctl.topology.model import (
    ClusterShape,
    EvictionPolicy,
    HostEntry,
    Kind,
    LocalPlace,
    Memory,
    Persistence,
    PersistenceMode,
    Security,
    SentinelShape,
    TargetName,
    Topology,
)

CLUSTER = Topology(name="limiter", kind=Kind.CLUSTER, target=TargetName.LOCAL)
SENTINEL = Topology(name="limiter", kind=Kind.SENTINEL, target=TargetName.LOCAL)
BARE = replace(CLUSTER, cluster=ClusterShape(replicas=0))
HOSTS = replace(CLUSTER, target=TargetName.HOSTS)
FORGETFUL = Persistence(mode=PersistenceMode.NONE)
ONE, TWO, THREE, SPARE = (
    HostEntry(address="10.0.0.1"),
    HostEntry(address="10.0.0.2"),
    HostEntry(address="10.0.0.3"),
    HostEntry(address="x", nodes=0),
)

OK, WARNING = CheckSeverity.OK, CheckSeverity.WARNING


@pytest.mark.parametrize(
    ("topology", "name", "severity", "evidence"),
    [
        pytest.param(CLUSTER, "eviction-policy", OK, "refuses writes", id="noeviction"),
        pytest.param(
            replace(CLUSTER, memory=Memory(policy=EvictionPolicy.ALLKEYS_LRU)),
            "eviction-policy",
            WARNING,
            "resets a limit; it may evict the rules",
            id="evicts anything",
        ),
        pytest.param(
            replace(CLUSTER, memory=Memory(policy=EvictionPolicy.VOLATILE_TTL)),
            "eviction-policy",
            WARNING,
            "silently resets a limit",
            id="evicts what expires",
        ),
        pytest.param(CLUSTER, "encryption", OK, "reachable from this machine only", id="loopback"),
        pytest.param(
            replace(CLUSTER, local=LocalPlace(spread=True)), "encryption", OK, "from this machine only", id="spread"
        ),
        pytest.param(
            replace(CLUSTER, target=TargetName.DOCKER), "encryption", OK, "from this machine only", id="docker"
        ),
        pytest.param(
            replace(CLUSTER, local=LocalPlace(address="10.0.0.1")), "encryption", WARNING, "in clear", id="network"
        ),
        pytest.param(
            replace(HOSTS, hosts=(ONE, TWO, THREE)), "encryption", WARNING, "on a dead node's address", id="hosts"
        ),
        pytest.param(
            replace(HOSTS, hosts=(ONE, TWO, THREE), security=Security(tls=True)),
            *("encryption", OK, "proves each server"),
            id="hosts with TLS",
        ),
        pytest.param(CLUSTER, "persistence-restart", OK, "persistence aof", id="aof"),
        pytest.param(
            replace(CLUSTER, persistence=FORGETFUL),
            "persistence-restart",
            OK,
            "only after a failover",
            id="no persistence",
        ),
        pytest.param(
            replace(BARE, persistence=FORGETFUL),
            "persistence-restart",
            WARNING,
            "a dead node has lost its data",
            id="neither persistence nor replica",
        ),
        pytest.param(CLUSTER, "replicas", OK, "shards: 3, replicas of each: 1", id="cluster with replicas"),
        pytest.param(SENTINEL, "replicas", OK, "shards: 1, replicas of each: 2", id="sentinel with replicas"),
        pytest.param(BARE, "replicas", WARNING, "no node takes over its shard", id="cluster without replica"),
        pytest.param(
            replace(SENTINEL, sentinel=SentinelShape(replicas=0)),
            "replicas",
            WARNING,
            "replicas of each: 0",
            id="sentinel without replica",
        ),
        pytest.param(CLUSTER, "placement", OK, "one machine", id="local"),
        pytest.param(replace(CLUSTER, target=TargetName.DOCKER), "placement", OK, "one machine", id="docker"),
        pytest.param(replace(HOSTS, hosts=(TWO, ONE, THREE)), "placement", OK, "data nodes: 3", id="three hosts"),
        pytest.param(
            replace(HOSTS, hosts=(TWO, ONE)), "placement", WARNING, "2 of 3 primaries are in host", id="two hosts"
        ),
        pytest.param(
            replace(HOSTS, hosts=(ONE, SPARE)),
            "placement",
            WARNING,
            "replicas on the host of their primary: node-3 (node-0)",
            id="one data host",
        ),
    ],
)
def test_shape(topology: Topology, name: str, severity: CheckSeverity, evidence: str) -> None:
    (check,) = [check for check in shape_checks(topology) if check.name == name]

    assert check.severity is severity
    assert evidence in check.evidence
    assert bool(check.fix) is (severity is not OK)
    assert check.subject == "limiter"


def test_rules_are_named_only_when_they_can_be_evicted() -> None:
    topology = replace(CLUSTER, memory=Memory(policy=EvictionPolicy.VOLATILE_LRU))

    assert not any("rules" in check.evidence for check in shape_checks(topology))
