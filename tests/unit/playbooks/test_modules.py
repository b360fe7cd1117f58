"""Ansible modules of the playbooks: what can go wrong in the middle, which no playbook shows."""

import getpass
import grp
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.playbooks.calling import Answer, Answers, Called, Failed, load, run

FILES, KERNEL, FAILOVER = load("rlctl_files"), load("rlctl_kernel"), load("rlctl_failover")
LAUNCH, FACTS, CHECK = load("rlctl_launch"), load("rlctl_host_facts"), load("rlctl_check")
DIRECTIVES = load("rlctl_directives")
PRIVATE_USERS = load("rlctl_private_users")


def called(**params: Any) -> Called:
    return Called(params=params)


def entry(path: Path, **more: Any) -> dict[str, Any]:
    own = {"owner": getpass.getuser(), "group": grp.getgrgid(os.getgid()).gr_name, "mode": "0640"}
    return {"path": str(path), **own, "content": "mine", "secret": None, "keep": None, **more}


def test_a_link_in_place_of_an_unfinished_file_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim, wanted = tmp_path / "shadow", tmp_path / "node.conf"
    victim.write_text("root's", encoding="utf-8")
    victim.chmod(0o600)

    def swap(_descriptor: int) -> None:
        unfinished = tmp_path / ".node.conf.rlctl"
        unfinished.unlink()
        unfinished.symlink_to(victim)

    monkeypatch.setattr(FILES.os, "fsync", swap)
    FILES.Placing(called()).file(entry(wanted, mode="0666"))
    assert victim.stat().st_mode & 0o777 == 0o600
    assert victim.read_text(encoding="utf-8") == "root's"


def _link(path: Path) -> None:
    path.with_name("shadow").write_text("root's", encoding="utf-8")
    path.symlink_to(path.with_name("shadow"))


def _oversized(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(64 * 1024**2)


@pytest.mark.parametrize(
    ("put", "why"),
    [
        pytest.param(_link, "it is a symbolic link", id="a link to another file"),
        pytest.param(os.mkfifo, "it is not a regular file", id="a FIFO without a writer"),
        pytest.param(os.mkdir, "it is not a regular file", id="a folder"),
        pytest.param(_oversized, "it is larger than 1 MiB", id="a file that would fill the memory"),
    ],
)
def test_root_reads_only_a_regular_file_of_a_server(tmp_path: Path, put: Callable[[Path], None], why: str) -> None:
    put(tmp_path / "nodes.conf")
    with pytest.raises(OSError, match=why):
        FILES.Placing(called()).file(entry(tmp_path / "nodes.conf", keep="myself"))


def test_a_file_has_its_mode(tmp_path: Path) -> None:
    FILES.Placing(called()).file(entry(tmp_path / "static.conf"))
    assert (tmp_path / "static.conf").stat().st_mode & 0o777 == 0o640


def test_a_folder_that_must_be_empty_stops_the_removal(tmp_path: Path) -> None:
    (tmp_path / "fleets" / "newcomer").mkdir(parents=True)
    placing = FILES.Placing(called())
    with pytest.raises(OSError, match="not empty"):
        placing.emptied({"path": str(tmp_path / "fleets")})
    (tmp_path / "fleets" / "newcomer").rmdir()
    placing.emptied({"path": str(tmp_path / "fleets")})
    assert not (tmp_path / "fleets").exists()


def test_of_a_link_only_the_link_is_removed(tmp_path: Path) -> None:
    folder, link = tmp_path / "private", tmp_path / "link"
    folder.mkdir()
    (folder / "kept").touch()
    link.symlink_to(folder)
    FILES.Placing(called()).absent({"path": str(link)})
    assert not link.is_symlink()
    assert (folder / "kept").exists()


def test_free_space_is_that_of_the_folder_to_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FACTS.shutil, "disk_usage", lambda path: SimpleNamespace(free=len(str(path))))
    assert FACTS.free_bytes(tmp_path / "rlctl" / "limiter") == len(str(tmp_path))
    (tmp_path / "rlctl").mkdir()
    assert FACTS.free_bytes(tmp_path / "rlctl") == len(str(tmp_path / "rlctl"))


def test_a_file_that_its_server_replaces_meanwhile_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    gone, readable = tmp_path / "temp-1.rdb", tmp_path / "node.conf"
    readable.touch()
    readable.chmod(0o644)
    monkeypatch.setattr(Path, "iterdir", lambda _folder: iter([gone, readable]))
    report = CHECK.Report(called())
    CHECK.check_folder(report, tmp_path, getpass.getuser(), 0o700)
    assert [error.partition(";")[0] for error in report.errors] == [f"other users may read {readable}"]


