"""Faults on healthy fleets: deploy repairs each, and no acknowledged and replicated count is lost silently."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis.exceptions import RedisError

from tests.local.counts import read_counts, write_counts, write_until
from tests.local.driver import PATIENCE_S, LocalFleet, cluster_document, sentinel_document, wait_for

Fault = Callable[[LocalFleet], None]
Documents = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], LocalFleet]]:
    """Fleets that the tests of this file share. One that a test left broken is deployed again."""
    made: dict[tuple[str, str], LocalFleet] = {}

    def get(kind: str, mode: str) -> LocalFleet:
        fleet = made.get((kind, mode))
        if fleet is not None and fleet.run("status", "--wait", "--timeout", "20s", expect=None).code == 0:
            return fleet
        if fleet is not None:
            fleet.end_all()
        document: Documents = cluster_document if kind == "cluster" else sentinel_document
        folder = tmp_path_factory.mktemp(f"{kind}-{mode}")
        fleet = LocalFleet(folder=folder, document=document(persistence={"mode": mode}))
        fleet.write()
        fleet.deploy()
        made[kind, mode] = fleet
        return fleet

    yield get
    for fleet in made.values():
        fleet.end_all()


def named(fleet: LocalFleet, role: str, shard: int | None = 0) -> str:
    """The first node that has this role now."""
    return next(
        node["name"]
        for node in fleet.status(expect=None)["nodes"]
        if node["role"] == role and shard in {node["shard"], None}
    )


def all_named(fleet: LocalFleet, role: str) -> list[str]:
    return [node["name"] for node in fleet.status(expect=None)["nodes"] if node["role"] == role]


def wipe(fleet: LocalFleet, name: str) -> None:
    fleet.kill(name)
    shutil.rmtree(fleet.node_folder(name))


def command(fleet: LocalFleet, name: str, *words: object) -> Any:
    """One command, as the admin, on one node."""
    client = fleet.connect(name)
    try:
        return client.execute_command(*words)
    finally:
        client.close()


def codes(fleet: LocalFleet) -> set[str]:
    return {finding["code"] for finding in fleet.status(expect=None)["findings"]}


def kill_replica(fleet: LocalFleet) -> None:
    fleet.kill(named(fleet, "replica"))


def kill_primary(fleet: LocalFleet) -> None:
    fleet.kill(named(fleet, "primary"))


def kill_primary_and_a_replica(fleet: LocalFleet) -> None:
    fleet.kill(named(fleet, "primary", shard=0), all_named(fleet, "replica")[-1])


def kill_all(fleet: LocalFleet) -> None:
    fleet.kill(*(node["name"] for node in fleet.status()["nodes"]))


def wipe_replica(fleet: LocalFleet) -> None:
    wipe(fleet, named(fleet, "replica"))


def wipe_primary(fleet: LocalFleet) -> None:
    wipe(fleet, named(fleet, "primary"))


def forget_a_member(fleet: LocalFleet) -> None:
    forgotten = next(node for node in fleet.status()["nodes"] if node["role"] == "replica")
    for node in fleet.status()["nodes"]:
        if node["role"] == "primary" and node["shard"] != forgotten["shard"]:
            command(fleet, node["name"], "CLUSTER", "FORGET", forgotten["id"])


def reset_replica(fleet: LocalFleet) -> None:
    command(fleet, named(fleet, "replica"), "CLUSTER", "RESET", "SOFT")


def drop_slots(fleet: LocalFleet) -> None:
    primary = named(fleet, "primary")
    client = fleet.connect(primary)
    client.execute_command("CLUSTER", "DELSLOTSRANGE", 0, 999, 2000, 2500)
    client.close()


def lead_astray(fleet: LocalFleet) -> None:
    """A replica follows the primary of another shard, so its own shard has no replica."""
    other = next(node["id"] for node in fleet.status()["nodes"] if node["role"] == "primary" and node["shard"] == 1)
    command(fleet, named(fleet, "replica", shard=0), "CLUSTER", "REPLICATE", other)


def delete_revision(fleet: LocalFleet) -> None:
    command(fleet, named(fleet, "primary"), "ACL", "DELUSER", "rlctl-acl-revision")


def switch_the_limiter_off(fleet: LocalFleet) -> None:
    command(fleet, named(fleet, "primary"), "ACL", "SETUSER", "limiter", "off")
    [finding] = fleet.status(expect=11)["findings"]
    assert finding["code"] == "users-drift"
    assert finding["text"].startswith("limiter cannot log in on ")


def switch_the_replicas_off(fleet: LocalFleet) -> None:
    """Disable the user of replicas and disconnect their links, which cannot reconnect until it is enabled."""
    primary = named(fleet, "primary")
    command(fleet, primary, "ACL", "SETUSER", "replica", "off")
    command(fleet, primary, "CLIENT", "KILL", "TYPE", "replica")
    wait_for(lambda: "link-down" in codes(fleet), "the end of the links")
    assert "users-drift" in codes(fleet)


def change_passwords(fleet: LocalFleet) -> None:
    command(fleet, named(fleet, "replica"), "ACL", "SETUSER", "limiter", "resetpass", ">another")
    for name in all_named(fleet, "sentinel"):
        command(fleet, name, "ACL", "DELUSER", "monitor")


def change_setting(fleet: LocalFleet) -> None:
    command(fleet, named(fleet, "primary"), "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")


def chain_replicas(fleet: LocalFleet) -> None:
    first, second = (node for node in fleet.status()["nodes"] if node["role"] == "replica")
    command(fleet, second["name"], "REPLICAOF", first["host"], first["port"])


def kill_a_sentinel(fleet: LocalFleet) -> None:
    fleet.kill("sentinel-0")


def wipe_a_sentinel(fleet: LocalFleet) -> None:
    wipe(fleet, "sentinel-1")


def unwatch(fleet: LocalFleet) -> None:
    command(fleet, "sentinel-2", "SENTINEL", "REMOVE", "limiter")


def unwatch_everywhere(fleet: LocalFleet) -> None:
    for name in ("sentinel-0", "sentinel-1", "sentinel-2"):
        command(fleet, name, "SENTINEL", "REMOVE", "limiter")


def change_quorum(fleet: LocalFleet) -> None:
    command(fleet, "sentinel-0", "SENTINEL", "SET", "limiter", "quorum", 3)


def kill_all_sentinels(fleet: LocalFleet) -> None:
    fleet.kill("sentinel-0", "sentinel-1", "sentinel-2")


def kill_a_sentinel_and_the_primary(fleet: LocalFleet) -> None:
    fleet.kill("sentinel-0", named(fleet, "primary"))


ANY_KIND: tuple[Fault, ...] = (kill_replica, kill_primary, kill_primary_and_a_replica, kill_all)
WIPES: tuple[Fault, ...] = (wipe_primary, wipe_replica)
# Without persistence; a primary killed alone has a test of its own below.
EMPTY: tuple[Fault, ...] = (kill_primary_and_a_replica, wipe_primary)
USERS: tuple[Fault, ...] = (delete_revision, switch_the_limiter_off, switch_the_replicas_off, change_passwords)
CASES: tuple[tuple[str, str, Fault], ...] = (
    *(("cluster", "aof", fault) for fault in (*ANY_KIND, *WIPES, forget_a_member, reset_replica, drop_slots)),
    *(("cluster", "aof", fault) for fault in (lead_astray, *USERS, change_setting)),
    *(("cluster", "none", fault) for fault in EMPTY),
    *(("sentinel", "aof", fault) for fault in (*ANY_KIND, *WIPES, *USERS, chain_replicas)),
    *(("sentinel", "aof", fault) for fault in (kill_a_sentinel, wipe_a_sentinel, unwatch, unwatch_everywhere)),
    *(("sentinel", "aof", fault) for fault in (kill_all_sentinels, kill_a_sentinel_and_the_primary, change_quorum)),
    *(("sentinel", "none", fault) for fault in (*EMPTY, kill_a_sentinel_and_the_primary)),
)


@pytest.mark.parametrize(
    ("kind", "mode", "fault"), CASES, ids=[f"{kind}-{mode}-{fault.__name__}" for kind, mode, fault in CASES]
)
def test_deploy_heals_and_no_count_is_lost(
    standing: Callable[[str, str], LocalFleet], kind: str, mode: str, fault: Fault
) -> None:
    fleet = standing(kind, mode)
    acked = write_counts(fleet)
    fault(fleet)
    assert fleet.status(expect=None)["state"] in {"degraded", "critical"}
    repaired = fleet.deploy()
    assert read_counts(fleet, acked) == acked, repaired.err
    assert len(fleet.processes()) == 6
    # No steps and no findings: deploy ends with 0 only if the fleet is healthy.
    assert not fleet.deploy().json()["changed"]


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_a_server_that_ends_after_the_plan_was_made_is_started_too(
    standing: Callable[[str, str], LocalFleet], kind: str
) -> None:
    fleet = standing(kind, "aof")
    acked = write_counts(fleet)
    primary = named(fleet, "primary")
    fleet.kill(named(fleet, "replica"))
    with fleet.spawn("deploy", "--yes", "-o", "json") as deploy:
        try:
            assert deploy.stderr is not None
            assert any("starting 1 server" in line for line in deploy.stderr)
            fleet.kill(primary)
            out, said = deploy.communicate(timeout=PATIENCE_S)
        finally:
            deploy.kill()
    assert deploy.returncode == 0, said
    assert any(step["text"].startswith(f"{primary}: start") for step in json.loads(out)["steps"])
    assert read_counts(fleet, acked) == acked
    assert len(fleet.processes()) == 6
    assert not fleet.deploy().json()["changed"]


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
@pytest.mark.parametrize("mode", ["none", "rdb"])
def test_a_primary_without_its_counts_waits_for_its_successor(
    standing: Callable[[str, str], LocalFleet], kind: str, mode: str
) -> None:
    fleet = standing(kind, mode)
    primary = named(fleet, "primary")
    acked = write_counts(fleet)
    fleet.kill(primary)
    steps = [step["kind"] for step in fleet.deploy().json()["steps"]]
    assert steps[:2] == ["await-failover", "start-node"]
    assert next(node["role"] for node in fleet.status()["nodes"] if node["name"] == primary) == "replica"
    assert read_counts(fleet, acked) == acked


@contextmanager
def never_elected(fleet: LocalFleet, node: str) -> Iterator[None]:
    """Wait until every sentinel knows that it must not promote this replica."""
    client, port = fleet.connect(node), fleet.base_port + int(node.removeprefix("node-"))
    sentinels = [fleet.connect(f"sentinel-{number}") for number in range(3)]

    def is_known() -> bool:
        tables = [one.sentinel_slaves(fleet.name) for one in sentinels]
        return all(any(row["port"] == port and row["slave-priority"] == 0 for row in table) for table in tables)

    client.config_set("replica-priority", 0)
    try:
        wait_for(is_known, f"the sentinels knowing that {node} has priority 0")
        yield
    finally:
        client.config_set("replica-priority", 100)
        for one in (client, *sentinels):
            one.close()


@pytest.mark.parametrize("wins", [0, 1])
def test_the_old_primary_follows_the_elected_node_and_not_the_planned_one(
    standing: Callable[[str, str], LocalFleet], wins: int
) -> None:
    """The plan names one of the two replicas before the sentinels vote. In one of these cases they elect the other."""
    fleet = standing("sentinel", "none")
    primary, replicas = named(fleet, "primary"), all_named(fleet, "replica")
    winner, loser = replicas[wins], replicas[1 - wins]
    acked = write_counts(fleet)
    with never_elected(fleet, loser):
        fleet.kill(primary)
        steps = [step["text"] for step in fleet.deploy().json()["steps"]]
    assert f"{primary}: start as replica of {winner}" in steps
    assert named(fleet, "primary") == winner
    assert read_counts(fleet, acked) == acked


@pytest.mark.parametrize("mode", ["none", "aof"])
def test_an_outdated_claim_on_a_disk_ends_below_the_elected_primary_without_files(
    standing: Callable[[str, str], LocalFleet], mode: str
) -> None:
    """The paused primary never learns of the election; then its successor loses its files, and both are dead."""
    fleet = standing("cluster", mode)
    acked = write_counts(fleet)
    paused, elected = named(fleet, "primary"), named(fleet, "replica")
    os.kill(fleet.pid(paused), signal.SIGSTOP)
    wait_for(lambda: command(fleet, elected, "ROLE")[0] == "master", f"{elected} is elected")
    fleet.kill(paused, elected)
    shutil.rmtree(fleet.node_folder(elected))
    fleet.deploy("--confirm", "limiter")
    if mode == "aof":
        # The paused primary has them in its log.
        assert read_counts(fleet, acked) == acked
    assert fleet.status()["state"] == "healthy"
    assert fleet.run("deploy", "--dry-run").out == "limiter: no change\n"


@pytest.mark.parametrize(("kind", "mode"), [("cluster", "none"), ("sentinel", "none"), ("cluster", "rdb")])
def test_a_certain_loss_wants_the_name(standing: Callable[[str, str], LocalFleet], kind: str, mode: str) -> None:
    """All nodes are dead: a node starts empty, or with the data of its last save."""
    fleet = standing(kind, mode)
    write_counts(fleet)
    kill_all(fleet)
    before = files(fleet)
    refused = fleet.deploy(expect=9).error()
    assert "comes back" in refused["message"]
    assert "lost" in refused["message"]
    assert "--confirm limiter" in refused["hint"]
    assert fleet.processes() == []
    assert files(fleet) == before
    assert fleet.run("deploy", "--dry-run", expect=10).out.count("LOSS") >= 1
    fleet.run("deploy", "--confirm", "another", expect=9)
    fleet.run("deploy", "--confirm", "limiter", "-o", "json")
    assert fleet.status()["state"] == "healthy"
    write_until(fleet)


def test_two_of_three_primaries_gone_wants_the_name_to_take_over(
    standing: Callable[[str, str], LocalFleet],
) -> None:
    """There is no majority for an election: rlctl forces a takeover, and counts that only dead nodes have are lost."""
    fleet = standing("cluster", "none")
    acked = write_counts(fleet)
    fleet.kill(named(fleet, "primary", shard=0), named(fleet, "primary", shard=1))
    refused = fleet.deploy(expect=9).error()
    assert "writes that node-" in refused["message"]
    steps = fleet.run("deploy", "--confirm", "limiter", "-o", "json").json()["steps"]
    assert [step["kind"] for step in steps].count("take-over") == 2
    # With a node timeout of one second, a busy machine may report a node as failed for a moment.
    assert fleet.run("status", "--wait", "-o", "json").json()["state"] == "healthy"
    assert read_counts(fleet, acked) == acked


def test_a_wiped_primary_comes_back_from_a_dead_replica_that_has_the_log(
    standing: Callable[[str, str], LocalFleet],
) -> None:
    fleet = standing("cluster", "aof")
    acked = write_counts(fleet)
    primary, replica = named(fleet, "primary"), named(fleet, "replica")
    fleet.kill(primary, replica)
    shutil.rmtree(fleet.node_folder(primary))
    fleet.deploy(expect=9)
    fleet.run("deploy", "--confirm", "limiter")
    assert fleet.status()["state"] == "healthy"
    assert read_counts(fleet, acked) == acked


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_a_failover_is_never_undone(standing: Callable[[str, str], LocalFleet], kind: str) -> None:
    """Repeated deploys during a failover do not disturb it and do not write the servers' own files."""
    fleet = standing(kind, "aof")
    acked = write_counts(fleet)
    old, heir = named(fleet, "primary"), named(fleet, "replica")
    if kind == "cluster":
        command(fleet, heir, "CLUSTER", "FAILOVER")
    else:
        command(fleet, "sentinel-0", "SENTINEL", "FAILOVER", "limiter")
    for _ in range(3):
        # Sentinel does not reconfigure the old primary for ten seconds. To make it a replica undoes no failover.
        assert {step["node"] for step in fleet.deploy().json()["steps"]} <= {old}
    wait_for(lambda: named(fleet, "primary") != old, "another node is the primary")
    assert fleet.run("status", "--wait").code == 0
    before = files(fleet)
    assert fleet.deploy().json()["steps"] == []
    assert named(fleet, "primary") != old
    assert files(fleet) == before
    assert read_counts(fleet, acked) == acked


