"""Hosts for deploys. Each run has its own and removes them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.lab.hosts import Lab, start_lab
from tests.lab.images import HOSTS
from tests.lab.session import lab_for


@pytest.fixture(scope="session", autouse=True)
def engine() -> Iterator[None]:
    """The lab with an engine and the images of hosts."""
    with lab_for("hosts", HOSTS.values()):
        yield


@pytest.fixture(scope="session")
def make_lab(engine: None) -> Iterator[Callable[..., Lab]]:  # noqa: ARG001 - hosts run on the engine
    """Start hosts of the named Debian releases, which run until the tests end."""
    with ExitStack() as labs:
        yield lambda *releases: labs.enter_context(start_lab(releases))


@pytest.fixture(scope="session")
def lab_hosts(make_lab: Callable[..., Lab]) -> Lab:
    """Three Debian 12 hosts that many tests share. A test that changes them must restore them."""
    return make_lab("bookworm", "bookworm", "bookworm")