def test_a_torn_record_of_kernel_settings_is_named(tmp_path: Path) -> None:
    record = tmp_path / "kernel.json"
    record.write_text('{"vm.overcommit', encoding="utf-8")
    with pytest.raises(Failed, match="is damaged"):
        KERNEL.recorded(called(), record)


def test_a_record_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "kernel.json"
    KERNEL.write_record(record, {"a": "1"})

    def full(path: Path, *_words: object, **_more: object) -> None:
        path.touch()
        raise OSError

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError):  # noqa: PT011 - that it fails is not the point
        KERNEL.write_record(record, {"a": "2"})
    assert json.loads(record.read_text(encoding="utf-8")) == {"a": "1"}


class Choosy(FAILOVER.Fleet):  # type: ignore[misc] - the module has no types here
    """A fleet of Sentinel that fails over to these nodes, one after the other."""

    def __init__(self, *chosen: str) -> None:
        self.module = called()
        self.primary, *self.chosen = chosen
        self.asked: list[tuple[str, ...]] = []

    def nodes(self) -> list[dict[str, Any]]:
        address = {"node-0": "10.0.0.11", "node-1": "10.0.0.11", "node-2": "10.0.0.12"}
        return [
            {"id": name, "host": host, "role": "primary" if name == self.primary else "replica"}
            for name, host in address.items()
        ]

    def fail_over(self, primary: dict[str, Any]) -> None:
        assert primary["id"] == self.primary
        self.primary = self.chosen.pop(0)

    def run_rlctl(self, *words: str) -> dict[str, Any]:
        self.asked.append(words)
        return {}


def test_a_primary_fails_over_by_rlctl_failover() -> None:
    fleet = Choosy("node-0")
    FAILOVER.Fleet.fail_over(fleet, {"id": "node-0", "shard": 2})
    assert fleet.asked == [("failover", "2", "--yes")]


def test_a_primary_that_stays_on_its_host_fails_over_again() -> None:
    fleet = Choosy("node-0", "node-1", "node-0", "node-2")
    fleet.clear("10.0.0.11")
    assert fleet.primary == "node-2"
    assert fleet.asked == [("status", "--wait")] * 3


def test_a_primary_that_stays_for_good_is_named() -> None:
    with pytest.raises(Failed, match="still has a primary"):
        Choosy(*["node-0", "node-1"] * 5).clear("10.0.0.11")


GUARD = ("start-guard", "node-0 is not started: it would come back empty")
EXITED = ("systemd", "u.service: Main process exited, code=exited, status=1/FAILURE")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        pytest.param([("systemd", "Starting u.service"), GUARD], [GUARD[1]], id="refused"),
        pytest.param(
            [("redis-server", ">>> 'hz x'"), ("redis-server", "no number"), EXITED, GUARD],
            [">>> 'hz x'", "no number"],
            id="the server's own reason",
        ),
        pytest.param(
            [("redis-server", ">>> 'masterauth p4ss word'"), ("redis-server", "wrong number of arguments"), EXITED],
            [">>> 'masterauth (value not shown)'", "wrong number of arguments"],
            id="a password is not shown",
        ),
        pytest.param(
            [
                ("(s-server)", "u.service: Failed at step USER spawning /usr/bin/redis-server: Invalid argument"),
                ("systemd", "u.service: Main process exited, code=exited, status=217/USER"),
                GUARD,
            ],
            [
                "u.service: Failed at step USER spawning /usr/bin/redis-server: Invalid argument",
                "u.service: Main process exited, code=exited, status=217/USER",
            ],
            id="never executed",
        ),
        pytest.param(
            [("systemd", "u.service: Main process exited, code=killed, status=9/KILL"), GUARD],
            ["u.service: Main process exited, code=killed, status=9/KILL"],
            id="killed",
        ),
    ],
)
def test_why_a_start_failed(said: list[tuple[str, str]], told: list[str]) -> None:
    lines = [json.dumps({"SYSLOG_IDENTIFIER": who, "MESSAGE": text}) for who, text in said]
    journal = "\n".join([*lines, json.dumps({"MESSAGE": [255, 10]})])
    assert list(LAUNCH.failure_lines(LAUNCH.entries(journal))) == told


@pytest.mark.parametrize(
    ("shown", "options"),
    [
        pytest.param("-- cursor: s=ab;i=1;b=cd\n", ["--after-cursor", "s=ab;i=1;b=cd"], id="a cursor"),
        pytest.param("", [], id="an empty journal"),
    ],
)
def test_the_journal_is_read_from_where_it_ended_before_the_start(shown: str, options: list[str]) -> None:
    assert LAUNCH.journal_after(shown) == options


