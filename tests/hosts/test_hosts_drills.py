"""Drills on hosts: on a twin and on the deployed fleet. A killed drill leaves nothing behind."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlctl.lab.packet_filter import HostPacketFilter
from rlctl.lab.partition import isolation, isolation_rules, removal_rules, table_name
from rlctl.system.ssh import socket_folder
from rlctl.targets.hosts.shells import HostShells
from rlctl.topology.load import load_topology
from rlctl.topology.nodes import data_nodes
from tests.drills import drill, journal, kill_at, run_folder
from tests.driver import wait_for
from tests.hosts.fleets import HostsFleet, path_of
from tests.lab.hosts import Lab
from tests.rotation import in_turn

FLAGSHIPS = ("write-loss", "split-brain")


@pytest.fixture(scope="module")
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """Machines of this module only."""
    return make_lab("bookworm", "bookworm", "bookworm")


@pytest.fixture(scope="module")
def live(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostsFleet]:
    """A deployed cluster that allows drills. It is shared because a deploy takes longer than most tests."""
    folder = tmp_path_factory.mktemp("drills") / "env"
    fleet = HostsFleet.create(lab, folder, "cluster", drills={"allow": True})
    fleet.deploy()
    yield fleet
    fleet.run("destroy", "--confirm", fleet.name)
    assert fleet.left() == ""


def of_drills(fleet: HostsFleet) -> str:
    """What a running drill keeps on hosts: nft tables, timers, suspended restarts, units and folders of twins."""
    script = (
        "nft list tables | grep rlctl_drill; systemctl list-units --all --no-legend 'rlctl-drill*'; "
        "ls -d /run/rlctl/*/hold /etc/rlctl/drill-* /var/lib/rlctl/drill-* 2>/dev/null; true"
    )
    return "".join(host.exec("sh", "-c", script) for host in fleet.lab.hosts)


@pytest.mark.parametrize("scenario", in_turn(FLAGSHIPS))
def test_a_drill_on_the_live_fleet(live: HostsFleet, scenario: str) -> None:
    found = drill(live, scenario, "--live", "--confirm", live.name)

    assert found["live"] is True
    assert found["lost"] > 0
    assert found["fault"]["verified"] is True
    assert found["heal"] == {"ok": True, "residue": []}
    assert live.status()["state"] == "healthy"
    assert of_drills(live) == ""


def test_the_watchdog_heals_a_live_fleet_that_is_cut(live: HostsFleet) -> None:
    kill_at(live, "cut", "split-brain", "--live", "--confirm", live.name)

    wait_for(lambda: '"swept"' in journal(run_folder(live)), what="the watchdog's sweep")
    assert live.status()["state"] == "healthy"
    assert of_drills(live) == ""
    assert live.run("failover-drill", "heal", "-o", "json").json()["runs"] == []


@pytest.mark.parametrize(("scenario", "kind"), in_turn([("split-brain", "sentinel"), ("write-loss", "cluster")]))
def test_a_drill_on_a_twin_beside_the_fleet(live: HostsFleet, scenario: str, kind: str) -> None:
    found = drill(live, scenario, "--kind", kind)

    assert found["live"] is False
    assert found["lost"] > 0
    assert found["heal"] == {"ok": True, "residue": []}
    assert of_drills(live) == ""
    assert live.status()["state"] == "healthy"


def test_a_cut_heals_by_itself_when_nobody_is_left_to_mend_it(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last safeguard: rlctl and its watchdog are both dead, and the timer on the host heals."""
    monkeypatch.setenv("PATH", path_of(lab.bin))
    fleet = HostsFleet.create(lab, tmp_path / "env", "cluster")
    topology = load_topology(fleet.file.read_bytes(), str(fleet.file))
    shells = HostShells(topology, socket_folder(tmp_path))
    nodes = tuple(spec for spec in data_nodes(topology) if spec.host == "h1")
    gate = HostPacketFilter(nodes=nodes, host="h1", shells=shells, run="lease", lease_s=30)
    gate.prepare(removal_rules("lease"))
    gate.apply(isolation_rules(isolation(nodes, data_nodes(topology), []), "lease"))

    assert table_name("lease") in gate.listing()
    wait_for(lambda: table_name("lease") not in gate.listing(), what="the table removed by the host itself")
    gate.close()
    assert of_drills(fleet) == ""


def test_a_twin_takes_room_on_hosts_and_must_be_allowed(lab: Lab, tmp_path: Path) -> None:
    fleet = HostsFleet.create(lab, tmp_path / "env", "cluster")
    refused = fleet.run("failover-drill", "run", "write-loss", "-o", "json", expect=8).error()
    assert "does not allow drills" in refused["message"]
