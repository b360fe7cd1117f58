import json
from dataclasses import replace
from pathlib import Path

import pytest

from rlctl.errors import AccessDenied, Refused
from rlctl.operations.staging import StagingMode, stage_host
from rlctl.state.home import Home
from rlctl.topology.model import ClusterShape, HostEntry, Kind, Security, TargetName, Topology

TOPOLOGY = Topology(
    name="limiter",
    kind=Kind.CLUSTER,
    target=TargetName.HOSTS,
    hosts=tuple(HostEntry(address=f"10.0.0.{number}", name=f"h{number}") for number in (1, 2, 3)),
)


@pytest.mark.parametrize("rehearsal", [True, False])
def test_no_secrets_are_made_up_for_nodes_that_are_placed_already(tmp_path: Path, rehearsal: bool) -> None:  # noqa: FBT001
    home = Home(tmp_path / "home")
    with pytest.raises(AccessDenied, match="its secrets are not on this machine"):
        stage_host(TOPOLOGY, home, "h1", None, StagingMode(rehearsal=rehearsal, placed=True))
    assert not home.fleet("limiter").secrets.exists()


def test_no_secrets_are_made_up_while_hosts_were_not_looked_at(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    stage_host(TOPOLOGY, home, "h1", None, StagingMode(rehearsal=True, placed=False, unseen=True))
    with pytest.raises(AccessDenied, match="some hosts of fleet limiter were not read") as refused:
        stage_host(TOPOLOGY, home, "h1", None, StagingMode(rehearsal=False, placed=False, unseen=True))
    assert "without --limit" in refused.value.hint
    assert not home.fleet("limiter").secrets.exists()
    stage_host(TOPOLOGY, home, "h1", None, StagingMode(rehearsal=False, placed=False))
    assert stage_host(TOPOLOGY, home, "h1", None, StagingMode(rehearsal=False, placed=False, unseen=True)).nodes


def test_the_secrets_of_a_new_fleet_open_it_when_it_is_placed(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    stage_host(TOPOLOGY, home, "h1", None, StagingMode(rehearsal=False, placed=False))
    kept = home.fleet("limiter").secrets.read_bytes()
    assert stage_host(TOPOLOGY, home, "h1", None, StagingMode(rehearsal=False, placed=True)).nodes
    assert home.fleet("limiter").secrets.read_bytes() == kept


def test_an_edit_that_deploy_refuses_is_not_staged(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    stage_host(TOPOLOGY, home, "h1", None, StagingMode(rehearsal=False, placed=False))
    record = home.fleet("limiter").record.read_bytes()
    fewer = replace(TOPOLOGY, cluster=ClusterShape(replicas=0))
    with pytest.raises(Refused, match=r"is deployed with cluster\.replicas 1; the topology now says 0"):
        stage_host(fewer, home, "h1", None, StagingMode(rehearsal=False, placed=True))
    assert home.fleet("limiter").record.read_bytes() == record


def with_service(*services: str) -> Topology:
    return replace(TOPOLOGY, security=Security(services=services))


def test_a_new_fleet_has_the_passwords_of_its_services(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    stage_host(with_service("checkout"), home, "h1", None, StagingMode(rehearsal=False, placed=False))
    kept = json.loads(home.fleet("limiter").secrets.read_bytes())
    assert list(kept["services"]) == ["checkout"]
    stage_host(with_service("checkout"), home, "h1", None, StagingMode(rehearsal=False, placed=True))
    assert json.loads(home.fleet("limiter").secrets.read_bytes()) == kept


def test_a_playbook_adds_no_service_to_nodes_that_are_placed(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    stage_host(TOPOLOGY, home, "h1", None, StagingMode(rehearsal=False, placed=False))
    kept = home.fleet("limiter").secrets.read_bytes()
    stage_host(with_service("checkout"), home, "h1", None, StagingMode(rehearsal=True, placed=True))
    with pytest.raises(Refused, match="services without a user yet: checkout") as refused:
        stage_host(with_service("checkout"), home, "h1", None, StagingMode(rehearsal=False, placed=True))
    assert "rlctl deploy" in refused.value.hint
    assert home.fleet("limiter").secrets.read_bytes() == kept


def test_a_given_secrets_file_must_know_every_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, given = Home(tmp_path / "home"), tmp_path / "given.json"
    stage_host(TOPOLOGY, home, "h1", None, StagingMode(rehearsal=False, placed=False))
    given.write_bytes(home.fleet("limiter").secrets.read_bytes())
    monkeypatch.setenv("RLCTL_SECRETS", str(given))
    with pytest.raises(AccessDenied, match="RLCTL_SECRETS has no password of service checkout"):
        stage_host(with_service("checkout"), home, "h1", None, StagingMode(rehearsal=False, placed=False))
