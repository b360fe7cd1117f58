"""The verbs of the runbooks on hosts: a shard is moved, fenced, given more memory, and two pages are followed."""

import re
from collections.abc import Iterator

import pytest

from tests import night
from tests.hosts.fleets import HostsFleet
from tests.lab.hosts import start_lab

MIB = 1024 * 1024
LOOK = "looking at 3 hosts\n"


@pytest.fixture(scope="module")
def fleet(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostsFleet]:  # noqa: ARG001 - for its hosts
    """Every test finds it healthy, and leaves it so. Without a log, systemd does not start a killed node again."""
    with start_lab(["bookworm"] * 3) as lab:
        folder = tmp_path_factory.mktemp("night") / "env"
        made = HostsFleet.create(lab, folder, "cluster", local={"base_port": 7000}, persistence={"mode": "none"})
        made.deploy()
        yield made


def test_the_gate_of_a_deploy(fleet: HostsFleet) -> None:
    gate = fleet.run("doctor", "--gate", "deploy", "-o", "json").json()["gate"]
    assert gate == {"operation": "deploy", "open": True, "closed_by": []}


def test_a_planned_failover(fleet: HostsFleet) -> None:
    night.fail_over(fleet)


def test_a_fence(fleet: HostsFleet) -> None:
    night.fence(fleet)


def test_more_than_the_hosts_have_is_refused_at_once(fleet: HostsFleet) -> None:
    before = fleet.file.read_bytes()
    ran = fleet.run("resize", "1024gb", "--yes", "-o", "json", expect=8)
    said = re.findall(r"host (h\d): 2 data nodes x 1024 GiB more = 2 TiB, [\d.]+ GiB available", ran.error()["message"])
    assert said == ["h1", "h2", "h3"]
    assert LOOK not in ran.err
    assert fleet.file.read_bytes() == before


def test_more_memory_for_servers_and_in_their_files(fleet: HostsFleet) -> None:
    ran = night.resize(fleet, "128mb")
    assert {step["kind"] for step in ran.json()["steps"]} == {"prepare-place", "configure"}
    assert ran.err.count(LOOK) == 2, "who waits hears of both looks: at what there is, and at what it becomes"
    text = fleet.of_node("node-0").exec("cat", f"/etc/rlctl/{fleet.name}/node-0/static.conf")
    assert f"\nmaxmemory {128 * MIB}\n" in text


def test_scripts_that_were_flushed(fleet: HostsFleet) -> None:
    night.flush_scripts(fleet)
    assert set(night.follow(fleet, "RB-09").values()) == {"done"}


def test_a_primary_whose_process_was_killed(fleet: HostsFleet) -> None:
    """Started again it has the memory that its file says, which resize wrote."""
    old = night.member(fleet, "primary")
    fleet.of_node(old).exec("systemctl", "kill", "--signal=KILL", fleet.unit(old))
    assert night.follow(fleet, "RB-01", "--confirm", fleet.name)["bring-back"] == "done"
    assert night.memory(fleet, old) == 128 * MIB
    assert night.in_order(fleet)
