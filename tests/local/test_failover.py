"""Failovers by an operator: planned under load, forced with dead nodes, and refused by the guards."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

from rlctl.execute.lock import LOCK_KEY
from rlctl.secrets import Secret
from rlctl.system.redis import CommandFailed, Credentials, LinkFailure, NodeLink
from tests.local.driver import PATIENCE_S, LocalFleet, cluster_document, sentinel_document, wait_for
from tests.local.failures import assert_fails
from tests.local.tilt import SENTINELS, stall

KEYS = {"schema", "name", "shard", "mode", "from", "to", "changed", "lost_bytes", "behind_bytes", "elapsed_s"}
# A key in the first of three shards.
COUNTER = next(key for key in (f"rl:count:{number}" for number in range(1000)) if key_slot(key.encode()) < 5_000)
LOCKED_SHARD = key_slot(LOCK_KEY.encode()) * 3 // 16_384
# A paused write waits until the pause ends.
ANSWER_S = 30.0
LIBRARY = Path(__file__).parents[2] / "playbooks" / "library"
WARM = 200
WRITERS = 4
# Instead of 30 s; long enough to start and observe a failover on a slow machine.
TILT_MS = 15_000


@dataclass(slots=True)
class Load:
    """Send INCR to the current primary and count acknowledged and unanswered commands."""

    links: list[NodeLink]
    acked: int = 0
    unknown: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def write(self) -> None:
        turn = 0
        while not self.ended.is_set():
            try:
                self.links[turn % len(self.links)].call("INCR", COUNTER)
                self.acked += 1
            except CommandFailed:
                # A failover would close an open connection, and the next write on it would count as unknown.
                self.links[turn % len(self.links)].close()
                turn += 1
            except LinkFailure:
                self.unknown += 1
                turn += 1

    def wait_for_more(self) -> None:
        enough = self.acked + WARM
        wait_for(lambda: self.acked >= enough, "writes are acknowledged")


def link_to(fleet: LocalFleet, name: str, access: dict[str, Any]) -> NodeLink:
    login = Credentials(username=access["username"], password=Secret(access["password"]))
    return NodeLink("127.0.0.1", fleet.base_port + int(name.removeprefix("node-")), login, timeout_s=ANSWER_S)


@contextmanager
def load_on(fleet: LocalFleet, *nodes: str) -> Iterator[Load]:
    access = fleet.access()
    load = Load(links=[link_to(fleet, name, access) for name in nodes])
    writer = threading.Thread(target=load.write)
    writer.start()
    try:
        load.wait_for_more()
        yield load
        load.wait_for_more()
    finally:
        load.ended.set()
        writer.join()
        for link in load.links:
            link.close()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], LocalFleet]]:
    """Fleets that the tests of this file share, healthy at the start of each test."""
    made: dict[str, LocalFleet] = {}
    documents = {"cluster": cluster_document, "sentinel": sentinel_document}

    def get(kind: str) -> LocalFleet:
        if kind not in made:
            made[kind] = LocalFleet(folder=tmp_path_factory.mktemp(kind), document=documents[kind]())
            made[kind].write()
        made[kind].deploy()
        made[kind].run("status", "--wait")
        return made[kind]

    yield get
    for fleet in made.values():
        fleet.end_all()


def member(fleet: LocalFleet, role: str, shard: int = 0) -> str:
    return next(
        node["name"]
        for node in fleet.status(expect=None)["nodes"]
        if node["role"] == role and node["shard"] == shard and node["alive"]
    )


def value(fleet: LocalFleet, name: str) -> int:
    client = fleet.connect(name)
    try:
        if fleet.document["kind"] == "cluster":
            client.execute_command("READONLY")
        return int(client.get(COUNTER) or 0)
    finally:
        client.close()


def command(fleet: LocalFleet, name: str, *words: object) -> Any:
    client = fleet.connect(name)
    try:
        return client.execute_command(*words)
    finally:
        client.close()


def moved(fleet: LocalFleet, *words: str) -> dict[str, Any]:
    report = fleet.run("failover", *words, "-o", "json").json()
    assert set(report) == KEYS
    assert (report["schema"], report["name"], report["changed"]) == ("rlctl.failover/1", fleet.name, True)
    assert member(fleet, "primary", report["shard"]) == report["to"] != report["from"]
    return report


def last_outcome(fleet: LocalFleet) -> tuple[str, str, list[str]]:
    operation = fleet.run("history", "-o", "json").json()["operations"][-1]
    return operation["command"], operation["outcome"], [step["outcome"] for step in operation["steps"]]


def test_a_planned_failover_in_a_cluster_loses_nothing(standing: Callable[[str], LocalFleet]) -> None:
    fleet = standing("cluster")
    command(fleet, member(fleet, "primary"), "DEL", COUNTER)
    with load_on(fleet, "node-0", "node-3") as load:
        report = moved(fleet, "0", "--yes")
    assert (report["mode"], report["lost_bytes"]) == ("planned", 0)
    assert isinstance(report["behind_bytes"], int)
    assert load.acked <= value(fleet, report["to"]) <= load.acked + load.unknown
    assert last_outcome(fleet) == ("failover", "done", ["done"])
    assert fleet.run("status", "--wait").code == 0


def test_right_after_the_restart_of_its_replica(standing: Callable[[str], LocalFleet]) -> None:
    """Bus links reconnect later than the replication link. A failover before that stops writes for 5 s and fails."""
    fleet = standing("cluster")
    old, new = member(fleet, "primary"), member(fleet, "replica")
    fleet.kill(new)
    fleet.deploy()
    assert moved(fleet, "0", "--yes")["to"] == new
    assert member(fleet, "replica") == old


def test_voters_that_have_no_bus_link_to_the_replica_are_waited_for(standing: Callable[[str], LocalFleet]) -> None:
    fleet = standing("cluster")
    new = member(fleet, "replica")
    voters = [member(fleet, "primary", shard) for shard in (1, 2)]
    for voter in voters:
        command(fleet, voter, "CLUSTER", "FORGET", command(fleet, new, "CLUSTER", "MYID"))
    process = fleet.spawn("failover", "0", "--yes", "-o", "json")
    try:
        assert process.stderr is not None
        waiting = next(line for line in process.stderr if "must learn" in line)
        assert all(voter in waiting for voter in voters)
        port = fleet.base_port + int(new.removeprefix("node-"))
        for voter in voters:
            command(fleet, voter, "CLUSTER", "MEET", "127.0.0.1", port, port + 10_000)
        out, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, said
    assert json.loads(out)["to"] == new


def test_voters_that_have_just_voted_are_waited_for(make_fleet: Callable[..., LocalFleet]) -> None:
    """Nodes vote once in two node timeouts, which are longer here than the commands before."""
    fleet = make_fleet(cluster_document(cluster={"shards": 3, "replicas": 1, "node_timeout": "4s"}))
    fleet.deploy()
    first = moved(fleet, "0", "--yes")
    assert moved(fleet, "0", "--yes")["to"] == first["from"]
    assert moved(fleet, "0", "--yes")["to"] == first["to"]


def test_a_planned_failover_behind_sentinel_loses_nothing(standing: Callable[[str], LocalFleet]) -> None:
    fleet = standing("sentinel")
    command(fleet, member(fleet, "primary"), "DEL", COUNTER)
    with load_on(fleet, "node-0", "node-1", "node-2") as load:
        report = moved(fleet, "0", "--yes")
    assert (report["mode"], report["lost_bytes"]) == ("planned", 0)
    assert load.acked <= value(fleet, report["to"]) <= load.acked + load.unknown
    fleet.run("status", "--wait")
    written = value(fleet, report["to"])
    for name in ("node-0", "node-1", "node-2"):
        wait_for(lambda name=name: value(fleet, name) == written, f"{name} has all of it")


def test_a_planned_failover_behind_sentinel_answers_every_write(make_fleet: Callable[..., LocalFleet]) -> None:
    """A client whose paused write is disconnected cannot know its result. There is only one replica to try."""
    fleet = make_fleet(sentinel_document())
    fleet.document["sentinel"]["replicas"] = 1
    fleet.write()
    fleet.deploy()
    with ExitStack() as stack:
        loads = [stack.enter_context(load_on(fleet, "node-0", "node-1")) for _ in range(WRITERS)]
        report = moved(fleet, "0", "--yes")
    assert [load.unknown for load in loads] == [0] * WRITERS
    assert value(fleet, report["to"]) == sum(load.acked for load in loads)


def test_the_playbooks_fail_over_in_the_same_way(make_fleet: Callable[..., LocalFleet]) -> None:
    """Only one way is safe: behind Sentinel another one would resume writes too early and lose them."""
    fleet = make_fleet(sentinel_document())
    fleet.document["local"]["spread"] = True
    fleet.write()
    fleet.deploy()
    node = next(node for node in fleet.status()["nodes"] if node["role"] == "primary")
    called = {"ANSIBLE_MODULE_ARGS": {"command": fleet.argv(), "address": node["host"]}}
    done = subprocess.run(
        [sys.executable, str(LIBRARY / "rlctl_failover.py")],
        env=fleet.env(),
        input=json.dumps(called),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert json.loads(done.stdout)["failed_over"] == [node["id"]], done.stdout + done.stderr
    assert member(fleet, "primary") != node["name"]
    assert last_outcome(fleet) == ("failover", "done", ["done"])


def test_sentinels_that_have_just_stalled_are_waited_for(standing: Callable[[str], LocalFleet]) -> None:
    """Sentinels accept the command and do nothing for half a minute, so a pause of writes would be useless."""
    fleet = standing("sentinel")
    stall(fleet, SENTINELS, tilt_ms=TILT_MS)
    ran = fleet.run("failover", "0", "--yes", "-o", "json")
    assert "leaving TILT" in ran.err
    assert ran.json()["lost_bytes"] == 0
    fleet.run("status", "--wait")


@pytest.mark.parametrize(("kind", "shard"), [("cluster", LOCKED_SHARD), ("sentinel", 0)])
def test_repeated_it_moves_back_and_takes_the_lock_along(
    standing: Callable[[str], LocalFleet], kind: str, shard: int
) -> None:
    fleet = standing(kind)
    reports = []
    for _ in range(2):
        reports.append(moved(fleet, str(shard), "--yes"))
        assert command(fleet, reports[-1]["to"], "EXISTS", LOCK_KEY) == 0
    assert reports[1]["from"] == reports[0]["to"]
    assert [report["lost_bytes"] for report in reports] == [0, 0]


def test_a_signal_in_the_middle_loses_nothing(standing: Callable[[str], LocalFleet]) -> None:
    """Once it has begun, rlctl completes the failover with writes paused; then it stops."""
    fleet = standing("sentinel")
    old = member(fleet, "primary")
    command(fleet, old, "DEL", COUNTER)
    with load_on(fleet, "node-0", "node-1", "node-2") as load:
        process = fleet.spawn("failover", "0", "--yes")
        try:
            assert process.stderr is not None
            assert any("promotes a replica" in line for line in process.stderr)
            process.send_signal(signal.SIGINT)
            _out, said = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 130, said
    assert "stopped after the failover was started" in said
    fleet.run("status", "--wait")
    assert member(fleet, "primary") != old
    assert load.acked <= value(fleet, member(fleet, "primary")) <= load.acked + load.unknown
    assert last_outcome(fleet)[:2] == ("failover", "interrupted")


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_an_old_primary_that_cannot_follow_is_told(standing: Callable[[str], LocalFleet], kind: str) -> None:
    """The new primary rejects the old one, so the fleet is not healthy before the deadline."""
    fleet = standing(kind)
    old = member(fleet, "primary")
    with closing(fleet.connect(old)) as client:
        password = client.config_get("masterauth")["masterauth"]
        client.config_set("masterauth", "another")
        ran = fleet.run("failover", "0", "--yes", "--timeout", "2s", "-o", "json", expect=7)
    command(fleet, old, "CONFIG", "SET", "masterauth", password)
    assert ran.error()["code"] == "timeout"
    assert "`rlctl status`" in ran.error()["hint"]
    assert last_outcome(fleet)[:2] == ("failover", "timeout")


def test_the_line_for_people(standing: Callable[[str], LocalFleet]) -> None:
    fleet = standing("cluster")
    old, new = member(fleet, "primary", 1), member(fleet, "replica", 1)
    ran = fleet.run("failover", "1", "--yes")
    assert ran.out.startswith(f"limiter: shard 1 moved from {old} to {new} (planned) in ")
    assert ran.out.endswith("no write was lost\n")


@pytest.mark.parametrize(("kind", "words"), [("cluster", ()), ("cluster", ("--force",)), ("sentinel", ())])
def test_a_dry_run_changes_nothing(standing: Callable[[str], LocalFleet], kind: str, words: tuple[str, ...]) -> None:
    fleet = standing(kind)
    old, operations = member(fleet, "primary"), len(fleet.run("history", "-o", "json").json()["operations"])
    report = fleet.run("failover", "0", *words, "--dry-run", "-o", "json", expect=10).json()
    assert set(report) == KEYS
    assert (report["from"], report["changed"], report["elapsed_s"]) == (old, False, 0.0)
    text = fleet.run("failover", "0", *words, "--dry-run", expect=10).out
    assert text.startswith(f"{report['to']}: take over shard 0 from {old} ")
    assert ("LOSS: " in text) == bool(words)
    assert member(fleet, "primary") == old
    assert len(fleet.run("history", "-o", "json").json()["operations"]) == operations


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_by_force_while_the_primary_lives(standing: Callable[[str], LocalFleet], kind: str) -> None:
    fleet = standing(kind)
    report = moved(fleet, "0", "--force", "--confirm", "limiter")
    assert report["mode"] == "force"
    assert report["lost_bytes"] in {0, None}
    assert fleet.run("status", "--wait").code == 0


def test_by_force_past_a_dead_primary(standing: Callable[[str], LocalFleet]) -> None:
    """No automatic election happens, because the replica may not be a candidate."""
    fleet = standing("cluster")
    old, new = member(fleet, "primary"), member(fleet, "replica")
    command(fleet, new, "CONFIG", "SET", "cluster-replica-no-failover", "yes")
    fleet.kill(old)
    try:
        silent = f"{old}, the primary of shard 0, does not answer"
        assert_fails(fleet, "failover", "0", "--yes", code=8, name="refused", says=silent)
        assert "`rlctl failover 0 --force`" in fleet.run("failover", "0", "--yes", expect=8).err
        assert_fails(fleet, "failover", "0", "--force", "--yes", code=9, name="declined", says="how many is unknown")
        assert member(fleet, "replica") == new
        ran = fleet.run("failover", "0", "--force", "--confirm", "limiter", "-o", "json")
        assert (ran.json()["from"], ran.json()["to"], ran.json()["lost_bytes"]) == (old, new, None)
        assert "`rlctl deploy` starts it as a replica" in ran.err
        assert member(fleet, "primary") == new
    finally:
        command(fleet, new, "CONFIG", "SET", "cluster-replica-no-failover", "no")
    fleet.deploy()
    assert member(fleet, "replica") == old


def test_by_force_past_a_dead_primary_behind_sentinel(standing: Callable[[str], LocalFleet]) -> None:
    fleet = standing("sentinel")
    for name in ("sentinel-0", "sentinel-1", "sentinel-2"):
        # No sentinel reports the primary as down during the test.
        command(fleet, name, "SENTINEL", "SET", "limiter", "down-after-milliseconds", 600_000)
    old = member(fleet, "primary")
    fleet.kill(old)
    assert_fails(fleet, "failover", "0", "--yes", code=8, name="refused", says="does not answer")
    report = moved(fleet, "0", "--force", "--confirm", "limiter")
    assert (report["from"], report["lost_bytes"]) == (old, None)


def test_a_takeover_without_a_majority(standing: Callable[[str], LocalFleet]) -> None:
    fleet = standing("cluster")
    dead = [member(fleet, "primary", shard) for shard in (0, 1)]
    heirs = [member(fleet, "replica", shard) for shard in (0, 1)]
    # After the first takeover there is a majority again, which would elect the second new primary by itself.
    command(fleet, heirs[1], "CONFIG", "SET", "cluster-replica-no-failover", "yes")
    fleet.kill(*dead)
    assert "--takeover" in fleet.run("failover", "0", "--yes", expect=8).err
    assert_fails(fleet, "failover", "0", "--force", "--confirm", "limiter", code=8, name="refused", says="majority")
    for shard in (0, 1):
        ran = fleet.run("failover", str(shard), "--takeover", "--confirm", "limiter", "-o", "json")
        assert (ran.json()["from"], ran.json()["to"]) == (dead[shard], heirs[shard])
    command(fleet, heirs[1], "CONFIG", "SET", "cluster-replica-no-failover", "no")
    fleet.deploy()
    assert fleet.run("status", "--wait").code == 0


def test_refused_without_a_replica_and_without_a_name(standing: Callable[[str], LocalFleet]) -> None:
    fleet = standing("cluster")
    fleet.kill(member(fleet, "replica"))
    assert_fails(fleet, "failover", "0", "--yes", code=8, name="refused", says="guard no-replica")
    assert_fails(fleet, "failover", "1", code=9, name="declined", says="no terminal")
    assert_fails(fleet, "failover", "1", "--force", "--confirm", "other", code=9, name="declined", says="'other'")
    assert_fails(fleet, "failover", "7", "--yes", code=5, name="not-found", says="no shard 7")
    assert_fails(fleet, "failover", "0", "--force", "--takeover", code=2, name="usage", says="exclude")


def test_refused_behind_sentinel(standing: Callable[[str], LocalFleet]) -> None:
    fleet = standing("sentinel")
    assert_fails(fleet, "failover", "0", "--takeover", "--confirm", "limiter", code=2, name="usage", says="clusters")
    fleet.kill("sentinel-1", "sentinel-2")
    wait_for(
        lambda: fleet.run("failover", "0", "--dry-run", expect=None).code == 8, "the last sentinel misses the others"
    )
    assert_fails(fleet, "failover", "0", "--yes", code=8, name="refused", says="guard no-quorum")
    assert moved(fleet, "0", "--force", "--confirm", "limiter")["mode"] == "force"
    fleet.kill("sentinel-0")
    assert_fails(
        fleet, "failover", "0", "--force", "--confirm", "limiter", code=8, name="refused", says="guard no-sentinel"
    )


def test_a_fleet_that_is_not_there(cluster: LocalFleet) -> None:
    assert_fails(cluster, "failover", "0", "--yes", code=5, name="not-found", says="not deployed")
