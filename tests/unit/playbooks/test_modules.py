"""Ansible modules of the playbooks: what can go wrong in the middle, which no playbook shows."""

import getpass
import grp
import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rlctl.assets import asset_folder


class Failed(Exception):
    """What fail_json says."""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, asset_folder("playbooks") / "library" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILES, KERNEL, HANDOVER = load("rlctl_files"), load("rlctl_kernel"), load("rlctl_handover")
LAUNCH, FACTS, CHECK = load("rlctl_launch"), load("rlctl_host_facts"), load("rlctl_check")


def fail(msg: str) -> None:
    raise Failed(msg)


def called(**params: Any) -> SimpleNamespace:
    return SimpleNamespace(params=params, check_mode=False, fail_json=fail, warn=lambda _text: None)


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
    CHECK.judge_folder(report, tmp_path, getpass.getuser(), 0o700)
    assert [error.partition(";")[0] for error in report.errors] == [f"others may read {readable}"]


def test_a_torn_record_of_kernel_settings_is_named(tmp_path: Path) -> None:
    record = tmp_path / "kernel.json"
    record.write_text('{"vm.overcommit', encoding="utf-8")
    with pytest.raises(Failed, match="is damaged"):
        KERNEL.recorded(called(), record)


def test_a_record_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "kernel.json"
    KERNEL.remember(record, {"a": "1"})

    def full(path: Path, *_words: object, **_more: object) -> None:
        path.touch()
        raise OSError

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError):  # noqa: PT011 - that it fails is not the point
        KERNEL.remember(record, {"a": "2"})
    assert json.loads(record.read_text(encoding="utf-8")) == {"a": "1"}


class Choosy(HANDOVER.Fleet):  # type: ignore[misc] - the module has no types here
    """A fleet of Sentinel that hands over to these nodes, one after the other."""

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

    def hand_over(self, primary: dict[str, Any]) -> None:
        assert primary["id"] == self.primary
        self.primary = self.chosen.pop(0)

    def ask(self, *words: str) -> dict[str, Any]:
        self.asked.append(words)
        return {}


def test_a_primary_that_stays_on_its_host_hands_over_again() -> None:
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
            [("redis-server", ">>> 'requirepass x'"), ("redis-server", "Bad directive"), EXITED, GUARD],
            ["Bad directive"],
            id="the server's own reason",
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
    assert list(LAUNCH.telling(LAUNCH.entries(journal))) == told
