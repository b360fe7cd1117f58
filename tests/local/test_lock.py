"""One writer at a time: on this machine by a file, between machines by a key in the fleet."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import redis
from redis import Redis, RedisCluster

from rlctl.system.process import ProcessId
from tests.local.driver import LocalFleet, wait_for
from tests.local.failures import assert_fails
from tests.local.terminal import at_terminal

KEY = "rlctl:{lock}"
# Longer than any test, because another command would take a lock that expires.
LASTS_MS = 600_000


@contextmanager
def keeper(fleet: LocalFleet) -> Iterator[Redis | RedisCluster]:
    """A client that finds the key on any primary."""
    access = fleet.access()
    make = RedisCluster if access["kind"] == "cluster" else Redis
    client = make(
        host=access["host"],
        port=access["port"],
        username=access["username"],
        password=access["password"],
        decode_responses=True,
    )
    try:
        yield client
    finally:
        client.delete(KEY)
        client.close()


def owner(**changes: object) -> str:
    somebody = {
        "owner": "ada",
        "host": "elsewhere.example",
        "pid": 4711,
        "started": time.time() - 60,
        "command": "deploy",
        "since": time.time() - 5,
    }
    return json.dumps(somebody | changes)


def lock_file(fleet: LocalFleet) -> str:
    path = fleet.home / "locks" / f"{fleet.name}.lock"
    return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_a_lock_of_another_host(kind: str, request: pytest.FixtureRequest) -> None:
    fleet: LocalFleet = request.getfixturevalue(f"shared_{kind}")
    with keeper(fleet) as client:
        client.set(KEY, owner(), px=LASTS_MS)
        says = "locked by ada@elsewhere.example, pid 4711, `rlctl deploy`, for "
        assert_fails(fleet, "deploy", "--yes", code=8, name="lock-held", says=says)
        assert_fails(fleet, "destroy", "--confirm", fleet.name, code=8, name="lock-held", says=says)
        assert "unlock" in fleet.run("deploy", "--yes", expect=8).err
        assert fleet.status()["state"] == "healthy"
        assert_fails(fleet, "deploy", "--yes", "--wait", "--timeout", "300ms", code=7, name="timeout", says=says)
        assert json.loads(client.get(KEY))["owner"] == "ada"


def test_waiting_ends_with_the_lock(shared_cluster: LocalFleet) -> None:
    with keeper(shared_cluster) as client:
        client.set(KEY, owner(), px=LASTS_MS)
        process = shared_cluster.spawn("deploy", "--yes", "--wait")
        try:
            assert process.stderr is not None
            assert process.stderr.readline() == "waiting for the fleet's lock\n"
            client.delete(KEY)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, err
    assert "nothing to do" in out


def test_ctrl_c_ends_the_waiting(shared_cluster: LocalFleet) -> None:
    with keeper(shared_cluster) as client:
        client.set(KEY, owner(), px=LASTS_MS)
        process = shared_cluster.spawn("deploy", "--yes", "--wait")
        try:
            assert process.stderr is not None
            process.stderr.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 130
        assert out == ""
        assert "Traceback" not in err
        assert json.loads(client.get(KEY))["owner"] == "ada"


def test_unlock_shows_refuses_and_breaks(shared_cluster: LocalFleet) -> None:
    with keeper(shared_cluster) as client:
        client.set(KEY, owner(), px=LASTS_MS)
        ran = shared_cluster.run("unlock", expect=9)
        assert "locked by ada@elsewhere.example, pid 4711" in ran.err
        assert "no terminal" in ran.err
        with at_terminal(shared_cluster, "unlock") as terminal:
            terminal.read_until("[y/N]")
            terminal.answer("n")
            assert terminal.finish()[0] == 9
        assert client.exists(KEY)
        broken = shared_cluster.run("unlock", "--yes", "-o", "json").json()
        assert set(broken) == {"schema", "name", "owner", "broken"}
        assert broken["schema"] == "rlctl.unlock/1"
        assert broken["broken"]
        assert broken["owner"].startswith("ada@elsewhere.example")
        assert not client.exists(KEY)
    free = shared_cluster.run("unlock", "-o", "json").json()
    assert (free["owner"], free["broken"]) == (None, False)
    shared_cluster.deploy()


def test_a_keeper_that_refuses_writes_keeps_the_lock(shared_sentinel: LocalFleet) -> None:
    """A fenced primary refuses to release the lock. rlctl reports that, and the lock expires."""
    with keeper(shared_sentinel) as client:
        client.set(KEY, owner(), px=LASTS_MS)
        client.config_set("min-replicas-to-write", 1_000_000)
        try:
            assert_fails(shared_sentinel, "unlock", "--yes", code=8, name="refused", says="refuses to remove it")
        finally:
            client.config_set("min-replicas-to-write", 0)
        shared_sentinel.run("unlock", "--yes")


def test_a_keeper_that_dies_while_somebody_is_asked_is_named(cluster: LocalFleet) -> None:
    cluster.deploy()
    with keeper(cluster) as client:
        client.set(KEY, owner(), px=LASTS_MS)
        (name,) = keepers(cluster)
        with at_terminal(cluster, "unlock") as terminal:
            terminal.read_until("[y/N]")
            cluster.kill(name)
            terminal.answer("y")
            code, said = terminal.finish()
        assert code == 6, said
        assert "the node that stores the lock did not answer" in said
        wait_for(lambda: keepers(cluster) not in ([], [name]), "another keeper")


def test_garbage_in_the_key_is_somebody_without_a_name(shared_cluster: LocalFleet) -> None:
    with keeper(shared_cluster) as client:
        client.set(KEY, "{not json", px=LASTS_MS)
        assert_fails(shared_cluster, "deploy", "--yes", code=8, name="lock-held", says="an unknown process")
        shared_cluster.run("unlock", "--yes")
        assert not client.exists(KEY)


def test_the_key_of_a_dead_process_of_this_host_is_taken_over_at_once(shared_cluster: LocalFleet) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    dead = ProcessId.of(gone.pid)
    gone.wait()
    assert dead is not None
    with keeper(shared_cluster) as client:
        client.set(KEY, owner(host=socket.gethostname(), pid=dead.pid, started=dead.started), px=LASTS_MS)
        shared_cluster.deploy()
        assert not client.exists(KEY)
        # A pid that another process has reused is no owner either.
        client.set(KEY, owner(host=socket.gethostname(), pid=os.getpid(), started=dead.started - 3600), px=LASTS_MS)
        shared_cluster.deploy()
        mine = ProcessId.current().started
        client.set(KEY, owner(host=socket.gethostname(), pid=os.getpid(), started=mine), px=LASTS_MS)
        assert_fails(shared_cluster, "deploy", "--yes", code=8, name="lock-held", says=f"pid {os.getpid()}")


def test_the_lock_while_a_deploy_asks(shared_cluster: LocalFleet) -> None:
    drifted = shared_cluster.connect("node-2")
    drifted.config_set("maxmemory", "50mb")
    with keeper(shared_cluster) as client, at_terminal(shared_cluster, "deploy") as terminal:
        terminal.read_until("[y/N]")
        assert 0 < client.pttl(KEY) <= 30_000
        holder = json.loads(client.get(KEY))
        assert (holder["pid"], holder["host"]) == (terminal.process.pid, socket.gethostname())
        assert holder["command"] == "deploy"
        says = f"pid {terminal.process.pid}"
        assert_fails(shared_cluster, "deploy", "--yes", code=8, name="lock-held", says=says)
        assert says in shared_cluster.run("unlock", expect=9).err
        assert shared_cluster.status(expect=11)["state"] == "degraded"
        terminal.answer("y")
        assert terminal.finish()[0] == 0
        assert not client.exists(KEY)
    drifted.close()
    assert lock_file(shared_cluster) == ""


def keepers(fleet: LocalFleet) -> list[str]:
    """The primaries that hold the key."""
    count = 6 if fleet.document["kind"] == "cluster" else 3
    return [name for name in (f"node-{index}" for index in range(count)) if is_keeper(fleet, name)]


def is_keeper(fleet: LocalFleet, name: str) -> bool:
    with closing(fleet.connect(name)) as node, contextlib.suppress(redis.ConnectionError, redis.ResponseError):
        return node.info("replication")["role"] == "master" and node.exists(KEY) == 1
    return False


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_the_lock_goes_with_its_shard(kind: str, request: pytest.FixtureRequest) -> None:
    """A failover during an operation moves the key. The operation releases the lock on the new primary."""
    fleet: LocalFleet = request.getfixturevalue(kind)
    fleet.deploy()
    fleet.connect("node-2").config_set("maxmemory", "50mb")
    with at_terminal(fleet, "deploy") as terminal:
        terminal.read_until("[y/N]")
        (old,) = keepers(fleet)
        replica = fleet.connect(old).info("replication")["slave0"]["port"] - fleet.base_port
        if kind == "cluster":
            fleet.connect(f"node-{replica}").execute_command("CLUSTER", "FAILOVER")
        else:
            fleet.connect("sentinel-0").execute_command("SENTINEL", "FAILOVER", fleet.name)
        wait_for(lambda: keepers(fleet) not in ([], [old]), "another keeper")
        wait_for(lambda: not is_keeper(fleet, old), "the old keeper a replica")
        terminal.answer("n")
        assert terminal.finish()[0] == 9
        assert keepers(fleet) == []


def test_a_broken_lock_stops_its_owner_from_breaking_the_next(shared_cluster: LocalFleet) -> None:
    drifted = shared_cluster.connect("node-2")
    drifted.config_set("maxmemory", "50mb")
    with keeper(shared_cluster) as client, at_terminal(shared_cluster, "deploy") as terminal:
        terminal.read_until("[y/N]")
        shared_cluster.run("unlock", "--yes")
        client.set(KEY, owner(), px=LASTS_MS)
        terminal.answer("n")
        assert terminal.finish()[0] == 9
        assert json.loads(client.get(KEY))["owner"] == "ada"
    drifted.close()
    shared_cluster.deploy()


def test_a_second_deploy_of_a_new_fleet_is_refused_by_name(cluster: LocalFleet) -> None:
    with at_terminal(cluster, "deploy") as first:
        first.read_until("[y/N]")
        ran = cluster.run("deploy", "--yes", expect=8)
        assert re.search(rf"locked by \S+@{socket.gethostname()}, pid {first.process.pid}, `rlctl deploy`", ran.err)
        assert ran.out == ""
        held = cluster.run("unlock", "--yes", expect=8)
        assert "running process" in held.err
        first.answer("y")
        code, said = first.finish()
    assert code == 0, said
    assert "healthy after" in said
    assert cluster.status()["state"] == "healthy"
    with keeper(cluster) as client:
        assert not client.exists(KEY)
    cluster.run("destroy", "--confirm", "limiter")
    assert lock_file(cluster) == ""


def test_deploys_that_wait_for_each_other(sentinel: LocalFleet) -> None:
    """Each command acts on the state when it gets the lock, not when it began to wait."""
    running = [sentinel.spawn("deploy", "--yes", "--wait", "-o", "json") for _ in range(3)]
    try:
        ended = [process.communicate(timeout=120) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert [process.returncode for process in running] == [0, 0, 0], ended
    assert sorted(json.loads(out)["changed"] for out, _err in ended) == [False, False, True]
    assert sentinel.status()["state"] == "healthy"


def test_a_deploy_that_waited_for_a_destroy_makes_new_secrets(sentinel: LocalFleet) -> None:
    sentinel.deploy()
    old = sentinel.access()["password"]
    client = sentinel.connect("node-0")
    client.set(KEY, owner(), px=LASTS_MS)
    leaving = sentinel.spawn("destroy", "--confirm", "limiter", "--wait")
    following = None
    try:
        assert leaving.stderr is not None
        while "waiting" not in (line := leaving.stderr.readline()):
            assert line, "destroy ended without waiting"
        following = sentinel.spawn("deploy", "--yes", "--wait")
        assert following.stderr is not None
        assert following.stderr.readline() == "waiting for the fleet's lock\n"
        client.delete(KEY)
        client.close()
        leaving.communicate(timeout=120)
        assert leaving.returncode == 0
        _out, err = following.communicate(timeout=120)
        assert following.returncode == 0, err
    finally:
        for process in filter(None, (leaving, following)):
            process.kill()
            process.communicate()
    assert sentinel.status()["state"] == "healthy"
    assert sentinel.access()["password"] != old
