"""Foreign processes, damaged files and full disks: rlctl names them, stops cleanly, and changes nothing of others."""

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlctl.system.process import ProcessId
from tests.conftest import skip_or_fail
from tests.local.counts import read_counts, write_counts, write_until
from tests.local.driver import PATIENCE_S, LocalFleet, cluster_document, is_gone, sentinel_document, wait_for
from tests.local.failures import assert_fails
from tests.local.servers import script
from tests.local.strangers import HOST, Foreign, foreign_server, listener

MakeFleet = Callable[[dict[str, Any]], LocalFleet]
Documents = Callable[..., dict[str, Any]]
BUS, SENTINEL = 10_000, 1_000
KINDS = pytest.mark.parametrize("document", [cluster_document, sentinel_document], ids=["cluster", "sentinel"])
PLACES = pytest.mark.parametrize(
    ("document", "offset"),
    [(cluster_document, 4), (cluster_document, BUS + 2), (sentinel_document, 1), (sentinel_document, SENTINEL + 2)],
    ids=["data", "bus", "sentinel-data", "sentinel"],
)


def assert_nothing_made(fleet: LocalFleet) -> None:
    assert fleet.processes() == []
    assert not (fleet.home / "fleets" / fleet.name).exists()


# --- strangers on a port ----------------------------------------------------------------------------------------


@PLACES
@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+OK\r\n", b"-ERR unknown command\r\n"],
    ids=["silent", "http", "says-ok", "says-error"],
)
def test_a_listener_is_named_and_refused(
    make_fleet: MakeFleet, document: Documents, offset: int, answer: bytes
) -> None:
    fleet = make_fleet(document())
    with listener(fleet.base_port + offset, answer) as stranger:
        refused = fleet.deploy(expect=8).error()
        assert "another process" in refused["message"]
        assert str(stranger.port) in refused["message"]
        assert_nothing_made(fleet)
        said = b"".join(stranger.received)
        assert b"AUTH" not in said.upper(), said
        assert set(stranger.received) <= {b"PING\r\n"}
        assert len(stranger.received) <= 1


@PLACES
def test_a_plain_redis_is_named_and_refused(
    make_fleet: MakeFleet, tmp_path: Path, document: Documents, offset: int
) -> None:
    fleet = make_fleet(document())
    with foreign_server(tmp_path / "foreign", fleet.base_port + offset) as stranger:
        stranger.call("SET", "theirs", "1")
        refused = fleet.deploy(expect=8).error()
        assert str(stranger.port) in refused["message"]
        assert_nothing_made(fleet)
        assert stranger.is_untouched
        assert stranger.call("GET", "theirs") == "1"
        commands = str(stranger.call("INFO", "commandstats"))
        assert "cmdstat_auth" not in commands


@pytest.mark.parametrize(
    ("document", "offset"),
    [(cluster_document, 4), (sentinel_document, 1), (sentinel_document, SENTINEL + 2)],
    ids=["data", "sentinel-data", "sentinel"],
)
def test_a_redis_with_a_password_is_not_guessed_at(
    make_fleet: MakeFleet, tmp_path: Path, document: Documents, offset: int
) -> None:
    """The nodes may be this fleet, deployed by another operator whose secrets are missing here: exit 4."""
    fleet = make_fleet(document())
    with foreign_server(tmp_path / "foreign", fleet.base_port + offset, password="theirs") as stranger:
        stranger.call("SET", "theirs", "1")
        refused = fleet.deploy(expect=4).error()
        assert str(stranger.port) in refused["message"]
        assert "secrets" in refused["hint"]
        assert_nothing_made(fleet)
        assert stranger.is_untouched
        assert stranger.call("GET", "theirs") == "1"


@KINDS
def test_a_stranger_took_a_dead_nodes_port(make_fleet: MakeFleet, tmp_path: Path, document: Documents) -> None:
    """The fleet exists, and another server answers instead of its node, with and without a password."""
    fleet = make_fleet(document())
    fleet.deploy()
    acked = write_counts(fleet)
    fleet.kill("node-5" if document is cluster_document else "node-2")
    port = fleet.base_port + (5 if document is cluster_document else 2)
    for password in (None, "theirs"):
        with foreign_server(tmp_path / f"foreign-{password}", port, password=password) as stranger:
            refused = fleet.deploy(expect=8).error()
            code = "node-stranger" if password is None else "node-unproven"
            assert ("another process" if password is None else "not proven") in refused["message"]
            assert str(port) in refused["message"]
            assert stranger.is_untouched
            assert code in {finding["code"] for finding in fleet.status(expect=None)["findings"]}
    fleet.deploy()
    assert read_counts(fleet, acked) == acked


