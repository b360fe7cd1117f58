"""Fleets on loopback and other people's clients; both are there once for all tests of this folder."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import skip_or_fail
from tests.interop.install import NotInstalled, installed
from tests.local.driver import LocalFleet, cluster_document, sentinel_document

DOCUMENTS = {"cluster": cluster_document, "sentinel": sentinel_document}


@pytest.fixture(scope="session")
def clients() -> Path:
    """Where the clients are installed."""
    if shutil.which("node") is None:
        skip_or_fail("interop", "no node on PATH")
    try:
        return installed()
    except NotInstalled as failure:
        skip_or_fail("interop", str(failure))
        raise


@pytest.fixture(scope="session", params=DOCUMENTS)
def fleet(
    request: pytest.FixtureRequest, clients: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalFleet]:
    """A deployed fleet of each kind."""
    del clients
    made = LocalFleet(folder=tmp_path_factory.mktemp(request.param), document=DOCUMENTS[request.param]())
    made.write()
    try:
        made.deploy()
        yield made
    finally:
        made.end_all()
