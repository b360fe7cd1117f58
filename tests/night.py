"""Rescue commands of an operator on a fleet of any target, with checks that they helped."""

from contextlib import closing
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from tests.driver import Fleet, Ran

# The hash tag of this key is in slot 0, which the first shard of a cluster serves.
KEY = "rl:{06S}:night"
SHARDS = {"cluster": 3, "sentinel": 1}


def member(fleet: Fleet, role: str, shard: int = 0) -> str:
    """A live node with this role in a shard."""
    nodes = fleet.status(expect=None)["nodes"]
    return next(one["name"] for one in nodes if (one["role"], one["shard"], one["alive"]) == (role, shard, True))


def primaries(fleet: Fleet) -> dict[str, bool]:
    """Whether every node that is shown as a primary accepts writes."""
    found = fleet.run("status", "--views", "-o", "json", expect=None).json()["primaries"]
    return {one["node"]: one["writable"] for one in found}


def memory(fleet: Fleet, name: str) -> int:
    with closing(fleet.connect(name)) as client:
        return int(client.config_get("maxmemory")["maxmemory"])


def in_order(fleet: Fleet) -> bool:
    """Whether a dry run of deploy plans no steps."""
    return fleet.run("deploy", "--dry-run").out == f"{fleet.name}: no change\n"


def fail_over(fleet: Fleet) -> None:
    """Run a planned failover and check that every command shows it."""
    old = member(fleet, "primary")
    with closing(fleet.connect(old)) as client:
        client.set(KEY, "kept")
    report = fleet.run("failover", "0", "--yes", "-o", "json").json()
    assert (report["mode"], report["from"], report["changed"]) == ("planned", old, True)
    assert report["lost_bytes"] in {0, None}
    assert member(fleet, "primary") == report["to"] != old
    assert primaries(fleet)[report["to"]] is True
    assert old not in primaries(fleet)
    with closing(fleet.connect(report["to"])) as client:
        assert client.get(KEY) == "kept"
        assert client.role()[0] == "master"
    assert fleet.run("status", "--wait").code == 0


def fence(fleet: Fleet) -> None:
    """Check that a fenced primary refuses writes but not reads, and accepts writes again once unfenced."""
    node = member(fleet, "primary")
    with closing(fleet.connect(node)) as client:
        client.set(KEY, "before")
        assert fleet.run("fence", node, "--confirm", fleet.name, "-o", "json").json()["fenced"] is True
        with pytest.raises(ResponseError, match="Not enough good replicas"):
            client.set(KEY, "fenced")
        assert client.get(KEY) == "before"
        assert [one["code"] for one in fleet.status(expect=11)["findings"]] == ["node-fenced"]
        assert primaries(fleet)[node] is False
        assert fleet.run("unfence", node, "--yes", "-o", "json").json()["fenced"] is False
        client.set(KEY, "after")
    assert fleet.status()["state"] == "healthy"


def resize(fleet: Fleet, size: str) -> Ran:
    """Raise maxmemory of every data node at runtime."""
    ran = fleet.run("resize", size, "--yes", "-o", "json")
    data = [one["name"] for one in fleet.status()["nodes"] if one["role"] != "sentinel"]
    assert {memory(fleet, name) for name in data} == {ran.json()["maxmemory_bytes"]}
    return ran


def flush_scripts(fleet: Fleet) -> None:
    for shard in range(SHARDS[fleet.document["kind"]]):
        with closing(fleet.connect(member(fleet, "primary", shard))) as client:
            client.script_flush()


def follow(fleet: Fleet, page: str, *words: str) -> dict[str, str]:
    """Run a runbook to its end and return the outcome of each step."""
    found = fleet.run("runbook", "run", page, "--yes", *words, "-o", "json").json()
    assert found["outcome"] == "recovered"
    assert f"# {page} " in Path(found["transcript"]).read_text(encoding="utf-8")
    assert fleet.status()["state"] == "healthy"
    return {step["id"]: step["outcome"] for step in found["steps"]}
