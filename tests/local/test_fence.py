"""A fence on real servers refuses a limiter's decisions until `unfence` or a restart."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis.exceptions import ResponseError

from tests.local.driver import LocalFleet, cluster_document, sentinel_document, wait_for
from tests.local.failures import assert_fails

# The hash tag is in slot 0, which node-0 of a cluster serves.
KEY = "rl:{06S}:fence:gcra:1"
# The node that holds the lock: `rlctl:{lock}` is in a slot of one of the primaries.
LOCK = "rlctl:{lock}"


@pytest.fixture(scope="module", params=[cluster_document, sentinel_document], ids=["cluster", "sentinel"])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    document = request.param(consistency={"min_replicas": 1, "max_lag": "5s"})
    made = LocalFleet(folder=tmp_path_factory.mktemp("fence"), document=document)
    made.write()
    try:
        made.deploy()
        yield made
    finally:
        made.end_all()


def decide(fleet: LocalFleet) -> int:
    """A decision of a service."""
    [gcra] = [one for one in fleet.run("scripts", "list", "-o", "json").json()["scripts"] if one["name"] == "gcra"]
    client = fleet.connect("node-0", "limiter")
    try:
        return client.evalsha(gcra["sha1"], 1, KEY, 1000, 1, 1000)[0]
    finally:
        client.close()


def setting(fleet: LocalFleet, node: str = "node-0") -> str:
    client = fleet.connect(node)
    try:
        return client.config_get("min-replicas-to-write")["min-replicas-to-write"]
    finally:
        client.close()


def fence(fleet: LocalFleet, node: str = "node-0") -> dict[str, Any]:
    return fleet.run("fence", node, "--confirm", fleet.name, "-o", "json").json()


def unfence(fleet: LocalFleet, node: str = "node-0") -> dict[str, Any]:
    return fleet.run("unfence", node, "--yes", "-o", "json").json()


def test_a_fenced_primary_refuses_decisions_until_it_is_unfenced(fleet: LocalFleet) -> None:
    assert decide(fleet) == 1
    done = {"schema": "rlctl.fence/1", "name": "limiter", "node": "node-0", "fenced": True, "changed": True}
    assert fence(fleet) == done
    assert fence(fleet) == done | {"changed": False}
    with pytest.raises(ResponseError, match="Not enough good replicas"):
        decide(fleet)

    findings = fleet.status(expect=11)["findings"]
    assert [(one["code"], one["subject"]) for one in findings] == [("node-fenced", "node-0")]
    checks = fleet.run("doctor", "-o", "json", expect=None).json()["checks"]
    assert [one["fix"] for one in checks if one["name"] == "node-fenced"] == ["rlctl unfence node-0"]
    assert not [one for one in checks if one["name"] == "scripts-run" and one["subject"] == "node-0"]

    freed = done | {"schema": "rlctl.unfence/1", "fenced": False}
    assert unfence(fleet) == freed
    assert unfence(fleet) == freed | {"changed": False}
    assert setting(fleet) == "1"
    assert decide(fleet) == 1
    assert fleet.status()["state"] == "healthy"
    commands = [one["command"] for one in fleet.run("history", "-o", "json").json()["operations"]]
    assert commands[-2:] == ["fence", "unfence"]


def test_a_dry_run_says_what_would_be_and_does_nothing(fleet: LocalFleet) -> None:
    standing = {"schema": "rlctl.fence/1", "name": "limiter", "node": "node-0", "fenced": False, "changed": False}
    assert fleet.run("fence", "node-0", "--dry-run", "-o", "json", expect=10).json() == standing
    assert fleet.run("fence", "node-0", "--dry-run", expect=10).out.startswith("LOSS: node-0 refuses every write")
    assert fleet.run("unfence", "node-0", "--dry-run").out == "node-0: is not fenced, as before\n"
    assert setting(fleet) == "1"


def test_no_failover_to_a_fenced_replica(fleet: LocalFleet) -> None:
    """A fenced replica would become a primary that refuses every write."""
    replica = next(node["name"] for node in fleet.status()["nodes"] if node["role"] == "replica" and node["shard"] == 0)
    fence(fleet, replica)
    try:
        assert_fails(fleet, "failover", "0", "--yes", code=8, name="refused", says=f"{replica} is fenced")
    finally:
        unfence(fleet, replica)


def test_deploy_leaves_fences_alone(fleet: LocalFleet) -> None:
    """The fenced node also holds the lock and the history, and the deploy has a change to make."""
    primaries = [node["name"] for node in fleet.status()["nodes"] if node["role"] == "primary"]
    for node in primaries:
        fence(fleet, node)
    idle = fleet.deploy()
    assert idle.json()["changed"] is False
    assert "node-0 stays fenced: it refuses writes" in idle.err

    replica = fleet.connect(f"node-{len(primaries)}")
    replica.config_set("maxmemory", "1gb")
    replica.close()
    mended = fleet.run("deploy", "--yes")
    assert mended.out.startswith(f"limiter: healthy except for a fence on {', '.join(primaries)} after 1 steps")
    assert {setting(fleet, node) for node in primaries} == {"1000000"}
    for node in primaries:
        assert unfence(fleet, node)["changed"] is True
    assert fleet.status()["state"] == "healthy"


def test_nobody_is_locked_out_by_a_fence(fleet: LocalFleet) -> None:
    """rlctl releases the fleet's lock before the node that holds it refuses writes."""
    primaries = [node["name"] for node in fleet.status()["nodes"] if node["role"] == "primary"]
    for node in primaries:
        fence(fleet, node)
        client = fleet.connect(node)
        assert not [key for key in client.scan_iter(match="rlctl:*") if key == LOCK]
        client.close()
    for node in primaries:
        unfence(fleet, node)


