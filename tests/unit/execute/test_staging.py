from pathlib import Path

import pytest

from rlctl.errors import AccessDenied
from rlctl.execute.staging import Occasion, stage_host
from rlctl.state.home import Home
from rlctl.topology.model import HostEntry, Kind, TargetName, Topology

TOPOLOGY = Topology(
    name="limiter",
    kind=Kind.CLUSTER,
    target=TargetName.HOSTS,
    hosts=tuple(HostEntry(address=f"10.0.0.{number}", name=f"h{number}") for number in (1, 2, 3)),
)


@pytest.mark.parametrize("rehearsal", [True, False])
def test_no_secrets_are_made_up_for_nodes_that_are_placed_already(tmp_path: Path, rehearsal: bool) -> None:  # noqa: FBT001
    home = Home(tmp_path / "home")
    with pytest.raises(AccessDenied, match="its secrets are not here"):
        stage_host(TOPOLOGY, home, "h1", None, Occasion(rehearsal=rehearsal, placed=True))
    assert not home.fleet("limiter").secrets.exists()


def test_no_secrets_are_made_up_while_hosts_were_not_looked_at(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    stage_host(TOPOLOGY, home, "h1", None, Occasion(rehearsal=True, placed=False, unseen=True))
    with pytest.raises(AccessDenied, match="not all hosts of fleet limiter were looked at") as refused:
        stage_host(TOPOLOGY, home, "h1", None, Occasion(rehearsal=False, placed=False, unseen=True))
    assert "without --limit" in refused.value.hint
    assert not home.fleet("limiter").secrets.exists()
    stage_host(TOPOLOGY, home, "h1", None, Occasion(rehearsal=False, placed=False))
    assert stage_host(TOPOLOGY, home, "h1", None, Occasion(rehearsal=False, placed=False, unseen=True)).nodes


def test_the_secrets_of_a_new_fleet_open_it_when_it_is_placed(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    stage_host(TOPOLOGY, home, "h1", None, Occasion(rehearsal=False, placed=False))
    kept = home.fleet("limiter").secrets.read_bytes()
    assert stage_host(TOPOLOGY, home, "h1", None, Occasion(rehearsal=False, placed=True)).nodes
    assert home.fleet("limiter").secrets.read_bytes() == kept
