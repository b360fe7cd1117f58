"""The journal: the user, time and outcome of each change, and no entry for commands without a change."""

import getpass
import signal
import socket
import stat
from datetime import UTC, datetime, timedelta

from tests.local.driver import LocalFleet, wait_for
from tests.local.terminal import at_terminal

KEYS = {"id", "command", "user", "host", "argv", "started", "ended", "outcome", "steps"}


def operations(fleet: LocalFleet) -> list[dict[str, object]]:
    document = fleet.run("history", "-o", "json").json()
    assert set(document) == {"schema", "name", "operations"}
    assert all(set(operation) == KEYS for operation in document["operations"])
    return document["operations"]


def test_the_life_of_a_fleet(sentinel: LocalFleet) -> None:
    assert operations(sentinel) == []
    assert "this machine has changed nothing" in sentinel.run("history").out
    # Commands that only read, are refused or are declined have no entry.
    sentinel.run("status", expect=5)
    sentinel.run("deploy", "--dry-run", expect=10)
    sentinel.run("deploy", expect=9)
    sentinel.run("destroy", expect=9)
    with at_terminal(sentinel, "deploy") as terminal:
        terminal.read_until("[y/N]")
        terminal.answer("n")
        assert terminal.finish()[0] == 9
    assert operations(sentinel) == []
    before = datetime.now(UTC) - timedelta(seconds=1)
    steps = sentinel.run("deploy", "--yes", "-o", "json").json()["steps"]
    sentinel.deploy()
    [deployed] = operations(sentinel)
    assert deployed["command"] == "deploy"
    assert (deployed["user"], deployed["host"]) == (getpass.getuser(), socket.gethostname())
    assert deployed["argv"] == ["-f", str(sentinel.file), "deploy", "--yes", "-o", "json"]
    assert deployed["outcome"] == "done"
    assert deployed["steps"] == [{"text": step["text"], "outcome": "done"} for step in steps]
    started, ended = (datetime.fromisoformat(str(deployed[key])) for key in ("started", "ended"))
    assert before <= started <= ended <= datetime.now(UTC) + timedelta(seconds=1)
    sentinel.run("destroy", "--confirm", "limiter")
    assert [operation["command"] for operation in operations(sentinel)] == ["deploy", "destroy"]
    table = sentinel.run("history").out
    assert getpass.getuser() in table
    verbose = sentinel.run("history", "-v").out
    assert "node-0: start: done" in verbose
    assert "sentinel-2: remove: done" in verbose
    assert len(sentinel.run("history", "-n", "1", "-o", "json").json()["operations"]) == 1
    journal = sentinel.home / "journal" / "limiter.jsonl"
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600


def test_a_killed_operation_is_unfinished(cluster: LocalFleet) -> None:
    journal = cluster.home / "journal" / "limiter.jsonl"
    process = cluster.spawn("deploy", "--yes")
    try:
        wait_for(lambda: journal.exists() and "node-0: start" in journal.read_text(encoding="utf-8"), "the first step")
        # The fleet is not healthy within two seconds, so the journal has no end yet.
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    [killed] = operations(cluster)
    assert (killed["outcome"], killed["ended"]) == ("unfinished", None)
    assert killed["steps"]
    assert "unfinished" in cluster.run("history").out
    cluster.deploy()
    assert [operation["outcome"] for operation in operations(cluster)] == ["unfinished", "done"]


def test_a_torn_line_hides_nothing_else(cluster: LocalFleet) -> None:
    journal = cluster.home / "journal" / "limiter.jsonl"
    journal.parent.mkdir(parents=True)
    whole = '{"op":"a1","at":"2026-01-01T00:00:00.000+00:00","event":"begin","command":"deploy","user":"ada",'
    journal.write_text(f'{whole}"host":"h","pid":1,"argv":["deploy"]}}\n{whole}', encoding="utf-8")
    [operation] = operations(cluster)
    assert (operation["user"], operation["outcome"]) == ("ada", "unfinished")
