"""Who plays which part, who is cut off from whom, and which clients there are."""

from dataclasses import replace

import pytest

from rlctl.drills.engine.clients import ClockReading, client_specs
from rlctl.drills.record.ledger import Keys
from rlctl.drills.record.sample import SILENT, Sample, is_one
from rlctl.drills.scenario.model import ClientLoad, LoadMode, Side
from rlctl.lab.partition import (
    ANYWHERE,
    ClientSource,
    isolation,
    isolation_rules,
    removal_rules,
    replication_cut,
    rules,
)
from rlctl.lab.roles import LabRole, assign_roles, planned_roles
from rlctl.topology.model import HostEntry, TargetName, Topology
from rlctl.topology.nodes import data_nodes, sentinel_nodes
from tests.unit import fleets

CLUSTER, WATCHED = fleets.cluster(shards=3, replicas=1), fleets.watched(replicas=2, sentinels=3)
# The start of a window of ten minutes.
NOW = ClockReading(wall_ms=600_000 * 1_000, monotonic_us=0)
HOSTS = tuple(HostEntry(address=f"10.0.0.{number}") for number in (1, 2, 3))
ON_HOSTS = replace(CLUSTER, target=TargetName.HOSTS, hosts=HOSTS, local=replace(CLUSTER.local, base_port=7000))
SPREAD = replace(CLUSTER, local=replace(CLUSTER.local, spread=True, base_port=7000))


def played(topology: Topology) -> dict[str, list[str]]:
    parts = assign_roles(topology, fleets.healthy(topology))
    return {role.value: [spec.name for spec in parts.of(role)] for role in LabRole}


def test_parts_in_a_cluster() -> None:
    assert played(CLUSTER) == {
        "victim": ["node-0"],
        "replicas": ["node-3"],
        "replica": ["node-3"],
        "second": ["node-1"],
        "sentinels": [],
        "promoted": [],
        "shard": ["node-0", "node-3"],
    }


def test_parts_behind_sentinel() -> None:
    names = [spec.name for spec in sentinel_nodes(WATCHED)]
    assert played(WATCHED) == {
        "victim": ["node-0"],
        "replicas": ["node-1", "node-2"],
        "replica": ["node-1"],
        "second": [],
        "sentinels": names[:2],
        "promoted": [],
        "shard": ["node-0", "node-1", "node-2"],
    }


@pytest.mark.parametrize(
    ("topology", "slots"), [(CLUSTER, ((0, 5460),)), (WATCHED, ((0, 16_383),))], ids=["cluster", "sentinel"]
)
def test_everybody_is_there_once(topology: Topology, slots: tuple[tuple[int, int], ...]) -> None:
    parts = assign_roles(topology, fleets.healthy(topology))
    names = sorted(spec.name for spec in parts.all_nodes)
    assert names == sorted(spec.name for spec in (*data_nodes(topology), *sentinel_nodes(topology)))
    assert parts.slots == slots
    assert set(parts.shard) < set(parts.watched) <= set(parts.all_nodes)
    assert [spec.is_sentinel for spec in parts.isolated] == [False, True][: 1 + bool(parts.sentinels)]


@pytest.mark.parametrize("topology", [CLUSTER, WATCHED], ids=["cluster", "sentinel"])
def test_the_parts_of_a_fleet_to_come_are_those_of_a_healthy_one(topology: Topology) -> None:
    assert replace(planned_roles(topology), other_slots=()) == replace(
        assign_roles(topology, fleets.healthy(topology)), other_slots=()
    )


@pytest.mark.parametrize(
    ("topology", "why"),
    [
        pytest.param(CLUSTER, None, id="one of three primaries"),
        pytest.param(WATCHED, None, id="one of three sentinels"),
        pytest.param(
            fleets.watched(replicas=2, sentinels=1), "1 of 1 sentinels (sentinel-0) would be cut off", id="the only one"
        ),
        pytest.param(
            fleets.watched(replicas=2, sentinels=2), "1 of 2 sentinels (sentinel-0) would be cut off", id="a half"
        ),
        pytest.param(ON_HOSTS, None, id="a host of three"),
        pytest.param(
            replace(ON_HOSTS, hosts=HOSTS[:1]),
            "3 of 3 primaries (node-0, node-1, node-2) would be cut off",
            id="one host",
        ),
    ],
)
def test_a_cut_that_leaves_too_few_to_elect(topology: Topology, why: str | None) -> None:
    assert planned_roles(topology).why_no_election() == why


