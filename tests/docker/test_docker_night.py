"""Commands of the runbooks on containers: failover, fence, resize, and two runbooks from start to end."""

from collections.abc import Iterator

import pytest

from tests import night
from tests.docker.driver import DockerFleet, document
from tests.rotation import in_turn

MIB = 1024 * 1024


@pytest.fixture(scope="module", params=in_turn(["cluster", "sentinel"]))
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, image: str
) -> Iterator[DockerFleet]:
    """Every test finds the fleet healthy and leaves it healthy. Local tests cover the commands on both kinds."""
    made = DockerFleet(folder=tmp_path_factory.mktemp("night"), document=document(request.param, image))
    made.write()
    try:
        made.deploy()
        yield made
    finally:
        made.end_all()


def test_a_planned_failover(fleet: DockerFleet) -> None:
    night.fail_over(fleet)


def test_a_fence(fleet: DockerFleet) -> None:
    night.fence(fleet)


def test_more_memory_for_servers_and_containers(fleet: DockerFleet) -> None:
    started = {name: one["State"]["StartedAt"] for name, one in fleet.containers().items()}
    steps = night.resize(fleet, "128mb").json()["steps"]
    found = fleet.containers()
    data = [name for name in found if name.startswith("node-")]
    assert [(step["kind"], step["outcome"]) for step in steps] == [("configure", "done")] * len(data)
    assert {found[name]["HostConfig"]["Memory"] for name in data} == {(2 * 128 + 128) * MIB}
    assert {name: one["State"]["StartedAt"] for name, one in found.items()} == started
    assert night.in_order(fleet)


def test_more_than_the_machine_has_is_refused(fleet: DockerFleet) -> None:
    before = fleet.file.read_bytes()
    error = fleet.run("resize", "1024gb", "--yes", "-o", "json", expect=8).error()
    assert "no room for 1024gb a node: this machine" in error["message"]
    assert fleet.file.read_bytes() == before


def test_scripts_that_were_flushed(fleet: DockerFleet) -> None:
    night.flush_scripts(fleet)
    assert set(night.follow(fleet, "RB-09").values()) == {"done"}


def test_a_primary_whose_container_was_killed(fleet: DockerFleet) -> None:
    old = night.member(fleet, "primary")
    fleet.kill(old)
    assert night.follow(fleet, "RB-01", "--confirm", fleet.name)["bring-back"] == "done"
    assert fleet.containers()[old]["State"]["Running"]
    assert night.memory(fleet, old) == 128 * MIB