def files(fleet: LocalFleet) -> dict[str, str]:
    """The files that belong to the servers."""
    return {
        str(path): path.read_text(encoding="utf-8")
        for pattern in ("*/sentinel.conf", "*/node.conf")
        for path in fleet.node_folder("x").parent.glob(pattern)
    }


@pytest.mark.parametrize(("kind", "role"), [("cluster", "primary"), ("sentinel", "replica")])
def test_a_hung_node_is_told_and_left_alone(standing: Callable[[str, str], LocalFleet], kind: str, role: str) -> None:
    fleet = standing(kind, "aof")
    acked = write_counts(fleet)
    name = named(fleet, role)
    pid = fleet.pid(name)
    os.kill(pid, signal.SIGSTOP)
    try:
        findings = fleet.status(expect=None)["findings"]
        assert ("node-hung", name) in {(finding["code"], finding["subject"]) for finding in findings}
        failed = fleet.deploy("--timeout", "3s", expect=15).error()
        assert name in failed["message"]
        assert "does not answer" in failed["message"]
        assert fleet.pid(name) == pid
    finally:
        os.kill(pid, signal.SIGCONT)
    fleet.run("status", "--wait")
    assert len(fleet.processes()) == 6
    assert read_counts(fleet, acked) == acked


def test_writes_go_on_after_a_repair(standing: Callable[[str, str], LocalFleet]) -> None:
    fleet = standing("cluster", "aof")
    fleet.kill(named(fleet, "primary", shard=1), named(fleet, "replica", shard=2))
    fleet.deploy()
    acked = write_counts(fleet)
    assert read_counts(fleet, acked) == acked


def test_a_repair_needs_no_word_of_loss_where_nothing_is_lost(standing: Callable[[str, str], LocalFleet]) -> None:
    fleet = standing("sentinel", "aof")
    with pytest.raises(RedisError):
        command(fleet, named(fleet, "primary"), "SHUTDOWN", "NOSAVE")
    assert "LOSS" not in fleet.deploy().err