def test_three_primaries_of_other_shards_are_watched() -> None:
    wide = fleets.cluster(shards=6, replicas=1)
    watched = [spec.name for spec in assign_roles(wide, fleets.healthy(wide)).watched]
    assert watched == ["node-0", "node-6", "node-1", "node-2", "node-3"]


def test_the_victim_is_the_primary_of_the_first_slots_whoever_that_is() -> None:
    parts = assign_roles(CLUSTER, fleets.promoted(fleets.healthy(CLUSTER), "node-3"))
    assert (parts.victim.name, [spec.name for spec in parts.replicas]) == ("node-3", ["node-0"])


def test_replication_cut_drops_data_both_ways_and_nothing_else() -> None:
    parts = assign_roles(SPREAD, fleets.healthy(SPREAD))
    partition = replication_cut(parts.victim, parts.replicas)
    assert partition.describe() == "replication between node-0 and node-3"
    assert rules(partition, "r1") == (
        "table inet rlctl_drill_r1 {\n"
        "chain cut_input {\n"
        "type filter hook input priority -10; policy accept;\n"
        "ip saddr 127.77.0.4 ip daddr 127.77.0.1 tcp dport 7000 drop\n"
        "ip saddr 127.77.0.1 ip daddr 127.77.0.4 tcp sport 7000 drop\n"
        "}\n"
        "}\n"
    )


def test_isolation_drops_every_flow_to_the_others_and_to_their_clients() -> None:
    parts = assign_roles(SPREAD, fleets.healthy(SPREAD))
    partition = isolation(parts.shard, (*parts.shard, parts.other_nodes[0]), [ClientSource(address="127.79.0.1")])
    assert partition.describe() == "every flow between node-0, node-3 and node-1"
    assert rules(partition, "r1").splitlines()[3] == (
        "ip saddr . ip daddr { "
        "127.77.0.1 . 127.77.0.2, 127.77.0.1 . 127.79.0.1, "
        "127.77.0.2 . 127.77.0.1, 127.77.0.2 . 127.77.0.4, "
        "127.77.0.4 . 127.77.0.2, 127.77.0.4 . 127.79.0.1, "
        "127.79.0.1 . 127.77.0.1, 127.79.0.1 . 127.77.0.4 } drop"
    )


def test_island_rules_drop_the_fleets_ports_and_the_far_clients_and_nothing_else() -> None:
    parts = planned_roles(ON_HOSTS)
    far = ClientSource(ports=(24_000, 24_999))
    partition = isolation(parts.cut_off(LabRole.VICTIM), parts.all_nodes, [far, ClientSource(address="127.79.0.1")])
    own = ", ".join(str(port) for port in sorted(spec.port for spec in partition.isolated))
    rest, ports = "10.0.0.2, 10.0.0.3", "7000, 7001, 7002, 7003, 7004, 7005, 17000, 17001, 17002, 17003, 17004, 17005"
    assert isolation_rules(partition, "r1") == (
        "table inet rlctl_drill_r1 {\n"
        "chain cut_input {\n"
        "type filter hook input priority -10; policy accept;\n"
        f"ip saddr {{ {rest} }} tcp dport {{ {ports} }} drop\n"
        f"ip saddr {{ {rest} }} tcp sport {{ {ports} }} drop\n"
        f"tcp sport 24000-24999 tcp dport {{ {own} }} drop\n"
        "}\n"
        "chain cut_output {\n"
        "type filter hook output priority -10; policy accept;\n"
        f"ip daddr {{ {rest} }} tcp dport {{ {ports} }} drop\n"
        f"ip daddr {{ {rest} }} tcp sport {{ {ports} }} drop\n"
        "}\n"
        "}\n"
    )


