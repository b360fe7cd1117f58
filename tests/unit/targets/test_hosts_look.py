import json
from dataclasses import replace
from typing import Any

import pytest

from rlctl.errors import Unreachable
from rlctl.observe.model import OnDisk, Saved
from rlctl.render.redis_conf import initial_cluster_conf
from rlctl.targets.hosts.look import HostState, kept_packages, parse_host_state, probe_request
from rlctl.topology.model import HostEntry, Kind, TargetName, Topology
from rlctl.topology.nodes import all_nodes, node_id

TOPOLOGY = Topology(
    name="limiter",
    kind=Kind.CLUSTER,
    target=TargetName.HOSTS,
    hosts=tuple(HostEntry(address=f"10.0.0.{number}", name=f"h{number}") for number in (1, 2, 3)),
)
SPEC = all_nodes(TOPOLOGY)[0]
OWN = node_id("f" * 40, SPEC.name)
NODE: dict[str, Any] = {
    "pid": 0,
    "has_files": True,
    "cluster_conf": initial_cluster_conf(OWN),
    "sentinel_conf": "",
    "has_log": False,
    "has_snapshot": False,
    "bind_error": None,
}
ANSWER: dict[str, Any] = {
    "now": 100.0,
    "placed": ["node-0"],
    "running_without_folder": [],
    "orphaned": False,
    "packages": [],
    "nodes": {"node-0": NODE},
    "texts": {
        "overcommit_memory": "1\n",
        "thp": "always [madvise] never\n",
        "meminfo": "MemTotal: 1024 kB\n",
        "somaxconn": "4096\n",
        "ephemeral_ports": "32768 60999\n",
        "reserved_ports": "\n",
    },
    "cpus": 2,
    "disk": [10, 5],
    "clock": [0, 0],
}


def look(*, between: tuple[float, float] = (99.0, 101.0), **node: Any) -> HostState:
    return parse_host_state("h1", json.dumps(ANSWER | {"nodes": {"node-0": NODE | node}}), between=between)


def test_packages_that_stay_are_told_by_host() -> None:
    with_packages = parse_host_state("h1", json.dumps(ANSWER | {"packages": ["redis-server"]}), between=(99.0, 101.0))
    looks = {"h1": with_packages, "h2": look(), "h3": Unreachable("host h3 cannot be reached")}
    assert kept_packages(looks) == {"h1": ("redis-server",)}


@pytest.mark.parametrize(
    ("node", "disk"),
    [
        pytest.param({"pid": 7}, OnDisk(running=True, pid=7, own_id=OWN), id="running"),
        pytest.param({"has_files": False}, OnDisk(), id="placed, never started"),
        pytest.param(
            {"has_files": False, "bind_error": "EADDRINUSE"}, OnDisk(port_taken=17_000), id="somebody has its bus port"
        ),
        pytest.param({"cluster_conf": ""}, OnDisk(own_id=OWN), id="without a table"),
        pytest.param({"cluster_conf": initial_cluster_conf("a" * 40)}, OnDisk(own_id=OWN), id="the table of another"),
        pytest.param({"cluster_conf": "", "has_log": True}, OnDisk(own_id=OWN, saved=Saved.LOG), id="a log"),
        pytest.param(
            {"cluster_conf": "", "has_snapshot": True}, OnDisk(own_id=OWN, saved=Saved.SNAPSHOT), id="a snapshot"
        ),
        pytest.param(
            {"cluster_conf": "", "sentinel_conf": "sentinel monitor limiter 10.0.0.2 7001 2\n"},
            OnDisk(own_id=OWN, monitors=("10.0.0.2", 7001)),
            id="a sentinel's file",
        ),
    ],
)
def test_what_a_host_tells_of_a_node_that_does_not_answer(node: dict[str, Any], disk: OnDisk) -> None:
    assert look(**node).disk(SPEC, OWN) == disk


def test_its_own_table_is_what_a_node_would_come_back_with() -> None:
    (line,) = look().disk(SPEC, OWN).table
    assert line.id == OWN


@pytest.mark.parametrize("text", ["", "Welcome!\n{}", "[]", '{"placed": 1}', "null"])
def test_an_answer_that_is_none_is_unreachable(text: str) -> None:
    with pytest.raises(Unreachable, match="host h1: its answer cannot be read"):
        parse_host_state("h1", text, between=(0, 1))


@pytest.mark.parametrize(("between", "offset"), [((99.0, 101.0), 0.0), ((90.0, 95.0), 5.0), ((103.0, 104.0), -3.0)])
def test_a_clock_is_only_as_far_off_as_it_must_be(between: tuple[float, float], offset: float) -> None:
    assert look(between=between).facts.clock_offset_s == offset


def test_facts_of_the_host_are_read() -> None:
    facts = look().facts
    assert (facts.overcommit_memory, facts.thp_mode, facts.memory_total_bytes) == (1, "madvise", 1024**2)
    assert (facts.clock_synchronised, facts.disk_free_bytes) == (True, 5)


def test_an_address_that_is_elsewhere_is_noticed() -> None:
    assert look(bind_error="EADDRNOTAVAIL").lacks_address()
    assert not look().lacks_address()


def test_the_question_names_nodes_and_holds_no_secret() -> None:
    asked = json.loads(probe_request(TOPOLOGY, [SPEC]))
    assert asked["nodes"] == {
        "node-0": {"unit": "rlctl-limiter@node-0.service", "address": "10.0.0.1", "bus_port": 17_000}
    }
    assert asked["settings"] == "/etc/rlctl/limiter"
    sentinel = all_nodes(replace(TOPOLOGY, kind=Kind.SENTINEL))[-1]
    assert json.loads(probe_request(replace(TOPOLOGY, kind=Kind.SENTINEL), [sentinel]))["nodes"] == {
        "sentinel-2": {"unit": "rlctl-limiter-sentinel@sentinel-2.service", "address": "10.0.0.3", "bus_port": 0}
    }