class Trial(DIRECTIVES.Trial):
    """A server that refuses some lines by their number, and dies of others."""

    starts = 0

    def start(self, directives: list[str]) -> str:
        self.starts += 1
        for number, line in enumerate(directives, start=1):
            if line in {"hz fast", "no-such-thing 1"}:
                return f"*** FATAL CONFIG FILE ERROR ***\nReading, at line {number}\n>>> '{line}'\nno good\n"
        if "deadly 1" in directives or {"hz 50", "databases 9"} <= set(directives):
            return "31:M 19 Nov 2026 23:51:29.923 # Module Configuration detected: aborting\n"
        return "* Ready to accept connections unix"


def trial() -> Trial:
    return Trial(called(server="/usr/bin/redis-server"))


@pytest.mark.parametrize(
    ("directives", "refused"),
    [
        pytest.param(["hz 50", "timeout 1"], [], id="none"),
        pytest.param(["hz fast", "timeout 1"], ["hz"], id="one"),
        pytest.param(["hz fast", "no-such-thing 1", "timeout 1"], ["hz", "no-such-thing"], id="all of them"),
    ],
)
def test_directives_that_a_host_refuses(directives: list[str], refused: list[str]) -> None:
    tried = trial()
    assert tried.refused(directives) == dict.fromkeys(refused, "no good")
    assert tried.starts == 1 + len(refused), "each refused line costs one start more"


def test_one_that_a_server_of_a_host_dies_of_is_found_alone() -> None:
    found = trial().refused(["hz fast", "deadly 1", "timeout 1"])
    assert found == {"hz": "no good", "deadly": "Module Configuration detected: aborting"}


def test_directives_that_a_server_of_a_host_dies_of_together_have_no_name() -> None:
    with pytest.raises(Failed, match="does not start with the section `redis`: Module Configuration detected"):
        trial().refused(["hz 50", "databases 9"])


def test_a_server_of_a_host_that_never_starts_is_not_the_files_fault() -> None:
    broken = trial()
    broken.start = lambda _directives: "=== REDIS BUG REPORT START\nregisters"  # type: ignore[method-assign]
    with pytest.raises(Failed, match="does not start without directives either: it printed nothing"):
        broken.refused(["hz 50"])


def try_directives(monkeypatch: pytest.MonkeyPatch, server: Path, *directives: str) -> dict[str, Any]:
    monkeypatch.setattr(DIRECTIVES, "Trial", Trial)
    return run(DIRECTIVES, monkeypatch, server=str(server), directives=list(directives))[0]


def test_directives_are_tried_where_the_server_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = tmp_path / "redis-server"
    assert "is not installed yet: nothing was checked" in try_directives(monkeypatch, server, "hz fast")["msg"]
    server.touch(mode=0o755)
    assert try_directives(monkeypatch, server, "hz 50") == {"changed": False, "refused": {}}
    with pytest.raises(Failed, match=r"does not start with redis.hz: no good; redis.no-such-thing: no good\. Correct"):
        try_directives(monkeypatch, server, "hz fast", "no-such-thing 1")


SANDBOX = "User=rlctl\nReadWritePaths=/var/lib/rlctl/limiter/%i\nPrivateUsers=no\nProtectProc=invisible\n"


def trying(codes: dict[str, int]) -> Answers:
    def answer(argv: list[str]) -> Answer:
        assert not any("rlctl/limiter" in word or "User=rlctl" in word for word in argv), "they may not be there yet"
        assert "--property=ProtectProc=invisible" in argv
        (private_users,) = [word for word in argv if word.startswith("--property=PrivateUsers=")]
        return codes[private_users.rpartition("=")[2]], "", "bus is away"

    return answer


@pytest.mark.parametrize(
    ("codes", "possible"),
    [
        pytest.param({"yes": 0}, True, id="it starts"),
        pytest.param({"yes": 217, "no": 0}, False, id="it starts only without"),
    ],
)
def test_whether_units_can_have_user_namespaces(
    monkeypatch: pytest.MonkeyPatch, codes: dict[str, int], *, possible: bool
) -> None:
    for check in (True, False):
        result, _ = run(PRIVATE_USERS, monkeypatch, trying(codes), check=check, sandbox=SANDBOX)
        assert result == {"changed": False, "possible": possible}


@pytest.mark.parametrize(
    "codes",
    [
        pytest.param({"yes": 217, "no": 217}, id="the user cannot be had at all"),
        pytest.param({"yes": 1}, id="systemd-run itself failed"),
        pytest.param({"yes": 226}, id="another step failed"),
        pytest.param({"yes": 217, "no": 1}, id="systemd-run failed at the second trial"),
    ],
)
def test_an_unclear_trial_of_user_namespaces_decides_nothing(
    monkeypatch: pytest.MonkeyPatch, codes: dict[str, int]
) -> None:
    with pytest.raises(Failed, match=r"bus is away\. Set redis_host_private_users to true or false"):
        run(PRIVATE_USERS, monkeypatch, trying(codes), sandbox=SANDBOX)