NO_AUTH = b"-NOAUTH Authentication required.\r\n"
LOOKS = ("status", "deploy --yes", "doctor", "scripts status", "unlock", "rules status", "failover 2 --dry-run")


def test_a_listener_at_a_dead_nodes_port_gets_no_password(cluster: LocalFleet) -> None:
    """The listener requires a password as a node does. rlctl sends one only to a process proven to be the node."""
    cluster.deploy()
    passwords = [user.encode() for user in secrets_of(cluster)["users"].values()]
    cluster.kill("node-5")
    with listener(cluster.base_port + 5, NO_AUTH) as stranger:
        for words in LOOKS:
            cluster.run(*words.split(), expect=None)
        [finding] = [one for one in cluster.status(expect=11)["findings"] if one["code"] == "node-unproven"]
        assert finding["subject"] == "node-5"
        assert "its process is not running, and another process of user id" in finding["text"]
        assert cluster.deploy(expect=8).error()["code"] == "refused"
        said = b"".join(stranger.received)
    assert said
    assert not any(password in said for password in passwords)
    cluster.deploy()


def test_a_listener_of_another_user_gets_no_password_of_secrets_that_were_imported(
    cluster: LocalFleet, tmp_path: Path
) -> None:
    """Without a deploy from this RLCTL_HOME, the user of the listening process is the proof."""
    if os.geteuid() != 0:
        skip_or_fail("local", "a process of another user needs root")
    cluster.deploy()
    handed = tmp_path / "handed.json"
    cluster.run("secrets", "export", str(handed))
    cluster.kill("node-5")
    received = tmp_path / "received"
    argv = [sys.executable, "-c", ALIEN, str(cluster.base_port + 5), str(received)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as alien:
        try:
            assert alien.stdout is not None
            alien.stdout.readline()
            ran = cluster.run("status", expect=11, RLCTL_HOME=str(tmp_path / "other"), RLCTL_SECRETS=str(handed))
        finally:
            alien.kill()
    assert "a process of user id 65534 holds the port" in ran.out
    assert "node-5 is not proven" in ran.out
    assert b"AUTH" not in received.read_bytes()
    assert b"PING" in received.read_bytes()


# Answers as a node that requires a password, and records what it receives.
ALIEN = """
import os, socket, sys, threading
kept = open(sys.argv[2], "ab", buffering=0)
os.setuid(65534)
door = socket.socket()
door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
door.bind(("127.0.0.1", int(sys.argv[1])))
door.listen()
print("ready", flush=True)
def serve(channel):
    while data := channel.recv(4096):
        kept.write(data)
        channel.sendall(b"-NOAUTH Authentication required.\\r\\n")
while True:
    threading.Thread(target=serve, args=(door.accept()[0],), daemon=True).start()
"""


def secrets_of(fleet: LocalFleet) -> dict[str, Any]:
    path = fleet.home / "fleets" / fleet.name / "secrets.json"
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture
def foreign_nodes(tmp_path: Path, cluster: LocalFleet) -> Iterator[list[Foreign]]:
    """Three cluster nodes of another fleet on this fleet's first ports."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                foreign_server(tmp_path / f"foreign-{number}", cluster.base_port + number, "--cluster-enabled", "yes")
            )
            for number in range(3)
        ]


def test_a_foreign_cluster_is_refused_and_untouched(cluster: LocalFleet, foreign_nodes: list[Foreign]) -> None:
    where = [f"{HOST}:{node.port}" for node in foreign_nodes]
    subprocess.run(
        ["redis-cli", "--cluster", "create", *where, "--cluster-yes"],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    wait_for(
        lambda: all("cluster_state:ok" in str(node.call("CLUSTER", "INFO")) for node in foreign_nodes), "it is formed"
    )
    subprocess.run(
        ["redis-cli", "-c", "-p", str(foreign_nodes[0].port), "SET", "theirs", "1"], check=True, timeout=PATIENCE_S
    )
    assert_left_alone(cluster, foreign_nodes)
    assert sum(int(str(node.call("DBSIZE"))) for node in foreign_nodes) == 1


def test_a_half_made_cluster_is_refused_and_untouched(cluster: LocalFleet, foreign_nodes: list[Foreign]) -> None:
    foreign_nodes[0].call("CLUSTER", "ADDSLOTSRANGE", 0, 8000)
    foreign_nodes[0].call("CLUSTER", "MEET", HOST, foreign_nodes[1].port)
    wait_for(lambda: all(members(node) == members(foreign_nodes[0]) for node in foreign_nodes[:2]), "two have met")
    assert_left_alone(cluster, foreign_nodes)


def test_a_foreign_cluster_without_acl_of_ours_is_refused(make_fleet: MakeFleet, tmp_path: Path) -> None:
    """With `acl: false` no password distinguishes the fleets, but the node ids do."""
    fleet = make_fleet(cluster_document(security={"acl": False}))
    with foreign_server(tmp_path / "foreign", fleet.base_port, "--cluster-enabled", "yes") as stranger:
        refused = fleet.deploy(expect=8).error()
        assert "its node id is" in refused["message"]
        assert_nothing_made(fleet)
        assert stranger.is_untouched


@KINDS
def test_a_node_at_maxclients_is_no_stranger(make_fleet: MakeFleet, document: Documents) -> None:
    fleet = make_fleet(document())
    fleet.deploy()
    admin = fleet.connect("node-0")
    before = admin.config_get("maxclients")["maxclients"]
    admin.config_set("maxclients", int(admin.info("clients")["connected_clients"]) + 5)
    with ExitStack() as held:
        for _ in range(40):
            held.enter_context(socket.create_connection((HOST, fleet.base_port)))
        findings = fleet.run("status", "-o", "json", expect=None).json()["findings"]
        found = {one["subject"]: one["code"] for one in findings if one["subject"] == "node-0"}
        assert found == {"node-0": "node-maxclients"}
        refused = fleet.deploy(expect=8).error()
        assert "accepts no more clients (ERR max number of clients" in refused["message"]
        assert "another process" not in refused["message"]
        checks = {one["name"]: one for one in fleet.run("doctor", "-o", "json", expect=None).json()["checks"]}
        assert (checks["ports"]["severity"], "node-maxclients" in checks) == ("ok", True)
        fence = fleet.run("fence", "node-0", "--confirm", fleet.name, "-o", "json", expect=6).error()
        assert "max number of clients" in fence["message"]
    admin.config_set("maxclients", before)
    admin.close()
    wait_for(lambda: not fleet.run("status", "-o", "json", expect=None).json()["findings"], "a healthy fleet")


def test_over_tls_a_node_at_maxclients_is_no_stranger_either(make_fleet: MakeFleet) -> None:
    """The server closes the connection in the handshake. The reason is unknown, but its process runs."""
    fleet = make_fleet(cluster_document(security={"tls": True}))
    fleet.deploy()
    admin = fleet.connect("node-0")
    before = admin.config_get("maxclients")["maxclients"]
    admin.config_set("maxclients", int(admin.info("clients")["connected_clients"]) + 5)
    with ExitStack() as held:
        for _ in range(40):
            held.enter_context(socket.create_connection((HOST, fleet.base_port)))
        findings = fleet.run("status", "-o", "json", expect=None).json()["findings"]
        codes = {one["code"] for one in findings if one["subject"] == "node-0"}
        assert codes & {"node-hung", "node-down"}
        assert "node-stranger" not in codes
    admin.config_set("maxclients", before)
    admin.close()


def test_a_listener_that_says_it_is_full_is_a_stranger_where_no_node_runs(cluster: LocalFleet) -> None:
    with listener(cluster.base_port + 4, b"-ERR max number of clients reached\r\n") as stranger:
        assert "another process holds" in cluster.deploy(expect=8).error()["message"]
        assert b"AUTH" not in b"".join(stranger.received).upper()


def assert_left_alone(cluster: LocalFleet, foreign_nodes: list[Foreign]) -> None:
    before = [members(node) for node in foreign_nodes]
    refused = cluster.deploy(expect=8).error()
    for node in foreign_nodes:
        assert str(node.port) in refused["message"]
    assert_nothing_made(cluster)
    assert all(node.is_untouched for node in foreign_nodes)
    assert [members(node) for node in foreign_nodes] == before


def members(node: Foreign) -> list[tuple[str, str]]:
    lines = [line.split() for line in str(node.call("CLUSTER", "NODES")).splitlines()]
    return sorted((line[0], " ".join(line[8:])) for line in lines)


def test_another_fleet_on_the_same_ports_is_refused_and_untouched(make_fleet: MakeFleet) -> None:
    theirs = make_fleet(cluster_document())
    theirs.deploy()
    pids = sorted(process.pid for process in theirs.processes())
    ours = make_fleet({**theirs.document, "name": "another"})
    ours.deploy(expect=4)
    assert_nothing_made(ours)
    assert_fails(ours, "destroy", "--confirm", "another", code=4, name="access-denied", says=f"pid {pids[0]}")
    assert sorted(process.pid for process in theirs.processes()) == pids
    assert theirs.status()["state"] == "healthy"


# --- servers and disks that fail --------------------------------------------------------------------------------


def test_a_server_that_dies_at_once_is_told_with_its_last_words(cluster: LocalFleet, tmp_path: Path) -> None:
    broken = script(
        tmp_path / "server",
        '[ "$1" = --version ] && echo "Redis server v=7.0.15 sha=0" && exit 0\necho "Fatal: no luck today"; exit 1',
    )
    failed = cluster.run("deploy", "--yes", "-o", "json", expect=13, RLCTL_REDIS_SERVER=str(broken)).error()
    assert "ended at once: Fatal: no luck today" in failed["message"]
    assert cluster.processes() == []
    cluster.deploy()
    assert cluster.status()["state"] == "healthy"


@pytest.mark.parametrize("size_kib", [16, 60, 110])
@KINDS
def test_a_full_disk_is_told_and_space_heals_it(make_fleet: MakeFleet, document: Documents, size_kib: int) -> None:
    """RLCTL_HOME on a file system of this size, in a private mount namespace."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        skip_or_fail("local", "a small file system needs root and unshare")
    fleet = make_fleet(document())
    rlctl = shlex.join([sys.executable, "-m", "rlctl", "-f", str(fleet.file), "-o", "json"])
    home = shlex.quote(str(fleet.home))
    steps = f"""
        mkdir {home} && mount -t tmpfs -o size={size_kib}k,mode=700 none {home} || exit 99
        {rlctl} deploy --yes; echo "CODE $?" >&2
        mount -o remount,size=500m {home} || exit 99
        {rlctl} deploy --yes >/dev/null; echo "CODE $?" >&2
        {rlctl} status >/dev/null; echo "CODE $?" >&2
        {rlctl} destroy --confirm limiter >/dev/null; echo "CODE $?" >&2
    """
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", steps],
        env=fleet.env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    codes = [int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("CODE ")]
    assert codes[0] in {6, 13}, done.stderr
    assert codes[1:] == [0, 0, 0], done.stderr
    assert "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr
    assert fleet.processes() == []


# --- damaged files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["process.json", "redis.pid"])
@pytest.mark.parametrize("damage", [b"", b"\xff\xfe\x00", b'{"pid": "x", "started": []}'])
@KINDS
def test_a_damaged_process_record_hides_no_server(
    shared: Callable[[Documents], LocalFleet], document: Documents, name: str, damage: bytes
) -> None:
    fleet = shared(document)
    whole = {process.pid for process in fleet.processes()}
    record = fleet.node_folder("node-0") / name
    kept = record.read_bytes()
    record.write_bytes(damage)
    try:
        assert not fleet.deploy().json()["changed"]
    finally:
        record.write_bytes(kept)
    assert {process.pid for process in fleet.processes()} == whole


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Documents], LocalFleet]]:
    """Deployed fleets that tests of damaged records share. Each test must repair what it damaged."""
    made: dict[Documents, LocalFleet] = {}

    def get(document: Documents) -> LocalFleet:
        if document not in made:
            fleet = LocalFleet(folder=tmp_path_factory.mktemp("shared"), document=document())
            fleet.write()
            fleet.deploy()
            made[document] = fleet
        return made[document]

    yield get
    for fleet in made.values():
        fleet.end_all()


