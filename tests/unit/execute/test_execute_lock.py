"""Who holds a lock: the stored text, and what is said of its owner."""

import json
import os
from dataclasses import dataclass, replace
from errno import ENOSPC
from pathlib import Path
from typing import cast

import psutil
import pytest

from rlctl.errors import Exit, LockHeld, Unreachable
from rlctl.execute import lock
from rlctl.execute.lock import FleetLock, LockOwner, file_lock, is_free, read_owner
from rlctl.system.clock import SystemClock, wait_until
from rlctl.system.process import ProcessId
from rlctl.system.redis import CommandFailed, NodeLink

PROCESS = ProcessId(pid=42, started=1_000.5)
OWNER = LockOwner(user="ann", host="elsewhere", process=PROCESS, command="deploy", since=2_000.25)
WORDS = {"owner": "ann", "host": "h", "pid": 1, "started": 1.0, "command": "deploy", "since": 1.0}


def test_round_trip() -> None:
    assert LockOwner.from_text(OWNER.to_text()) == OWNER


def test_the_text_names_owner_host_pid_and_command() -> None:
    assert {"owner": "ann", "host": "elsewhere", "pid": 42, "command": "deploy"}.items() <= json.loads(
        OWNER.to_text()
    ).items()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="torn"),
        pytest.param("[]", id="a list"),
        pytest.param("null", id="null"),
        pytest.param("{}", id="no keys"),
        pytest.param(json.dumps(WORDS | {"pid": "many"}), id="no number"),
        pytest.param(json.dumps(WORDS | {"since": None}), id="no time"),
    ],
)
def test_what_is_not_ours_is_nobody(text: str) -> None:
    assert LockOwner.from_text(text) is None


def test_an_owner_on_another_machine_may_well_live() -> None:
    assert not OWNER.is_known_dead()


def test_this_process_is_alive() -> None:
    assert not LockOwner.myself("deploy").is_known_dead()


def test_another_process_with_our_pid_is_not_the_owner() -> None:
    mine = LockOwner.myself("deploy")
    earlier = ProcessId(pid=mine.process.pid, started=mine.process.started - 60)
    assert replace(mine, process=earlier).is_known_dead()


def test_the_time_of_day_may_be_set_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system counts a process's start in the time of day from the machine's own, which moves with the clock."""
    mine = LockOwner.myself("deploy")
    boot, create = psutil.boot_time(), psutil.Process.create_time
    monkeypatch.setattr(psutil, "boot_time", lambda: boot + 3600)
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: create(process) + 3600)
    assert not mine.is_known_dead()


def test_people_are_told_who_and_since_when() -> None:
    text = LockOwner.myself("deploy").describe()
    assert "`rlctl deploy`" in text
    assert text.endswith(" s")


def test_a_lock_names_its_holder_while_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / "limiter.lock"
    owner = LockOwner.myself("deploy")
    with file_lock(path, owner, wait=lambda: False):
        assert read_owner(path) == owner
        assert not is_free(path)
        with pytest.raises(LockHeld, match="pid") as caught, file_lock(path, OWNER, wait=lambda: False):
            pass
        assert caught.value.exit_code is Exit.GUARD
    assert is_free(path)
    assert read_owner(path) is None


def test_a_full_disk_is_told_with_the_name_of_the_lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int, _data: bytes) -> int:
        raise OSError(ENOSPC, "No space left on device")

    path = tmp_path / "limiter.lock"
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(Unreachable) as caught, file_lock(path, OWNER, wait=lambda: False):
        pass
    assert caught.value.message == f"cannot write the lock file {path}: No space left on device"
    assert caught.value.hint.startswith("free some space")
    monkeypatch.undo()
    assert is_free(path)


def test_a_disk_that_fills_up_within_the_text_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    def nearly_full(handle: int, data: bytes) -> int:
        if os.fstat(handle).st_size:
            raise OSError(ENOSPC, "No space left on device")
        return write(handle, data[:10])

    monkeypatch.setattr(os, "write", nearly_full)
    with pytest.raises(Unreachable, match="No space left"), file_lock(tmp_path / "x", OWNER, wait=lambda: False):
        pass


def test_a_lock_without_a_file_has_no_holder(tmp_path: Path) -> None:
    assert read_owner(tmp_path / "none.lock") is None


@dataclass
class Keeper:
    """A node that answers the lock's questions: whether it has our key, and whether it has one at all."""

    has_ours: bool
    has_one: bool
    is_gone: bool = False
    asked: int = 0

    def call(self, *words: object) -> object:
        self.asked += 1
        match words[0]:
            case "SET":
                return "OK"
            case _ if self.is_gone:
                raise CommandFailed("READONLY You can't write against a read only replica.")
            case "EVAL":
                return int(self.has_ours)
            case _:
                return int(self.has_one)

    def close(self) -> None:
        """Nothing is open."""


OURS, THEIRS = Keeper(has_ours=True, has_one=True), Keeper(has_ours=False, has_one=True)
NOBODYS, MOVED = Keeper(has_ours=False, has_one=False), Keeper(has_ours=False, has_one=False, is_gone=True)


@pytest.mark.parametrize(
    ("nodes", "is_lost"),
    [
        pytest.param([OURS], False, id="kept"),
        pytest.param([THEIRS], True, id="taken"),
        pytest.param([MOVED, OURS], False, id="kept by the new primary"),
        pytest.param([MOVED, THEIRS], True, id="taken at the new primary"),
        pytest.param([THEIRS, NOBODYS], True, id="a replica that lags knows nothing"),
        pytest.param([NOBODYS], False, id="lapsed, and nobody took it"),
        pytest.param([MOVED, MOVED], False, id="nobody answers"),
    ],
)
def test_a_lock_is_lost_where_somebody_else_has_it(
    monkeypatch: pytest.MonkeyPatch, *, nodes: list[Keeper], is_lost: bool
) -> None:
    monkeypatch.setattr(lock, "REFRESH_S", 0.001)
    kept = FleetLock(lambda: iter(cast("list[NodeLink]", nodes)), OWNER)
    kept.acquire(wait=lambda: False)
    enough = nodes[-1].asked + 4
    wait_until(lambda: nodes[-1].asked >= enough, timeout_s=30, clock=SystemClock(), what="two rounds of questions")
    assert kept.is_lost is is_lost
    kept.release()


@pytest.mark.parametrize(("now", "age"), [(OWNER.since + 90.4, "for 90 s"), (OWNER.since - 5, "for 0 s")])
def test_how_long_a_lock_is_held_is_told(now: float, age: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock.time, "time", lambda: now)
    assert OWNER.describe() == f"ann@elsewhere, pid 42, `rlctl deploy`, {age}"
