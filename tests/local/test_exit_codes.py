"""Every exit code of the commands, produced by the real binary."""

import json
import os
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlctl.cli import history, main
from rlctl.errors import Exit
from tests.local.driver import LocalFleet, cluster_document, wait_for
from tests.local.failures import assert_failed_cleanly, assert_fails
from tests.local.servers import wrapper

pytestmark = pytest.mark.usefixtures("real_starts")


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """A deployed cluster that these tests damage and repair."""
    fleet = LocalFleet(folder=tmp_path_factory.mktemp("patient"), document=cluster_document(name="patient"))
    fleet.write()
    try:
        fleet.deploy()
        yield fleet
    finally:
        fleet.end_all()


def test_the_drill_codes_alone_are_not_driven_here() -> None:
    """A new code needs a test in this file."""
    driven = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 129, 130, 143}
    assert set(map(int, Exit)) - driven == {14, 16}


def test_1_a_bug_leaves_a_file_and_no_traceback(
    cluster: LocalFleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_path: Path) -> tuple[()]:
        raise ZeroDivisionError("provoked")

    monkeypatch.setattr(history, "read", broken)
    monkeypatch.setenv("RLCTL_HOME", str(cluster.home))
    assert main.run(["-f", str(cluster.file), "history"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(
        "rlctl: a bug in rlctl: ZeroDivisionError: provoked\n  hint: please report it and attach "
    )
    assert "Traceback" not in said.err
    [report] = (cluster.home / "bugs").iterdir()
    assert str(report) in said.err
    assert "Traceback" in report.read_text(encoding="utf-8")
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert stat.S_IMODE(cluster.home.stat().st_mode) == 0o700
    assert main.run(["-f", str(cluster.file), "-o", "json", "history"]) == 1
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "bug"
    for number in range(60):
        (report.parent / f"bug-20200101T000000Z-{number}.txt").touch()
    (report.parent / "mine.txt").touch()
    main.run(["-f", str(cluster.file), "history"])
    assert report.exists()
    kept = [path.name for path in report.parent.iterdir()]
    assert (len(kept), "mine.txt" in kept) == (51, True)


def test_2_usage(cluster: LocalFleet) -> None:
    assert_fails(cluster, "status", "--timeout", "soon", code=2, name="usage", says="soon")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("version: 1\nname: limiter\nkind: cluster\ntarget: local\ncolour: red\n", "topology.yaml:5"),
        ("version: 1\nname: limiter\nkind: cluster\ntarget: local\nmemory: {maxmemory: 5}\n", "topology.yaml:5"),
        ("version: 1\nname: ../limiter\nkind: cluster\ntarget: local\n", "topology.yaml:2"),
        ("", "topology.yaml:1"),
        ("- a\n", "topology.yaml:1"),
    ],
    ids=["unknown key", "no unit", "path as name", "empty", "list"],
)
def test_3_an_invalid_topology(cluster: LocalFleet, text: str, says: str) -> None:
    cluster.file.write_text(text, encoding="utf-8")
    for words in (("status",), ("deploy", "--yes")):
        assert_fails(cluster, *words, code=3, name="invalid-file", says=says)
    assert not cluster.home.exists()


@pytest.mark.parametrize("words", [("deploy", "--yes"), ("status",), ("destroy", "--confirm", "limiter")], ids=" ".join)
def test_5_no_such_file(cluster: LocalFleet, words: tuple[str, ...]) -> None:
    assert_fails(cluster, "-f", "nowhere.yaml", *words, code=5, name="not-found", says="nowhere.yaml")


@pytest.mark.parametrize(
    "words",
    [
        ("env",),
        ("secrets", "export", "out.json"),
        ("secrets", "import", "nowhere.json"),
        ("deploy", "--plan", "no.json"),
    ],
    ids=" ".join,
)
def test_5_no_such_thing(cluster: LocalFleet, words: tuple[str, ...]) -> None:
    assert_fails(cluster, *words, code=5, name="not-found")
    assert not cluster.home.exists()


def test_9_nobody_to_ask(patient: LocalFleet) -> None:
    patient.document["memory"]["maxmemory"] = "65mb"
    patient.write()
    try:
        assert_fails(patient, "deploy", code=9, name="declined", says="no terminal")
        assert patient.status(expect=11)["state"] == "degraded"
    finally:
        patient.document["memory"]["maxmemory"] = "64mb"
        patient.write()
    assert_fails(patient, "destroy", code=9, name="declined", says="lose data")
    assert_fails(patient, "destroy", "--confirm", "limiter", code=9, name="declined", says="not the fleet's name")
    assert patient.run("destroy", "--yes", expect=2).out == ""
    assert patient.status()["state"] == "healthy"


def test_9_yes_does_not_cover_what_loses_data(make_fleet: Callable[[dict[str, Any]], LocalFleet]) -> None:
    fleet = make_fleet(cluster_document(persistence={"mode": "none"}, cluster={"shards": 3, "replicas": 0}))
    fleet.deploy()
    fleet.kill("node-1")
    assert_fails(fleet, "deploy", "--yes", code=9, name="declined", says="lose data")
    assert_fails(fleet, "deploy", "--yes", "--confirm", "other", code=9, name="declined")
    assert fleet.status(expect=12)["state"] == "critical"
    assert fleet.deploy("--confirm", "limiter").json()["changed"]
    assert fleet.status()["state"] == "healthy"


def test_10_changes_are_present(cluster: LocalFleet) -> None:
    ran = cluster.run("deploy", "--dry-run", expect=10)
    assert "node-0: start" in ran.out