def test_destroy_ends_servers_whose_records_are_damaged(cluster: LocalFleet) -> None:
    cluster.deploy()
    (cluster.node_folder("node-0") / "process.json").write_text("{garbage", encoding="utf-8")
    (cluster.node_folder("node-1") / "redis.pid").write_bytes(b"\xff")
    for name in ("process.json", "redis.pid"):
        (cluster.node_folder("node-2") / name).unlink()
    cluster.run("destroy", "--confirm", "limiter")
    assert cluster.processes() == []


@pytest.mark.parametrize("proof", ["pid", "pid-and-start"])
def test_destroy_never_ends_a_process_that_is_not_ours(sentinel: LocalFleet, proof: str) -> None:
    """A pid that was reused or forged: rlctl does not end the process."""
    sentinel.deploy()
    sentinel.kill("node-2", "sentinel-2")
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        found = ProcessId.of(bystander.pid)
        started = found.started if found is not None and proof == "pid-and-start" else 0.0
        for name in ("node-2", "sentinel-2"):
            folder = sentinel.node_folder(name)
            record = json.dumps({"pid": bystander.pid, "started": started})
            (folder / "process.json").write_text(record, encoding="utf-8")
            (folder / "redis.pid").write_text(f"{bystander.pid}\n", encoding="utf-8")
        assert sentinel.status(expect=None)["state"] == "degraded"
        sentinel.run("destroy", "--confirm", "limiter")
        assert bystander.poll() is None
        assert sentinel.processes() == []
    finally:
        bystander.kill()
        bystander.wait(timeout=30)


