"""One server for all limiter tests; RLCTL_REDIS_SERVER selects another program."""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.local.limiter.server import Limiter, running_limiter

# Read at import, because every test runs without the variable.
PROGRAM = os.environ.get("RLCTL_REDIS_SERVER")


@pytest.fixture(scope="session")
def limiter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Limiter]:
    program = PROGRAM or shutil.which("redis-server") or shutil.which("valkey-server")
    assert program is not None
    with running_limiter(program, tmp_path_factory.mktemp("limiter")) as limiter:
        yield limiter


@pytest.fixture
def key(limiter: Limiter) -> str:
    return limiter.fresh_key()
