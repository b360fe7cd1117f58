"""A Docker engine and images to run on it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docker.driver import DockerFleet, document
from tests.lab.images import REDIS_7, REDIS_8, VALKEY_8
from tests.lab.session import lab_for

SERVERS = {image.tag: image for image in (REDIS_7, REDIS_8, VALKEY_8)}


@pytest.fixture(scope="session", autouse=True)
def engine() -> Iterator[None]:
    """The lab with a Docker engine and the server images."""
    with lab_for("docker", SERVERS.values()):
        yield


@pytest.fixture(scope="session")
def image(engine: None) -> str:  # noqa: ARG001 - the image is there once the engine is
    """The server image of these tests; RLCTL_LAB_IMAGE selects another image of the lab."""
    return SERVERS[os.environ.get("RLCTL_LAB_IMAGE", REDIS_8.tag)].tag


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, image: str) -> Iterator[DockerFleet]:
    """A deployed cluster with TLS that many tests share. A test that changes its file must restore it."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    place = {"image": image, "subnet": f"172.31.{77 + int(worker)}.0/24"}
    fleet = DockerFleet(
        folder=tmp_path_factory.mktemp("shared"),
        document=document("cluster", image, security={"tls": True}, docker=place),
    )
    fleet.write()
    try:
        fleet.deploy()
        yield fleet
    finally:
        fleet.end_all()


@pytest.fixture
def make_fleet(tmp_path: Path) -> Iterator[Callable[[dict[str, Any]], DockerFleet]]:
    """Create folders of fleets, and remove their containers and networks at the end."""
    made: list[DockerFleet] = []

    def make(document: dict[str, Any]) -> DockerFleet:
        folder = tmp_path / f"fleet-{len(made)}"
        folder.mkdir()
        fleet = DockerFleet(folder=folder, document=document)
        fleet.write()
        made.append(fleet)
        return fleet

    yield make
    for fleet in made:
        fleet.end_all()
