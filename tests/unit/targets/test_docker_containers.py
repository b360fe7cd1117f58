"""Whose a container is: what is another's stays, and is never passed over in silence."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlctl.render.compose import LABEL_NODE, container_name
from rlctl.secrets import generate
from rlctl.state.accepted import AcceptedDirectives
from rlctl.state.home import FleetFolder
from rlctl.system.clock import SystemClock
from rlctl.system.docker import Container
from rlctl.targets.docker.target import DockerTarget
from rlctl.topology.model import TargetName
from rlctl.topology.nodes import NodeName
from tests.unit.fleets import cluster

TOPOLOGY = replace(cluster(), target=TargetName.DOCKER)
NODE = NodeName("node-0")


class Engine:
    """Containers, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.there = {container_name(TOPOLOGY.name, NODE): str(folder)}

    def containers(self, _project: str) -> tuple[Container, ...]:
        return tuple(
            Container(name=name, labels={LABEL_NODE: NODE}, running=True, folders=(folder,))
            for name, folder in self.there.items()
        )

    def networks(self) -> tuple[()]:
        return ()

    def remove(self, name: str, *, patience_s: int) -> None:
        assert patience_s
        del self.there[name]


def made(home: Path, folder: Path) -> tuple[DockerTarget, Engine]:
    """A target on one home, and an engine with one container that was made from this folder."""
    engine: Any = Engine(folder)
    accepted = AcceptedDirectives(home / "accepted.json")
    secrets = generate(TOPOLOGY.name, None)
    return DockerTarget(TOPOLOGY, secrets, FleetFolder(home), (), engine, SystemClock(), accepted), engine


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "nodes" / NODE).mkdir(parents=True)
    return tmp_path / "home"


@pytest.mark.parametrize("spelling", ["home", "link", "home/../link", "home/../home"])
def test_ours_goes_however_its_folder_is_spelled(home: Path, spelling: str) -> None:
    (home.parent / "link").symlink_to(home)
    target, engine = made(home.parent / spelling, home / "nodes" / NODE)
    assert target.remove([NODE])[NODE].error is None
    assert engine.there == {}
    assert not (home / "nodes" / NODE).exists()


def test_a_container_in_the_place_of_ours_is_an_error(home: Path) -> None:
    target, engine = made(home, home.parent / "elsewhere" / NODE)
    assert "was made from another RLCTL_HOME" in str(target.remove([NODE])[NODE].error)
    assert engine.there
    assert (home / "nodes" / NODE).is_dir()


def test_another_homes_container_is_none_of_ours(home: Path) -> None:
    target, engine = made(home.parent / "empty", home / "nodes" / NODE)
    assert target.remove([NODE])[NODE].error is None
    assert engine.there
    assert target.running_without_folder() == ()
