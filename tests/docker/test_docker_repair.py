"""Deploy repairs containers that were stopped, removed, killed, or left incomplete by a killed rlctl."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.docker.driver import DockerFleet, document
from tests.kills import kill_at_journal_line, kill_in
from tests.lab.shell import run

MakeFleet = Callable[[dict[str, Any]], DockerFleet]


@pytest.fixture
def cluster(make_fleet: MakeFleet, image: str) -> DockerFleet:
    """A cluster's topology, not deployed yet."""
    return make_fleet(document("cluster", image))


@pytest.fixture
def sentinel(make_fleet: MakeFleet, image: str) -> DockerFleet:
    """A Sentinel fleet's topology, not deployed yet."""
    return make_fleet(document("sentinel", image))


def roles(fleet: DockerFleet) -> dict[str, str]:
    return {node["name"]: node["role"] for node in fleet.status(expect=None)["nodes"]}


def assert_repaired(fleet: DockerFleet) -> None:
    """One deploy makes the fleet healthy, the next has no steps, and each node has one running container."""
    fleet.deploy()
    found = fleet.containers()
    assert len(found) == 6
    assert all(one["State"]["Running"] for one in found.values())
    assert not fleet.deploy().json()["changed"]


def test_what_is_removed_or_stopped_by_hand_comes_back(sentinel: DockerFleet) -> None:
    sentinel.deploy()
    sentinel.connect("node-0").set("rl:kept", "1")
    sentinel.remove_by_hand("node-2", "sentinel-1")
    run("docker", "stop", sentinel.container("node-1"))
    status = sentinel.status(expect=11)
    assert {node["name"] for node in status["nodes"] if not node["alive"]} == {"node-1", "node-2", "sentinel-1"}
    assert_repaired(sentinel)
    run("docker", "compose", "--file", str(sentinel.root / "compose.yaml"), "down")
    sentinel.status(expect=12)
    assert_repaired(sentinel)
    assert sentinel.connect("node-0").get("rl:kept") == "1"


def test_a_network_that_was_pruned_comes_back(cluster: DockerFleet) -> None:
    cluster.deploy()
    hosts = [node["host"] for node in cluster.status()["nodes"]]
    run("docker", "stop", *(one["Id"] for one in cluster.containers().values()))
    run("docker", "network", "rm", cluster.project)
    assert_repaired(cluster)
    assert [node["host"] for node in cluster.status()["nodes"]] == hosts


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_no_primary_comes_back_empty(make_fleet: MakeFleet, image: str, kind: str) -> None:
    fleet = make_fleet(document(kind, image, persistence={"mode": "none"}))
    fleet.deploy()
    primary = fleet.connect("node-0")
    # Its slot, 157, belongs to the first shard.
    key = "rl:{user-2}"
    assert primary.set(key, "counted")
    assert primary.wait(1, 10_000) >= 1
    fleet.kill("node-0")
    fleet.deploy()
    found = roles(fleet)
    assert found["node-0"] == "replica"
    heirs = {"cluster": ["node-3"], "sentinel": ["node-1", "node-2"]}[kind]
    (heir,) = [node for node in heirs if found[node] == "primary"]
    assert fleet.connect(heir).get(key) == "counted"
    assert not fleet.deploy().json()["changed"]


@pytest.mark.parametrize("stretch", range(3))
def test_a_killed_deploy_is_carried_on(cluster: DockerFleet, stretch: int) -> None:
    kill_in(cluster, stretch, "deploy", "--yes", stretches=3)
    assert_repaired(cluster)


def test_a_deploy_that_is_killed_when_it_begins_is_carried_on(cluster: DockerFleet) -> None:
    assert kill_at_journal_line(cluster, 1, "deploy", "--yes").outcome == "unfinished"
    assert_repaired(cluster)


def test_a_destroy_that_is_killed_when_it_begins_is_carried_on(sentinel: DockerFleet) -> None:
    sentinel.deploy()
    assert kill_at_journal_line(sentinel, 1, "destroy", "--confirm", sentinel.name).outcome == "unfinished"
    assert_destroyed(sentinel)


def test_a_killed_destroy_is_carried_on(sentinel: DockerFleet) -> None:
    sentinel.deploy()
    kill_in(sentinel, 0, "destroy", "--confirm", sentinel.name, stretches=1)
    assert_destroyed(sentinel)


def assert_destroyed(fleet: DockerFleet) -> None:
    fleet.run("destroy", "--confirm", fleet.name)
    assert (fleet.containers(), fleet.networks()) == ({}, [])


def test_a_larger_maxmemory_gets_room_first(sentinel: DockerFleet) -> None:
    sentinel.deploy()
    before = {name: one["State"]["StartedAt"] for name, one in sentinel.containers().items()}
    sentinel.document["memory"] = {"maxmemory": "128mb"}
    sentinel.write()
    assert {step["kind"] for step in sentinel.deploy().json()["steps"]} == {"configure"}
    found = sentinel.containers()
    assert {name: one["State"]["StartedAt"] for name, one in found.items()} == before
    assert found["node-0"]["HostConfig"]["Memory"] == (2 * 128 + 128) * 1024 * 1024
    assert found["sentinel-0"]["HostConfig"]["Memory"] == 128 * 1024 * 1024


def test_another_image_is_told_and_refused(shared: DockerFleet, image: str) -> None:
    before, other = shared.document["docker"], "rlctl-lab/redis:another"
    shared.document["docker"] = before | {"image": other}
    shared.write()
    (code,) = {finding["code"] for finding in shared.status(expect=11)["findings"]}
    assert code == "place-drift"
    assert f"made from {image}, the topology says {other}" in shared.run("deploy", "--yes", expect=8).err
    shared.document["docker"] = before
    shared.write()
    assert not shared.deploy().json()["changed"]


def test_more_clients_than_a_container_was_made_for_are_refused(shared: DockerFleet) -> None:
    before = shared.document.get("redis", {})
    shared.document["redis"] = before | {"maxclients": 10_001}
    shared.write()
    message = shared.run("deploy", "--yes", "-o", "json", expect=8).error()["message"]
    assert "node-0: its container may open 10032 files, maxclients needs 10033" in message
    shared.document["redis"] = before
    shared.write()
    assert not shared.deploy().json()["changed"]


def test_a_folder_that_was_removed_under_its_server(sentinel: DockerFleet) -> None:
    sentinel.deploy()
    run("rm", "--recursive", sentinel.node_folder("sentinel-2"))
    sentinel.run("destroy", "--confirm", sentinel.name)
    assert (sentinel.containers(), sentinel.networks()) == ({}, [])
