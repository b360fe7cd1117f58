"""The clients that services use decide as the user `limiter` on every shard, and ask for nothing that it may not do."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rlctl.scripts.release import load_release
from tests.interop.install import CLIENTS
from tests.local.driver import PATIENCE_S, LocalFleet

PROGRAMS = {
    "redis-py": (sys.executable, "redis_py.py"),
    "coredis": (sys.executable, "coredis_client.py"),
    "ioredis": ("node", "ioredis.js"),
    "node-redis": ("node", "node-redis.js"),
    "valkey-glide": ("node", "valkey-glide.js"),
}
# coredis asks whether a cluster wants all slots served, and does without the answer.
MAY_BE_REFUSED = {"coredis": {"config|get"}}
# Spread over all shards by chance: fewer than one run in 10,000 would leave a shard of three out.
KEYS = 24
LIMIT = 2


@pytest.mark.parametrize("client", PROGRAMS)
def test_a_client_decides(fleet: LocalFleet, clients: Path, client: str) -> None:
    if client == "valkey-glide" and fleet.document["kind"] == "sentinel":
        pytest.skip("valkey-glide does not look primaries up from sentinels")
    names = [node["name"] for node in fleet.status()["nodes"]]
    for name in names:
        command(fleet, name, "ACL", "LOG", "RESET")
    keys = [f"rl:interop:{client}:{number}" for number in range(KEYS)]
    replies = decided(fleet, clients, client, [key for key in keys for _ in range(LIMIT + 1)])
    assert [reply[0] for reply in replies] == [1, 1, 0] * KEYS
    assert refused(fleet, names) <= MAY_BE_REFUSED.get(client, set())


def refused(fleet: LocalFleet, names: list[str]) -> set[str]:
    """What the servers turned down since their logs were emptied."""
    entries = [entry for name in names for entry in command(fleet, name, "ACL", "LOG")]
    return {entry["object"] for entry in entries}


def decided(fleet: LocalFleet, clients: Path, client: str, keys: list[str]) -> list[list[int]]:
    """The script's reply to one request on each of these keys."""
    script = next(script for script in load_release().scripts if script.name == "fixed_window")
    arguments = [str(LIMIT), "3600000", "1", "1790000000000000"]
    asked = {
        "access": {**fleet.access("limiter"), "kind": fleet.document["kind"]},
        "calls": [{"sha1": script.sha1, "key": key, "args": arguments} for key in keys],
    }
    program, script_file = PROGRAMS[client]
    found = {"NODE_PATH": str(clients / "node_modules"), "PYTHONPATH": str(clients / "python")}
    done = subprocess.run(
        [program, str(CLIENTS / script_file)],
        env=os.environ | (found if client != "redis-py" else {}),
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # ioredis warns there of what it was refused.
    assert "NOPERM" not in done.stderr
    return json.loads(done.stdout)


def command(fleet: LocalFleet, name: str, *words: str) -> Any:
    with closing(fleet.connect(name)) as connection:
        return connection.execute_command(*words)
