"""A fleet of containers from its first deploy to its removal, on every image."""

import json
import stat
from collections.abc import Callable
from typing import Any

import pytest

from rlctl.limiter import Limiter, SlidingCounter
from tests.docker.driver import DockerFleet, document
from tests.lab.shell import run
from tests.local.driver import wait_for

MakeFleet = Callable[[dict[str, Any]], DockerFleet]
LIMIT = ("limit", "--algorithm", "sliding_counter", "--limit", "3", "--window", "60s", "--on-failure", "closed", "ada")
TABLE = [
    pytest.param("cluster", "rlctl-lab/redis:7.0", False, id="cluster, redis 7.0"),
    pytest.param("sentinel", "rlctl-lab/redis:8.0", True, id="sentinel, redis 8.0, TLS"),
    pytest.param("cluster", "rlctl-lab/valkey:8.1", True, id="cluster, valkey 8.1, TLS"),
]


@pytest.mark.parametrize(("kind", "image", "tls"), TABLE)
def test_a_whole_life(make_fleet: MakeFleet, kind: str, image: str, *, tls: bool) -> None:
    fleet = make_fleet(document(kind, image, security={"tls": tls}))
    fleet.run("deploy", "--dry-run", expect=10)
    assert not fleet.root.exists()
    assert fleet.containers() == {}
    fleet.deploy()
    fleet.run("deploy", "--dry-run", expect=0)
    assert not fleet.deploy().json()["changed"]
    assert fleet.status()["state"] == "healthy"
    assert {"healthy"} == {fleet.connect(node).ping() and "healthy" for node in fleet.containers()}
    assert [fleet.run(*LIMIT, "-o", "json").json()["allowed"] for _ in range(4)] == [True, True, True, False]
    fleet.run("scripts", "verify")
    assert_private(fleet)
    assert_well_made(fleet)
    fleet.run("destroy", "--confirm", fleet.name)
    assert (fleet.containers(), fleet.networks(), list((fleet.home / "fleets").iterdir())) == ({}, [], [])
    fleet.run("destroy", "--confirm", fleet.name)


