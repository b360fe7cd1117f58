"""Directives are tried in a container of the fleet's image that reaches nothing, keeps nothing and ends by itself."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlctl.render.trial_conf import trial_conf
from rlctl.secrets import generate
from rlctl.state.accepted import AcceptedDirectives
from rlctl.state.home import FleetFolder
from rlctl.system.clock import SystemClock
from rlctl.system.docker import DockerEngine
from rlctl.system.process import Finished
from rlctl.system.server_log import is_ready
from rlctl.targets.docker.image import start_in_image
from rlctl.targets.docker.target import DockerTarget
from rlctl.topology.model import TargetName
from tests.unit.fleets import cluster

TOPOLOGY = replace(cluster(), target=TargetName.DOCKER, redis=(("hz", "50"),))
READY = "1:M * Ready to accept connections unix"


class Calls:
    """A docker command that only notes how it is called."""

    def __init__(self) -> None:
        self.argv: list[str] = []

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
        assert timeout_s
        self.argv = list(argv)
        return Finished(code=0, output=READY, errors="")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    monkeypatch.setattr("rlctl.system.docker._check_socket", lambda _host: None)
    return Calls()


def test_the_container_is_closed_small_and_gone_afterwards(calls: Calls) -> None:
    said = start_in_image(DockerEngine(calls), TOPOLOGY, trial_conf([("hz", "50")]))
    assert is_ready(said)
    words = calls.argv[calls.argv.index("run") :]
    options, rest = words[: words.index("--entrypoint")], words[words.index("--entrypoint") :]
    assert {"--rm", "--read-only", "--memory"} <= set(options)
    assert options[options.index("--network") + 1] == "none"
    assert options[options.index("--pull") + 1] == "never"
    assert rest[1:3] == ["sh", TOPOLOGY.docker.image]
    assert rest[-2:] == ["redis-server", trial_conf([("hz", "50")])]


class Engine:
    """An image that is here, or comes when it is pulled."""

    def __init__(self, *, has_image: bool) -> None:
        self.has_image = has_image
        self.starts = 0

    def image_id(self, _image: str) -> str | None:
        return "sha256:1" if self.has_image else None

    def pull(self, _image: str) -> None:
        self.has_image = True

    def run_once(self, _image: str, *words: str, options: Sequence[str] = ()) -> Finished:
        if not options:
            return Finished(code=0, output="Redis server v=8.0.2 sha=0", errors="")
        self.starts += 1
        wrong = words[-1].startswith("hz fast")
        said = "*** FATAL CONFIG FILE ERROR ***\n>>> 'hz fast'\nno number\n" if wrong else READY
        return Finished(code=0, output=said, errors="")


def target(home: Path, engine: Any, hz: str) -> DockerTarget:
    topology = replace(TOPOLOGY, redis=(("hz", hz),))
    accepted = AcceptedDirectives(home / "accepted.json")
    return DockerTarget(
        topology, generate("limiter", None), FleetFolder(home / "f"), (), engine, SystemClock(), accepted
    )


def test_an_image_that_is_not_here_is_fetched_only_on_request(tmp_path: Path) -> None:
    engine = Engine(has_image=False)
    assert target(tmp_path, engine, "50").refused_directives() is None
    assert not engine.has_image
    assert target(tmp_path, engine, "50").refused_directives(fetch=True) == ()
    assert target(tmp_path, engine, "50").refused_directives() == ()
    assert engine.starts == 1, "remembered by the image's id"


def test_what_the_image_refuses_is_named_with_it(tmp_path: Path) -> None:
    found = target(tmp_path, Engine(has_image=True), "fast").refused_directives()
    assert found is not None
    [refusal] = found
    assert (refusal.directive, refusal.error) == ("hz", "no number")
    assert refusal.server == f"image {TOPOLOGY.docker.image} (redis 8.0.2)"
