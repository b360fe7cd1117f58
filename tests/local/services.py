"""Services in separate processes, and their answers over HTTP."""

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from tests.local.driver import PATIENCE_S, wait_for

ADDRESS = re.compile(r"running on (http://127\.0\.0\.1:\d+)")


@contextmanager
def serving(argv: Sequence[str], log: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Run a service and yield its address, which it logs. The service ends with the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(argv, env=environment, stdout=output, stderr=output)
    try:
        wait_for(lambda: ADDRESS.search(log.read_text()) is not None, f"an address in {log.name}")
        found = ADDRESS.search(log.read_text())
        assert found is not None
        yield found[1]
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def get(url: str, **headers: str) -> tuple[int, dict[str, Any], Any]:
    """Status, headers in lower case, and body."""
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  our own server
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:  # noqa: S310
            return reply.status, _lower(reply.headers), json.load(reply)
    except HTTPError as refusal:
        with refusal:
            return refusal.code, _lower(refusal.headers), json.load(refusal)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in headers.items()}
