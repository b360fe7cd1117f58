"""Drills on containers: on a twin and on the deployed fleet. A killed drill leaves nothing behind."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from rlctl.assets import asset_folder
from rlctl.lab.partition import removal_rules, table_name
from rlctl.render.compose import container_name
from rlctl.system.docker import DockerEngine
from rlctl.system.process import ProcessRunner
from rlctl.system.sidecar import LABEL, Sidecars
from rlctl.topology.nodes import NodeName
from tests.docker.driver import DockerFleet, document
from tests.drills import drill, journal, kill_at, run_folder
from tests.driver import wait_for
from tests.lab.shell import run
from tests.rotation import in_turn

MakeFleet = Callable[[dict[str, Any]], DockerFleet]
FLAGSHIPS = ("write-loss", "split-brain")
KINDS = ("cluster", "sentinel")
# Each half has every scenario once, and both kinds.
LIVE = (
    *(("cluster", "write-loss"), ("sentinel", "write-loss")),
    *(("sentinel", "split-brain"), ("cluster", "split-brain")),
    *(("cluster", "pause"), ("sentinel", "pause")),
)


def sidecars() -> str:
    return run("docker", "ps", "--all", "--quiet", "--filter", f"label={LABEL}")


def twins_left(fleet: DockerFleet) -> list[str]:
    """Containers and networks of the twins of this fleet's drills."""
    marks = [
        f"label=com.docker.compose.project=rlctl-drill-{one.name[-4:]}" for one in (fleet.home / "drills").iterdir()
    ]
    return [
        found
        for mark in marks
        for what in (("ps", "--all"), ("network", "ls"))
        for found in run("docker", *what, "--quiet", "--filter", mark).split()
    ]


@pytest.fixture
def live(request: pytest.FixtureRequest, make_fleet: MakeFleet, image: str) -> DockerFleet:
    """A deployed fleet that allows drills, with short timers."""
    shape = document(request.param, image, drills={"allow": True})
    shape.setdefault("cluster", {})["node_timeout"] = "2s"
    shape.setdefault("sentinel", {})["down_after"] = "2s"
    fleet = make_fleet(shape)
    fleet.deploy()
    return fleet


@pytest.mark.parametrize("kind", in_turn(KINDS[::-1]))
def test_the_flagships_on_a_twin(make_fleet: MakeFleet, image: str, kind: str) -> None:
    fleet = make_fleet(document(kind, image))
    loss, split = (drill(fleet, name) for name in FLAGSHIPS)

    assert loss["lost"] > 0
    assert loss["fault"]["verified"] is True
    assert split["fault"]["verified"] is True
    assert split["admission"]["ratio"] >= 1.9
    assert "packet rules" in split["fault"]["method"]
    assert loss["heal"] == split["heal"] == {"ok": True, "residue": []}
    assert not twins_left(fleet)
    assert not sidecars()
    assert fleet.containers() == {}, "a twin needs no deployed fleet"


@pytest.mark.parametrize(("live", "scenario"), in_turn(LIVE), indirect=["live"])
def test_a_drill_on_the_live_fleet(live: DockerFleet, scenario: str) -> None:
    found = drill(live, scenario, "--live", "--confirm", live.name)

    assert found["live"] is True
    assert found["heal"] == {"ok": True, "residue": []}
    assert live.status()["state"] == "healthy"
    assert live.run("deploy", "--dry-run").code == 0
    assert not sidecars()


@pytest.mark.parametrize("live", in_turn(KINDS), indirect=True)
def test_the_watchdog_heals_a_live_fleet_that_is_cut(live: DockerFleet) -> None:
    kill_at(live, "cut", "split-brain", "--live", "--confirm", live.name)

    wait_for(lambda: '"swept"' in journal(run_folder(live)), what="the watchdog's sweep")
    assert live.status()["state"] == "healthy"
    assert live.run("failover-drill", "heal", "-o", "json").json()["runs"] == []
    assert not sidecars()
    for name in ("node-0", "node-1", "node-2"):
        assert not [user for user in live.connect(name).acl_users() if user.startswith("rlctl-drill")]


def test_the_watchdog_removes_a_killed_twin(make_fleet: MakeFleet, image: str) -> None:
    fleet = make_fleet(document("cluster", image))
    folder = kill_at(fleet, "cut", "split-brain")

    wait_for(lambda: not (folder / "twin").exists(), what="the twin removed")
    assert not twins_left(fleet)
    assert not sidecars()


def test_a_cut_heals_by_itself_when_nobody_is_left_to_mend_it(make_fleet: MakeFleet, image: str) -> None:
    """The last safeguard: rlctl and its watchdog are both dead, and the sidecar heals when its time is up."""
    fleet = make_fleet(document("cluster", image))
    fleet.deploy()
    runner = ProcessRunner()
    helpers = Sidecars(DockerEngine(runner), runner, f"lease_{fleet.name.replace('-', '_')}")
    node = NodeName("node-0")
    tag = helpers.image(image, asset_folder("compose") / "faults")
    container = container_name(fleet.name, node)
    sidecar = helpers.start(tag, container, node, undo=removal_rules("lease"), after_s=45)
    helpers.packet_filter(sidecar).apply(
        f"table inet {table_name('lease')} {{\n"
        "chain cut {\n"
        "type filter hook input priority -10; policy accept;\n"
        f"tcp dport {fleet.base_port} drop\n"
        "}\n"
        "}\n"
    )

    assert fleet.status(expect=None)["state"] != "healthy"
    wait_for(lambda: not sidecars(), what="the sidecar gone")
    wait_for(lambda: fleet.status(expect=None)["state"] == "healthy", what="the fleet healthy again")


def test_a_sidecar_that_is_removed_takes_its_volumes_along(make_fleet: MakeFleet, image: str) -> None:
    """The node's image declares a volume, and so does the sidecar's image, which is built from it."""
    fleet = make_fleet(document("cluster", image))
    fleet.deploy()
    runner = ProcessRunner()
    helpers = Sidecars(DockerEngine(runner), runner, f"volumes_{fleet.name.replace('-', '_')}")
    node = NodeName("node-0")
    tag = helpers.image(image, asset_folder("compose") / "faults")
    sidecar = helpers.start(tag, container_name(fleet.name, node), node, undo=removal_rules("volumes"), after_s=300)
    mounts = json.loads(run("docker", "inspect", "--format", "{{json .Mounts}}", sidecar.id))
    volumes = {mount["Name"] for mount in mounts if mount["Type"] == "volume"}
    assert volumes

    helpers.remove(sidecar)

    wait_for(lambda: not volumes & set(run("docker", "volume", "ls", "--quiet").split()), what="its volumes gone")
