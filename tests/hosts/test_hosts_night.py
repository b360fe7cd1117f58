"""Commands of the runbooks on hosts: failover, fence, resize, and two runbooks from start to end."""

import json
import re
from collections.abc import Iterator

import pytest

from tests import night
from tests.driver import wait_for
from tests.hosts.fleets import HostsFleet, without_sudo
from tests.lab.hosts import start_lab

MIB = 1024 * 1024
LOOK = "reading 3 hosts\n"


@pytest.fixture(scope="module")
def fleet(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostsFleet]:  # noqa: ARG001 - for its hosts
    """A fleet that every test finds and leaves healthy. Without persistence, systemd does not restart a killed node."""
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
    lack = r"host (h\d): 2 data nodes x 1024 GiB more = 2 TiB; [\d.]+ GiB is available"
    said = re.findall(lack, ran.error()["message"])
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
    """After a restart the node has the maxmemory that resize wrote into its file."""
    old = night.member(fleet, "primary")
    fleet.of_node(old).exec("systemctl", "kill", "--signal=KILL", fleet.unit(old))
    assert night.follow(fleet, "RB-01", "--confirm", fleet.name)["bring-back"] == "done"
    assert night.memory(fleet, old) == 128 * MIB
    assert night.in_order(fleet)


# Answers as a server that requires a password, and records what it receives.
LISTENER = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as door, open("/tmp/heard", "wb", buffering=0) as heard:
    while True:
        channel, _ = door.accept()
        with channel:
            while data := channel.recv(4096):
                heard.write(data)
                channel.sendall(b"-NOAUTH Authentication required.\\r\\n")
"""


def test_another_process_at_a_dead_nodes_port_gets_no_password(fleet: HostsFleet) -> None:
    node = next(one for one in fleet.status()["nodes"] if one["role"] == "replica")
    host, unit = fleet.of_node(node["name"]), fleet.unit(node["name"])
    host.exec("systemctl", "stop", unit)
    argv = ("python3", "-c", LISTENER, node["host"], str(node["port"]))
    host.exec("systemd-run", "--quiet", "--unit=test-listener", "--property=User=nobody", *argv)
    try:
        wait_for(lambda: "LISTEN" in host.exec("ss", "-tln", f"sport = :{node['port']}"), "the listener")
        [finding] = [one for one in fleet.status(expect=11)["findings"] if one["code"] == "node-unproven"]
        assert finding["subject"] == node["name"]
        assert "does not hold the port" in finding["text"]
        fleet.deploy(expect=8)
        with without_sudo(host):
            texts = {one["subject"]: one["text"] for one in fleet.status(expect=11)["findings"]}
            assert "did not confirm that its unit holds the port: sudo refused" in texts[node["name"]]
            fleet.deploy(expect=6)
        heard = host.exec("cat", "/tmp/heard")
        assert heard
        assert "AUTH" not in heard
        secrets = json.loads((fleet.home / "fleets" / fleet.name / "secrets.json").read_text(encoding="utf-8"))
        assert not any(password in heard for password in secrets["users"].values())
    finally:
        host.exec("systemctl", "stop", "test-listener")
        fleet.deploy()
    assert night.in_order(fleet)
