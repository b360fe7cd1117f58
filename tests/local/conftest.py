"""Real servers on loopback, which end with their test."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import skip_or_fail
from tests.local.driver import LocalFleet, cluster_document, sentinel_document


@pytest.fixture(autouse=True, scope="session")
def _server_is_there() -> None:
    if not (shutil.which("redis-server") or shutil.which("valkey-server")):
        skip_or_fail("local", "neither redis-server nor valkey-server is on PATH")


@pytest.fixture
def make_fleet(tmp_path: Path) -> Iterator[Callable[[dict[str, Any]], LocalFleet]]:
    """Create folders of fleets, and end their servers by pid afterwards."""
    made: list[LocalFleet] = []

    def make(document: dict[str, Any]) -> LocalFleet:
        folder = tmp_path / f"fleet-{len(made)}"
        folder.mkdir()
        fleet = LocalFleet(folder=folder, document=document)
        fleet.write()
        made.append(fleet)
        return fleet

    yield make
    for fleet in made:
        fleet.end_all()


def _deployed(folder: Path, document: dict[str, Any]) -> Iterator[LocalFleet]:
    fleet = LocalFleet(folder=folder, document=document)
    fleet.write()
    try:
        fleet.deploy()
        yield fleet
    finally:
        fleet.end_all()


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """A deployed cluster that many tests share. A test that changes it must restore it."""
    yield from _deployed(tmp_path_factory.mktemp("shared-cluster"), cluster_document(name="shared"))


@pytest.fixture(scope="session")
def shared_sentinel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """A deployed Sentinel fleet that many tests share. A test that changes it must restore it."""
    yield from _deployed(tmp_path_factory.mktemp("shared-sentinel"), sentinel_document(name="watched"))


@pytest.fixture
def cluster(make_fleet: Callable[[dict[str, Any]], LocalFleet]) -> LocalFleet:
    """A cluster's topology, not deployed yet."""
    return make_fleet(cluster_document())


@pytest.fixture
def sentinel(make_fleet: Callable[[dict[str, Any]], LocalFleet]) -> LocalFleet:
    """A Sentinel fleet's topology, not deployed yet."""
    return make_fleet(sentinel_document())
