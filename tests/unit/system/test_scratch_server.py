"""Folders of scratch servers: those of killed runs are removed, and no other."""

import fcntl
import os
import tempfile
import time
from pathlib import Path

import pytest

from rlctl.system.scratch_server import LEFT_S, _own_folder

PREFIX = "rlctl-scratch-"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left(path: Path, age_s: float = 2 * LEFT_S) -> Path:
    path.mkdir()
    (path / "server.log").write_text("ready", encoding="utf-8")
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_what_a_killed_run_left_is_removed(place: Path) -> None:
    killed = left(place / f"{PREFIX}killed")
    with _own_folder(PREFIX) as own:
        assert list(place.iterdir()) == [own]
    assert not killed.exists()
    assert list(place.iterdir()) == []


def test_the_folder_of_a_running_process_stays(place: Path) -> None:
    held = left(place / f"{PREFIX}held")
    handle = os.open(held, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with _own_folder(PREFIX) as own:
        os.utime(own, (time.time() - 2 * LEFT_S,) * 2)
        with _own_folder(PREFIX):
            assert own.is_dir()
    assert held.is_dir()
    os.close(handle)
    with _own_folder(PREFIX):
        assert not held.exists()


def test_what_is_new_or_not_ours_stays(place: Path) -> None:
    new, other = left(place / f"{PREFIX}new", age_s=0), left(place / "another-programs")
    link = place / f"{PREFIX}link"
    link.symlink_to(other)
    file = place / f"{PREFIX}file"
    file.touch()
    with _own_folder(PREFIX):
        pass
    assert sorted(place.iterdir()) == sorted([new, other, link, file])
    assert (other / "server.log").is_file()
