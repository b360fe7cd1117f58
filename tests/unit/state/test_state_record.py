"""The record of a deployed fleet."""

from dataclasses import replace
from pathlib import Path

import pytest

from rlctl.errors import Refused
from rlctl.state.record import FleetRecord
from rlctl.topology.model import ClusterShape, DockerPlace, HostEntry, TargetName, Topology
from tests.unit.fleets import cluster, watched

LOCAL = cluster()
DOCKER = replace(LOCAL, target=TargetName.DOCKER, docker=DockerPlace(subnet="172.28.0.0/24"))
HOSTS = replace(watched(), target=TargetName.HOSTS, hosts=(HostEntry(address="10.0.0.1", name="a", zone="z"),))


@pytest.mark.parametrize("topology", [LOCAL, DOCKER, HOSTS, watched()], ids=["local", "docker", "hosts", "sentinel"])
def test_what_is_saved_is_read(topology: Topology, tmp_path: Path) -> None:
    path = tmp_path / "fleet.json"
    FleetRecord(topology=topology).save(path)
    record = FleetRecord.load(path)
    assert record == FleetRecord(topology=topology)
    assert record.refusals(topology) == ()
    [refusal] = FleetRecord(topology=LOCAL).refusals(replace(LOCAL, cluster=ClusterShape(shards=3, replicas=0)))
    assert "cluster.replicas 1; the topology now says 0" in refusal.text


def test_without_a_record_nothing_was_deployed_from_here(tmp_path: Path) -> None:
    assert FleetRecord.load(tmp_path / "fleet.json") is None


@pytest.mark.parametrize("text", ["", "{", "{}", '{"kind": "cluster"}', '{"version": 99}'])
def test_a_damaged_record_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "fleet.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Refused, match=f"{path} has no valid topology"):
        FleetRecord.load(path)


def test_directives_that_no_file_may_hold_are_not_recorded(tmp_path: Path) -> None:
    """A drill's twin has such directives."""
    topology = replace(cluster(), redis=(("cluster-allow-reads-when-down", "yes"),))
    FleetRecord(topology=topology).save(tmp_path / "fleet.json")
    assert FleetRecord.load(tmp_path / "fleet.json") == FleetRecord(topology=cluster())