def leave_a_saver(fleet: LocalFleet, name: str) -> psutil.Process:
    """Kill a server during a save: its child continues to write and would finally rename its file."""
    write_counts(fleet)
    client = fleet.connect(name)
    client.config_set("rdb-key-save-delay", 1_000_000)
    client.bgsave()
    wait_for(lambda: psutil.Process(fleet.pid(name)).children() != [], "the save begun")
    (saver,) = psutil.Process(fleet.pid(name)).children()
    fleet.kill(name)
    assert not is_gone(saver.pid)
    return saver


def test_a_dead_servers_save_goes_on_and_is_ended_with_its_node(sentinel: LocalFleet) -> None:
    sentinel.deploy()
    saver = leave_a_saver(sentinel, "node-2")
    found = sentinel.status(expect=11)["findings"]
    assert any(one["text"].startswith("node-2 is down") for one in found), found
    sentinel.deploy()
    assert is_gone(saver.pid)

    saver = leave_a_saver(sentinel, "node-2")
    sentinel.run("destroy", "--confirm", "limiter")
    assert is_gone(saver.pid)
    assert_nothing_made(sentinel)


def test_a_fleet_whose_folder_vanished_is_still_ended(cluster: LocalFleet) -> None:
    """A running node without its folder is reported, and destroy ends it, because it has an id of the fleet."""
    cluster.deploy()
    shutil.rmtree(cluster.node_folder("node-4"))
    cluster.run("destroy", "--confirm", "limiter")
    left = [process for process in psutil.process_iter() if is_at_port(process, cluster.base_port + 4)]
    for process in left:
        process.kill()
    assert left == []


