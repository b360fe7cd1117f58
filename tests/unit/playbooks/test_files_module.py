"""Folders and files of a host: what differs is written and told, what is secret is not shown."""

import getpass
import grp
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.calling import Failed, load, run

FILES = load("rlctl_files")
OWN = {"owner": getpass.getuser(), "group": grp.getgrgid(os.getgid()).gr_name}


def folder(path: Path, mode: str = "0750") -> dict[str, Any]:
    return {"path": str(path), "mode": mode, **OWN}


def file(path: Path, content: str | None = "mine\n", mode: str = "0640", **more: Any) -> dict[str, Any]:
    return folder(path, mode) | {"content": content, "secret": None, "keep": None} | more


def place(monkeypatch: pytest.MonkeyPatch, *, check: bool = False, **entries: Any) -> dict[str, Any]:
    return run(FILES, monkeypatch, check=check, **entries)[0]


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def differences(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["before"], one["after"]) for one in result["diff"]]


def test_what_differs_is_put_there_and_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    new, conf = tmp_path / "node-0", tmp_path / "node-0" / "static.conf"
    before = place(monkeypatch, check=True, folders=[folder(new)])
    assert not new.exists()
    result = place(monkeypatch, folders=[folder(new)], files=[file(conf)])
    assert (before["changed"], before["changed_paths"]) == (True, [str(new)])
    assert (result["changed"], result["changed_paths"], result["moved_aside"]) == (True, [str(new), str(conf)], [])
    assert differences(result) == [("", "folder\n"), ("", "mine\n")]
    assert (mode_of(new), mode_of(conf), conf.read_text(encoding="utf-8")) == (0o750, 0o640, "mine\n")
    assert [path.name for path in new.iterdir()] == ["static.conf"]
    again = place(monkeypatch, folders=[folder(new)], files=[file(conf)])
    assert (again["changed"], again["changed_paths"], again["diff"]) == (False, [], [])


@pytest.mark.parametrize("check", [True, False])
def test_another_mode_is_a_difference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, check: bool) -> None:
    conf = tmp_path / "static.conf"
    place(monkeypatch, files=[file(conf)])
    tmp_path.chmod(0o755)
    result = place(monkeypatch, check=check, folders=[folder(tmp_path)], files=[file(conf, mode="0600")])
    assert result["changed_paths"] == [str(tmp_path), str(conf)]
    assert differences(result) == [("folder", "folder\n"), ("mine\n", "mine\n")]
    assert (mode_of(tmp_path), mode_of(conf)) == ((0o755, 0o640) if check else (0o750, 0o600))


@pytest.mark.parametrize("check", [True, False])
def test_other_text_is_a_difference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, check: bool) -> None:
    conf = tmp_path / "static.conf"
    place(monkeypatch, files=[file(conf, "old\n")])
    assert differences(place(monkeypatch, check=check, files=[file(conf)])) == [("old\n", "mine\n")]
    assert conf.read_text(encoding="utf-8") == ("old\n" if check else "mine\n")


def test_an_owner_that_is_not_there_yet_is_a_difference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = file(tmp_path / "a") | {"owner": "no-such-user"}
    (tmp_path / "a").write_text("mine\n", encoding="utf-8")
    assert place(monkeypatch, check=True, files=[wanted])["changed"] is True


def test_a_secret_is_written_and_never_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    conf = tmp_path / "users.acl"
    for text in ("first", "second"):
        result = place(monkeypatch, files=[file(conf, None, secret=text)])
        assert differences(result) == [("", "not shown\n")]
        assert conf.read_text(encoding="utf-8") == text
    assert place(monkeypatch, files=[file(conf, None, secret="second")])["changed"] is False


@pytest.mark.parametrize("check", [True, False])
def test_a_file_that_its_server_writes_is_kept_while_it_is_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, check: bool
) -> None:
    conf = tmp_path / "nodes.conf"
    wanted = file(conf, "first\n", keep="^myself abc$")
    conf.write_text("other lines\nmyself abc\n", encoding="utf-8")
    kept = place(monkeypatch, check=check, files=[wanted])
    assert (kept["changed"], kept["moved_aside"]) == (False, [])
    conf.write_text("myself abcdef\n", encoding="utf-8")
    result = place(monkeypatch, check=check, files=[wanted])
    assert (result["changed_paths"], result["moved_aside"]) == ([str(conf)], [str(conf)])
    assert conf.read_text(encoding="utf-8") == ("myself abcdef\n" if check else "first\n")
    assert (tmp_path / "nodes.conf.damaged").exists() is not check


@pytest.mark.parametrize("check", [True, False])
def test_what_must_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, check: bool) -> None:
    full, single, hollow, broken = (tmp_path / name for name in ("full", "single", "hollow", "broken"))
    for path in (full, hollow):
        path.mkdir()
    for path in (full / "file", single):
        path.touch()
    broken.symlink_to(tmp_path / "nowhere")
    gone = [str(path) for path in (full, single, broken, tmp_path / "never")]
    result = place(monkeypatch, check=check, absent=gone, emptied=[str(hollow), str(tmp_path / "never")])
    assert result["changed_paths"] == [str(path) for path in (full, single, broken, hollow)]
    assert differences(result) == [("there\n", "")] * 3 + [("folder\n", "")]
    assert len(list(tmp_path.iterdir())) == (4 if check else 0)


def test_a_folder_of_others_is_not_entered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(FILES.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Failed, match=r"cannot change .*/node-0: its parent folder is not root's"):
        place(monkeypatch, folders=[folder(tmp_path / "node-0")])
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_the_old_file_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    conf = tmp_path / "static.conf"
    conf.write_text("old\n", encoding="utf-8")
    monkeypatch.setattr(FILES.os, "fsync", refuse)
    with pytest.raises(Failed, match=r"cannot change .*/static.conf: No space left on device; it was left as it was"):
        place(monkeypatch, files=[file(conf)])
    assert conf.read_text(encoding="utf-8") == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["static.conf"]


@pytest.mark.parametrize(("size", "is_read"), [(1024 * 1024, True), (1024 * 1024 + 1, False)])
def test_the_largest_file_that_is_compared(tmp_path: Path, size: int, *, is_read: bool) -> None:
    (tmp_path / "large").write_bytes(b"x" * size)
    if is_read:
        assert len(FILES._read(tmp_path / "large")) == size
        return
    with pytest.raises(OSError, match="larger than 1 MiB"):
        FILES._read(tmp_path / "large")
