"""Hosts to deploy onto; each run has its own, and removes them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.lab.hosts import Lab, start_lab
from tests.lab.images import HOSTS
from tests.lab.session import lab_for


@pytest.fixture(scope="session", autouse=True)
def engine() -> Iterator[None]:
    """An engine answers, and it has the hosts' images."""
    with lab_for("hosts", HOSTS.values()):
        yield


@pytest.fixture(scope="session")
def make_lab(engine: None) -> Iterator[Callable[..., Lab]]:  # noqa: ARG001 - hosts run on the engine
    """Starts further hosts of the named Debian releases; they last until the tests end."""
    with ExitStack() as labs:
        yield lambda *releases: labs.enter_context(start_lab(releases))


@pytest.fixture(scope="session")
def lab_hosts(make_lab: Callable[..., Lab]) -> Lab:
    """Three Debian 12 hosts that many tests share; whoever changes them puts them back."""
    return make_lab("bookworm", "bookworm", "bookworm")