def test_11_a_replica_is_down_and_13_when_it_cannot_be_started(patient: LocalFleet, tmp_path: Path) -> None:
    patient.kill("node-3")
    status = patient.run("status", expect=11)
    assert status.out.startswith("degraded fleet patient")
    doctor = {check["name"]: check for check in patient.run("doctor", "-o", "json", expect=11).json()["checks"]}
    assert doctor["node-down"]["subject"] == "node-3"
    assert doctor["node-down"]["fix"] == "rlctl deploy"
    refuses = wrapper(tmp_path / "refuses", 'case "$1" in */node-3/*) echo "Fatal: on purpose" >&2; exit 1;; esac')
    patient.kill("node-4")
    ran = patient.run("-o", "json", "deploy", "--yes", expect=13, RLCTL_REDIS_SERVER=str(refuses))
    assert ran.out == ""
    error = ran.error()
    assert error["code"] == "partly-done"
    assert "1 of 4 steps done, 1 failed: node-3: start" in error["message"]
    assert "on purpose" in error["message"]
    assert "same command again" in error["hint"]
    assert_failed_cleanly(patient.run("deploy", "--yes", expect=13, RLCTL_REDIS_SERVER=str(refuses)))
    operations = patient.run("history", "-o", "json").json()["operations"]
    assert operations[-1]["outcome"] == "partly-done"
    assert patient.status(expect=11)["state"] == "degraded"
    assert [step["kind"] for step in patient.deploy().json()["steps"]] == ["start-node", "load-scripts", "load-scripts"]
    assert patient.status()["state"] == "healthy"


def test_12_slots_without_a_living_owner(patient: LocalFleet) -> None:
    owner = next(node for node in patient.status()["nodes"] if node["role"] == "primary")
    shard = [node["name"] for node in patient.status()["nodes"] if node["shard"] == owner["shard"]]
    patient.kill(*shard)
    assert patient.run("status", expect=12).out.startswith("critical fleet patient")
    findings = patient.status(expect=12)["findings"]
    assert "slots-uncovered" in {finding["code"] for finding in findings}
    patient.run("doctor", expect=12)
    patient.deploy()
    assert patient.status()["state"] == "healthy"


def test_15_done_but_not_healthy_afterwards(patient: LocalFleet) -> None:
    pid = patient.pid("node-5")
    os.kill(pid, signal.SIGSTOP)
    try:
        assert patient.status(expect=None)["state"] in {"degraded", "critical"}
        ran = patient.run("-o", "json", "deploy", "--yes", "--timeout", "1s", expect=15)
        assert ran.out == ""
        assert ran.error()["code"] == "check-failed"
        assert "node-5" in ran.error()["message"]
        assert "rlctl status" in ran.error()["hint"]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert patient.run("status", "--wait").out.startswith("healthy")


@pytest.mark.parametrize(
    ("number", "code", "name"),
    [
        (signal.SIGHUP, 129, "hung-up"),
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
    ],
    ids=["129", "130", "143"],
)
def test_signals_stop_at_a_safe_point(cluster: LocalFleet, number: signal.Signals, code: int, name: str) -> None:
    process = cluster.spawn("deploy", "--yes", "-o", "json")
    try:
        assert process.stderr is not None
        # cluster_state needs two seconds after the first start, so the signal arrives in time.
        while "node-0: start: done" not in (line := process.stderr.readline()):
            assert line, "deploy ended before its first step"
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code
    assert out == ""
    error = json.loads(err.strip().splitlines()[-1])["error"]
    assert error["code"] == name
    assert "stopped at a safe point" in error["message"]
    assert "run the same command again" in error["hint"]
    assert "Traceback" not in err
    assert cluster.run("history", "-o", "json").json()["operations"][-1]["outcome"] == name
    cluster.deploy()
    assert cluster.status()["state"] == "healthy"


def test_status_waits_and_says_when_it_was_in_vain(patient: LocalFleet) -> None:
    patient.kill("node-5")
    ran = patient.run("status", "--wait", "--timeout", "500ms", expect=11)
    assert "not healthy after 0.5 s" in ran.err
    waiting = patient.spawn("status", "--wait", "-o", "json")
    try:
        patient.deploy()
        out, err = waiting.communicate(timeout=120)
    finally:
        waiting.kill()
        waiting.wait()
    assert waiting.returncode == 0, err
    assert json.loads(out)["state"] == "healthy"


def test_damaged_state_is_named_and_is_no_bug(make_fleet: Callable[[dict[str, Any]], LocalFleet]) -> None:
    fleet = make_fleet(cluster_document())
    fleet.home.mkdir()
    marker = fleet.home / "state.json"
    for text, says in (('{"version": 99}', "state version 99"), ("{", "is damaged"), ("[]", "is damaged")):
        marker.write_text(text, encoding="utf-8")
        for words in (("deploy", "--yes"), ("status",), ("destroy", "--confirm", "limiter")):
            assert_fails(fleet, *words, code=8, name="refused", says=says)
    assert [path.name for path in fleet.home.iterdir()] == ["state.json"]
    marker.write_bytes(b"\xff\xfe")
    assert_fails(fleet, "deploy", "--yes", code=3, name="invalid-file", says="state.json:1")


def test_no_terminal_wanted_while_nothing_changes(patient: LocalFleet) -> None:
    wait_for(lambda: patient.run("status", expect=None).code == 0, "the patient's health")
    assert patient.run("deploy").out == "patient: healthy, nothing to do\n"
