from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.topology.model import ClusterShape, Kind, TargetName, Topology
from rlctl.topology.nodes import SLOTS, NodeName, all_nodes, node_id, sentinel_nodes, slot_range

CLUSTER = Topology(name="limiter", kind=Kind.CLUSTER, target=TargetName.LOCAL)


def test_a_cluster_names_primaries_first_and_has_no_sentinels() -> None:
    nodes = all_nodes(CLUSTER)
    assert [(node.name, node.port, node.shard, node.starts_as_primary) for node in nodes] == [
        ("node-0", 7_000, 0, True),
        ("node-1", 7_001, 1, True),
        ("node-2", 7_002, 2, True),
        ("node-3", 7_003, 0, False),
        ("node-4", 7_004, 1, False),
        ("node-5", 7_005, 2, False),
    ]
    assert sentinel_nodes(CLUSTER) == ()


def test_sentinels_come_last_a_thousand_ports_up() -> None:
    nodes = all_nodes(replace(CLUSTER, kind=Kind.SENTINEL))
    assert [(node.endpoint, node.is_sentinel) for node in nodes] == [
        ("127.0.0.1:7000", False),
        ("127.0.0.1:7001", False),
        ("127.0.0.1:7002", False),
        ("127.0.0.1:8000", True),
        ("127.0.0.1:8001", True),
        ("127.0.0.1:8002", True),
    ]


@pytest.mark.parametrize("shards", [3, 4, 6])
def test_more_replicas_only_append(shards: int) -> None:
    few = all_nodes(replace(CLUSTER, cluster=ClusterShape(shards=shards, replicas=1)))
    many = all_nodes(replace(CLUSTER, cluster=ClusterShape(shards=shards, replicas=2)))
    assert many[: len(few)] == few


def test_an_id_is_the_same_for_whoever_holds_the_fleet_id() -> None:
    first, other = NodeName("node-0"), NodeName("node-1")
    assert node_id("fleet", first) == node_id("fleet", first)
    assert len({node_id(fleet, name) for fleet in ("one", "two") for name in (first, other)}) == 4
    assert len(node_id("fleet", first)) == 40


@given(st.integers(3, 1_000))
def test_slots_are_shared_out_once_and_evenly(shards: int) -> None:
    ranges = [slot_range(shard, shards) for shard in (0, 1, shards - 2, shards - 1)]
    assert ranges[0][0] == 0
    assert ranges[1][0] == ranges[0][1] + 1
    assert ranges[3][0] == ranges[2][1] + 1
    assert ranges[3][1] == SLOTS - 1
    assert max(abs(last - first + 1 - SLOTS / shards) for first, last in ranges) <= 1