def is_at_port(process: psutil.Process, port: int) -> bool:
    try:
        return any(link.laddr.port == port for link in process.net_connections(kind="tcp") if link.status == "LISTEN")
    except (psutil.Error, OSError):
        return False


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe binary \x00", b"a b c d e f g h i\nvars x\n"])
def test_a_damaged_cluster_file_is_healed(cluster: LocalFleet, damage: bytes) -> None:
    cluster.deploy()
    acked = write_counts(cluster)
    cluster.kill("node-5")
    (cluster.node_folder("node-5") / "nodes.conf").write_bytes(damage)
    assert cluster.status(expect=None)["state"] == "degraded"
    cluster.deploy()
    assert cluster.status()["state"] == "healthy"
    assert read_counts(cluster, acked) == acked


def test_a_node_that_was_given_another_identity_gets_its_own_back(cluster: LocalFleet) -> None:
    """CLUSTER RESET HARD gives a node an unknown id: deploy refuses while it runs and repairs it once it has ended."""
    cluster.deploy()
    acked = write_counts(cluster)
    client = cluster.connect("node-5")
    client.execute_command("CLUSTER", "RESET", "HARD")
    client.close()
    assert "its node id is" in cluster.deploy(expect=8).error()["message"]
    cluster.kill("node-5")
    cluster.deploy()
    assert cluster.status()["state"] == "healthy"
    assert read_counts(cluster, acked) == acked


