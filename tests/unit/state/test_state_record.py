"""What a deployed fleet cannot change: also where its nodes are, off target local."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rlctl.errors import Refused
from rlctl.state.record import FleetRecord
from rlctl.topology.model import ClusterShape, DockerPlace, Engine, Flavor, LocalPlace, TargetName, Topology
from tests.unit.fleets import cluster

LOCAL = cluster()
DOCKER = replace(LOCAL, target=TargetName.DOCKER, docker=DockerPlace(subnet="172.28.0.0/24"))
AUTO = replace(DOCKER, docker=DockerPlace())


def saved(topology: Topology, path: Path) -> FleetRecord:
    FleetRecord.of(topology).save(path)
    record = FleetRecord.load(path)
    assert record is not None
    return record


@pytest.mark.parametrize("topology", [LOCAL, DOCKER], ids=["local", "docker"])
def test_what_is_saved_fits(topology: Topology, tmp_path: Path) -> None:
    saved(topology, tmp_path / "fleet.json").check(topology)


@pytest.mark.parametrize("new", ["places", "spread"])
def test_a_record_from_before_there_was(new: str, tmp_path: Path) -> None:
    path = tmp_path / "fleet.json"
    FleetRecord.of(LOCAL).save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    del document[new]
    path.write_text(json.dumps(document), encoding="utf-8")
    record = FleetRecord.load(path)
    assert record == FleetRecord.of(LOCAL)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (replace(DOCKER, docker=DockerPlace(subnet="172.29.0.0/24")), "node-0 at 172.28.0.2:7000"),
        (replace(DOCKER, local=LocalPlace(base_port=8000)), "local.base_port 7000"),
        (replace(DOCKER, target=TargetName.LOCAL), "target docker; the topology now says local"),
        (replace(DOCKER, engine=Engine(flavor=Flavor.VALKEY)), "engine.flavor redis"),
    ],
    ids=["subnet", "port", "target", "flavor"],
)
def test_a_moved_fleet_is_refused(changed: Topology, message: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=message):
        saved(DOCKER, tmp_path / "fleet.json").check(changed)


@pytest.mark.parametrize("spread", [True, False])
def test_addresses_cannot_change_under_a_local_fleet(*, spread: bool, tmp_path: Path) -> None:
    was, now = (replace(LOCAL, local=LocalPlace(spread=one)) for one in (not spread, spread))
    with pytest.raises(Refused, match=f"local.spread {str(not spread).lower()}; .* {str(spread).lower()}"):
        saved(was, tmp_path / "fleet.json").check(now)


def test_auto_means_where_it_is(tmp_path: Path) -> None:
    saved(DOCKER, tmp_path / "fleet.json").check(AUTO)


def test_more_nodes_do_not_move_the_others(tmp_path: Path) -> None:
    saved(DOCKER, tmp_path / "fleet.json").check(replace(DOCKER, cluster=ClusterShape(shards=3, replicas=2)))