def test_a_restart_lifts_a_fence_that_was_written_down(fleet: LocalFleet) -> None:
    """Sentinel makes data nodes rewrite their files, but the file that rlctl wrote takes precedence."""
    replica = next(node["name"] for node in fleet.status()["nodes"] if node["role"] == "replica")
    fence(fleet, replica)
    client = fleet.connect(replica)
    client.config_rewrite()
    client.close()
    fleet.kill(replica)
    wait_for(lambda: fleet.status(expect=None)["state"] != "healthy", "the death of the replica")
    fleet.deploy()
    assert setting(fleet, replica) == "1"
    assert fleet.status()["state"] == "healthy"


def test_what_cannot_be_fenced(fleet: LocalFleet) -> None:
    confirmed = ("--confirm", fleet.name)
    assert_fails(fleet, "fence", "node-77", *confirmed, code=5, name="not-found", says="no node 'node-77'")
    assert_fails(fleet, "fence", "node-0", code=9, name="declined", says="node-0 refuses every write until")
    assert_fails(fleet, "fence", "node-0", "--confirm", "other", code=9, name="declined", says="not the fleet's name")
    if fleet.document["kind"] == "sentinel":
        assert_fails(fleet, "fence", "sentinel-0", *confirmed, code=2, name="usage", says="sentinel-0 is a sentinel")
    fleet.kill("node-2")
    assert_fails(fleet, "fence", "node-2", *confirmed, code=6, name="unreachable", says="node-2 does not answer")
    assert_fails(fleet, "unfence", "node-2", "--yes", code=6, name="unreachable", says="node-2 does not answer")
    fence(fleet)
    assert_fails(fleet, "unfence", "node-0", code=9, name="declined", says="no terminal")
    unfence(fleet)


def test_a_fleet_that_is_not_there(cluster: LocalFleet) -> None:
    assert_fails(cluster, "fence", "node-0", "--confirm", cluster.name, code=5, name="not-found", says="not deployed")


@pytest.mark.parametrize("document", [cluster_document, sentinel_document], ids=["cluster", "sentinel"])
def test_only_the_node_itself_has_to_answer(
    make_fleet: Callable[[dict[str, Any]], LocalFleet], document: Callable[..., dict[str, Any]]
) -> None:
    """All other nodes are silent, as on the minority side of a partition."""
    fleet = make_fleet(document())
    fleet.deploy()
    own = fleet.pid("node-0")
    others = [process for process in fleet.processes() if process.pid != own]
    for process in others:
        process.suspend()
    try:
        done = fence(fleet)
        assert (done["fenced"], done["changed"]) == (True, True)
        assert setting(fleet) == "1000000"
        views = fleet.run("status", "--views", "-o", "json", expect=None).json()
        [primary] = [one for one in views["primaries"] if one["node"] == "node-0"]
        assert (primary["fenced"], primary["writable"]) == (True, False)
    finally:
        for process in others:
            process.resume()