@pytest.mark.parametrize("damage", [b"", b"sentinel myid 1234\n"])
def test_a_damaged_sentinel_file_is_healed(sentinel: LocalFleet, damage: bytes) -> None:
    sentinel.deploy()
    sentinel.kill("sentinel-1")
    (sentinel.node_folder("sentinel-1") / "sentinel.conf").write_bytes(damage)
    sentinel.deploy()
    assert sentinel.status()["state"] == "healthy"


def test_an_old_primary_without_its_table_takes_nothing_back(cluster: LocalFleet) -> None:
    """The node has keys of its old slots on disk. To claim them would replace newer counts of their new owner."""
    cluster.deploy()
    write_counts(cluster)
    cluster.kill("node-0")
    wait_for(lambda: cluster.status(expect=None)["state"] == "degraded", "node-3 has taken over")
    write_until(cluster, count=200)
    acked = write_counts(cluster)
    (cluster.node_folder("node-0") / "nodes.conf").unlink()
    cluster.deploy()
    assert cluster.status()["state"] == "healthy"
    assert read_counts(cluster, acked) == acked


def test_a_torn_journal_is_read_and_carried_on(cluster: LocalFleet) -> None:
    cluster.deploy()
    journal = cluster.home / "journal" / "limiter.jsonl"
    with journal.open("ab") as stream:
        stream.write(b'{"op":"abc","at":"2026-')
    cluster.kill("node-3")
    cluster.deploy()
    operations = cluster.run("history", "-o", "json").json()["operations"]
    assert [operation["command"] for operation in operations] == ["deploy", "deploy"]
    assert [operation["outcome"] for operation in operations] == ["done", "done"]


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b'{"version": 99}'])
@pytest.mark.parametrize("name", ["state.json", "fleets/limiter/fleet.json", "fleets/limiter/secrets.json"])
def test_damaged_state_is_named_and_nothing_is_touched(
    shared: Callable[[Documents], LocalFleet], name: str, damage: bytes
) -> None:
    fleet = shared(sentinel_document)
    path = fleet.home / name
    kept = path.read_bytes()
    pids = sorted(process.pid for process in fleet.processes())
    path.write_bytes(damage)
    try:
        for words in (("deploy", "--yes"), ("status",)):
            ran = fleet.run(*words, expect=None)
            assert ran.code in {3, 4, 8}, ran.err
            assert str(fleet.home) in ran.err
            assert "Traceback" not in ran.err
        assert path.read_bytes() == damage
        assert sorted(process.pid for process in fleet.processes()) == pids
    finally:
        path.write_bytes(kept)
    assert fleet.status()["state"] == "healthy"


# --- side by side -----------------------------------------------------------------------------------------------


def test_destroy_leaves_the_fleet_beside_it_alone(make_fleet: MakeFleet) -> None:
    first = make_fleet(sentinel_document(name="first"))
    second = make_fleet(cluster_document(name="second"))
    second.extra_env["RLCTL_HOME"] = str(first.home)
    first.deploy()
    second.deploy()
    acked = write_counts(second)
    first.run("destroy", "--confirm", "first")
    assert len(first.processes()) == 6  # the second fleet, in the same home
    assert second.status()["state"] == "healthy"
    assert read_counts(second, acked) == acked
    second.run("destroy", "--confirm", "second")
    assert first.processes() == []


def test_destroying_twice_is_fine(sentinel: LocalFleet) -> None:
    sentinel.run("destroy", "--confirm", "limiter")
    sentinel.deploy()
    sentinel.run("destroy", "--confirm", "limiter")
    sentinel.run("destroy", "--confirm", "limiter")
    assert_fails(sentinel, "destroy", "--confirm", "other", code=9, name="declined")