def assert_private(fleet: DockerFleet) -> None:
    """Only the operator can read the files, and Docker shows no secret."""
    exposed = [str(path) for path in fleet.root.rglob("*") if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert exposed == []
    secrets = json.loads((fleet.root / "secrets.json").read_text(encoding="utf-8"))
    shown = json.dumps(fleet.containers()) + (fleet.root / "compose.yaml").read_text(encoding="utf-8")
    shown += "".join(run("docker", "logs", fleet.container(node)) for node in fleet.containers())
    shown += "".join(run("docker", "top", fleet.container(node)) for node in fleet.containers())
    assert [user for user, password in secrets["users"].items() if password in shown] == []
    assert secrets["fleet_id"] not in shown


def assert_well_made(fleet: DockerFleet) -> None:
    """Containers have limits and no privileges, never restart by themselves, and use no Docker volume."""
    for container in fleet.containers().values():
        host = container["HostConfig"]
        assert host["RestartPolicy"]["Name"] == "no"
        assert host["ReadonlyRootfs"]
        assert host["CapDrop"] == ["ALL"]
        assert host["Memory"] >= 128 * 1024 * 1024
        assert host["LogConfig"]["Config"] == {"max-file": "3", "max-size": "10m"}
        assert [mount["Type"] for mount in container["Mounts"]] == ["bind"]
        published = [one for ports in host["PortBindings"].values() for one in ports]
        assert {one["HostIp"] for one in published} == {"127.0.0.1"}


def test_health_is_told_without_a_secret(shared: DockerFleet) -> None:
    for container in shared.containers().values():
        check = container["Config"]["Healthcheck"]["Test"][1]
        run("docker", "exec", container["Id"], "sh", "-c", check)
        run("docker", "exec", container["Id"], "sh", "-c", check.replace("-cli", "-no-such-cli"))

    def is_healthy() -> bool:
        return {one["State"]["Health"]["Status"] for one in shared.containers().values()} == {"healthy"}

    wait_for(is_healthy, "Docker calls every node healthy")


def test_it_is_an_ordinary_compose_project(shared: DockerFleet) -> None:
    named = run("docker", "compose", "--project-name", shared.project, "ps", "--format", "{{.Service}}")
    assert sorted(named.split()) == sorted(shared.containers())
    file = str(shared.root / "compose.yaml")
    # `docker compose` would recreate no container.
    assert "Recreate" not in run("docker", "compose", "--file", file, "--dry-run", "up", "--no-start")


def test_the_rendered_file_is_what_is_deployed(shared: DockerFleet) -> None:
    text = shared.run("render", "compose", DOCKER_HOST="unix:///nonexistent").out
    told = shared.run("render", "compose", "-o", "json").json()
    assert (told["schema"], told["file"]) == ("rlctl.render-compose/1", text)
    assert (shared.root / "compose.yaml").read_text(encoding="utf-8") == text
    network = shared.document["docker"]["subnet"].removesuffix("0/24")
    assert all(node["host"].startswith(network) for node in shared.status()["nodes"])


def test_clients_go_where_the_nodes_are_reached(shared: DockerFleet) -> None:
    """Clients use the published ports, as with an engine in a virtual machine."""
    access = shared.access("limiter")
    published = {named: f"127.0.0.1:{named.partition(':')[2]}" for named in access["nodes"]}
    rule = SlidingCounter(limit=1000, window_ms=60_000)
    with Limiter.connect(
        access | {"nodes": list(published.values()), "remap": published}, policy="closed", budget_ms=2_000
    ) as limiter:
        answers = [limiter.decide(rule, f"user-{number}", rule_id="remap") for number in range(20)]
    assert {answer.source for answer in answers} == {"redis"}
    nowhere = dict.fromkeys(published, "127.0.0.1:9")
    with Limiter.connect(access | {"remap": nowhere}, policy="closed", budget_ms=500) as limiter:
        assert limiter.decide(rule, "user-0", rule_id="remap").source == "closed"


def test_one_file_moves_between_local_and_docker(make_fleet: MakeFleet, image: str) -> None:
    fleet = make_fleet(document("sentinel", image) | {"target": "local"})
    shapes = []
    for target in ("local", "docker"):
        fleet.document["target"] = target
        fleet.write()
        fleet.deploy()
        status = fleet.status()
        shapes.append([(node["name"], node["role"], node["port"]) for node in status["nodes"]])
        other = fleet.document | {"target": {"local": "docker", "docker": "local"}[target]}
        fleet.file.write_text(json.dumps(other), encoding="utf-8")
        assert "is deployed with target" in fleet.run("deploy", "--yes", expect=8).err
        fleet.write()
        fleet.run("destroy", "--confirm", fleet.name)
    assert shapes[0] == shapes[1]


def test_a_home_is_the_same_in_every_spelling(make_fleet: MakeFleet, image: str) -> None:
    fleet = make_fleet(document("sentinel", image))
    fleet.home.mkdir()
    link = fleet.folder / "link"
    link.symlink_to(fleet.home)
    around = f"{fleet.home}/../{fleet.home.name}"
    fleet.run("deploy", "--yes", RLCTL_HOME=around)
    for spelling in (around, str(link)):
        fleet.run("deploy", "--dry-run", RLCTL_HOME=spelling)
    fleet.run("destroy", "--confirm", fleet.name, RLCTL_HOME=str(link))
    assert (fleet.containers(), fleet.networks(), list((fleet.home / "fleets").iterdir())) == ({}, [], [])


def test_two_fleets_side_by_side(make_fleet: MakeFleet, image: str) -> None:
    fleets = [make_fleet(document("cluster", image)) for _ in range(2)]
    commands = [fleet.spawn("deploy", "--yes") for fleet in fleets]
    assert [(command.communicate()[1], command.returncode)[1] for command in commands] == [0, 0]
    first, second = ({node["host"] for node in fleet.status()["nodes"]} for fleet in fleets)
    assert first.isdisjoint(second)
    fleets[0].run("destroy", "--confirm", fleets[0].name)
    assert fleets[1].status()["state"] == "healthy"
