"""The runtime library in a real uvicorn worker, on the event loop that uvicorn chooses."""

import json
import os
import random
import sys
from pathlib import Path

import pytest

from tests.local.driver import LocalFleet
from tests.local.services import get, serving
from tests.local.test_limiter_fleets import load_scripts

ROOT = Path(__file__).parents[2]
UVICORN = [sys.executable, "-m", "uvicorn", "--host", "127.0.0.1", "--port", "0", "--app-dir", str(ROOT)]


@pytest.mark.parametrize(("options", "loop"), [((), "uvloop"), (("--loop", "asyncio"), "asyncio")])
def test_a_uvicorn_worker_limits_its_callers(
    shared_sentinel: LocalFleet, tmp_path: Path, options: tuple[str, ...], loop: str
) -> None:
    load_scripts(shared_sentinel.access())
    path = f"user-{random.getrandbits(64):x}"
    argv = [*UVICORN, *options, "tests.local.asgi_service:app"]
    environment = os.environ | {"LIMITER": json.dumps(shared_sentinel.access("limiter"))}
    with serving(argv, tmp_path / "uvicorn.log", environment) as address:
        answers = [get(f"{address}/{path}") for _ in range(5)]
    assert [status for status, _headers, _about in answers] == [200, 200, 200, 429, 429]
    assert all(about["loop"].startswith(loop) for _status, _headers, about in answers)
    assert {(about["source"], about["cause"]) for _status, _headers, about in answers} == {("redis", None)}
    assert int(answers[-1][1]["retry-after"]) > 0