@pytest.mark.parametrize("role", [LabRole.VICTIM, LabRole.REPLICA])
def test_a_host_is_cut_off_as_a_whole(role: LabRole) -> None:
    parts = planned_roles(ON_HOSTS)
    hosts = {spec.host for spec in parts.of(role)}
    assert {spec.name for spec in parts.cut_off(role)} == {spec.name for spec in parts.all_nodes if spec.host in hosts}


def test_off_hosts_a_sentinel_is_alone_with_the_victim() -> None:
    parts = planned_roles(replace(WATCHED, target=TargetName.DOCKER))
    assert [spec.name for spec in parts.cut_off(LabRole.VICTIM)] == ["node-0", "sentinel-0"]
    assert [spec.name for spec in parts.cut_off(LabRole.REPLICA)] == ["node-1"]


def test_rules_are_removed_by_name_whether_they_are_there_or_not() -> None:
    assert removal_rules("r1") == "table inet rlctl_drill_r1\ndelete table inet rlctl_drill_r1\n"


SHUT_IN = ClientSource(address="127.79.0.2")


def client_views(load: ClientLoad) -> dict[str, tuple[list[str], bool, ClientSource]]:
    parts = assign_roles(CLUSTER, fleets.healthy(CLUSTER))
    keys = dict.fromkeys(Side, Keys(run="r1", tag="t1"))
    found = client_specs(load, parts, keys, "a" * 40, {Side.MINORITY: SHUT_IN}, NOW)
    return {one.name: ([place.name for place in one.places], one.pinned, one.source) for one in found}


def test_each_side_has_a_client_that_reaches_what_it_can() -> None:
    assert client_views(ClientLoad(sides=tuple(Side))) == {
        "majority": (["node-0", "node-3"], False, ANYWHERE),
        "minority": (["node-0"], True, SHUT_IN),
        "others": (["node-2"], False, ANYWHERE),
        "stale": (["node-0"], True, ANYWHERE),
    }


@pytest.mark.parametrize(("mode", "sent"), [(LoadMode.LIMITER, "limiter"), (LoadMode.BITS, "bits")])
def test_work_of_a_client(mode: LoadMode, sent: str) -> None:
    parts = assign_roles(CLUSTER, fleets.healthy(CLUSTER))
    keys = dict.fromkeys(Side, Keys(run="r1", tag="t1"))
    [one] = client_specs(ClientLoad(mode=mode, limit=7, wait_replicas=1), parts, keys, "a" * 40, {}, NOW)
    assert (one.work.mode, one.work.hot_args, one.work.wait_replicas) == (sent, ("7", "600000", "1"), 1)
    assert one.work.ledger_key == "rlctl:drill:r1:{t1}:ledger:majority"


@pytest.mark.parametrize("skew_ms", [-300_000, -1, 1, 300_000])
def test_a_skewed_clock_starts_where_its_skew_leads_into_no_edge_of_its_own(skew_ms: int) -> None:
    now = ClockReading(wall_ms=1_763_469_600_123, monotonic_us=5_000_000)
    window_ms = 600_000
    place_ms = (now.monotonic_us + now.offset_us(skew_ms, window_ms)) // 1000 % window_ms
    assert place_ms == (360_000 if skew_ms > 0 else 240_000)


PRIMARY, REPLICA = Sample(alive=True, role="master", offset=9), Sample(alive=True, role="slave", link="up", offset=9)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param([PRIMARY, REPLICA], True, id="one"),
        pytest.param([PRIMARY], True, id="alone"),
        pytest.param([PRIMARY, PRIMARY], False, id="two primaries"),
        pytest.param([REPLICA, REPLICA], False, id="no primary"),
        pytest.param([PRIMARY, replace(REPLICA, link="down")], False, id="no link"),
        pytest.param([PRIMARY, replace(REPLICA, offset=8)], False, id="behind"),
        pytest.param([PRIMARY, SILENT], False, id="silent"),
    ],
)
def test_is_one(samples: list[Sample], *, expected: bool) -> None:
    assert is_one(samples) is expected
