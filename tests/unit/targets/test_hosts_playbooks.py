from pathlib import Path

import pytest

from rlctl.errors import Refused
from rlctl.state.home import Home
from rlctl.targets.base import NO_PROGRESS_LISTENER
from rlctl.targets.hosts.playbooks import HostPlaybooks
from rlctl.topology.model import HostEntry, Kind, TargetName, Topology

FLEET = Topology(
    name="limiter", kind=Kind.CLUSTER, target=TargetName.HOSTS, hosts=(HostEntry(address="10.0.0.1", name="h1"),)
)


@pytest.mark.parametrize(
    ("home", "variables"),
    [
        pytest.param("home", {"rlctl_remove": ["{{ lookup('pipe', 'id') }}"]}, id="a folder's name that a host told"),
        pytest.param("{{ lookup('pipe', 'id') }}", {}, id="the state folder"),
    ],
)
def test_a_playbook_does_not_begin_with_what_ansible_would_run(
    tmp_path: Path, home: str, variables: dict[str, object]
) -> None:
    playbooks = HostPlaybooks(FLEET, Home(tmp_path / home), tmp_path, NO_PROGRESS_LISTENER)
    with pytest.raises(Refused, match="Ansible would run it as a template"):
        playbooks.run("destroy.yml", ["h1"], variables)
