"""The runtime library inside a real uvicorn worker, on the event loop that uvicorn picks by itself."""

import json
import os
import random
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.local.driver import PATIENCE_S, LocalFleet, wait_for
from tests.local.test_limiter_fleets import load_scripts

ROOT = Path(__file__).parents[2]
ADDRESS = re.compile(r"running on (http://127\.0\.0\.1:\d+)")


@contextmanager
def serving(settings: dict[str, Any], log: Path, *options: str) -> Iterator[str]:
    """The address of a uvicorn worker in a process of its own."""
    argv = [sys.executable, "-m", "uvicorn", "--host", "127.0.0.1", "--port", "0", "--app-dir", str(ROOT), *options]
    environment = os.environ | {"LIMITER": json.dumps(settings)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*argv, "tests.local.asgi_service:app"], env=environment, stdout=output, stderr=output
        )
    try:
        wait_for(lambda: ADDRESS.search(log.read_text()) is not None, "an address in uvicorn's log")
        found = ADDRESS.search(log.read_text())
        assert found is not None
        yield found[1]
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def get(url: str) -> tuple[int, dict[str, Any], Any]:
    """Status, headers and the service's own words."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:  # noqa: S310  our own server
            return reply.status, dict(reply.headers), json.load(reply)
    except HTTPError as refusal:
        with refusal:
            return refusal.code, dict(refusal.headers), json.load(refusal)


@pytest.mark.parametrize(("options", "loop"), [((), "uvloop"), (("--loop", "asyncio"), "asyncio")])
def test_a_uvicorn_worker_limits_its_callers(
    shared_sentinel: LocalFleet, tmp_path: Path, options: tuple[str, ...], loop: str
) -> None:
    load_scripts(shared_sentinel.access())
    path = f"user-{random.getrandbits(64):x}"
    with serving(shared_sentinel.access("limiter"), tmp_path / "uvicorn.log", *options) as address:
        answers = [get(f"{address}/{path}") for _ in range(5)]
    assert [status for status, _headers, _about in answers] == [200, 200, 200, 429, 429]
    assert all(about["loop"].startswith(loop) for _status, _headers, about in answers)
    assert {(about["source"], about["cause"]) for _status, _headers, about in answers} == {("redis", None)}
    assert int(answers[-1][1]["retry-after"]) > 0
