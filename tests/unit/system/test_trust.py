"""Folders and files that another user could have prepared are refused before they are used."""

import os
import pwd
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from rlctl.errors import AccessDenied, Refused
from rlctl.execute.lock import LockOwner, file_lock, is_free, read_owner
from rlctl.system.files import append_line, check_folder, make_private_folder, read_damaged, read_own, read_text
from rlctl.system.ssh import socket_folder
from rlctl.system.trust import path_problem, user_name

SOMEBODY = 4_711
OWN = os.geteuid()


def hold(path: Path) -> None:
    with file_lock(path, LockOwner.myself("deploy"), wait=lambda: False):
        pass


def append(path: Path) -> None:
    append_line(path, "a line")


USES = [read_own, read_damaged, append, hold, is_free, read_owner]


def as_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is ours belongs to another user from here on."""
    monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY)


def test_what_is_missing_or_ours_is_trusted(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("ours", encoding="utf-8")
    file.chmod(0o644)
    assert [path_problem(path) for path in (tmp_path, file, tmp_path / "none", file / "none")] == [None] * 4


def test_another_owner_is_named_with_the_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o750)
    as_somebody(monkeypatch)
    with pytest.raises(Refused) as caught:
        check_folder(tmp_path)
    assert caught.value.message == f"{tmp_path} belongs to {user_name(OWN)}, mode 0750, and rlctl runs as uid 4711"
    assert "without sudo" in caught.value.hint
    assert "RLCTL_HOME" in caught.value.hint


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o722, 0o1777, 0o2770])
def test_a_folder_that_others_may_write_is_told_with_the_command_that_closes_it(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(Refused, match=f"other users may write to .* has mode {mode:04o}") as caught:
        make_private_folder(folder)
    assert f"chmod go-w '{folder}'" in caught.value.hint
    folder.chmod(mode & ~0o022)
    make_private_folder(folder)


def test_a_user_has_a_name_or_only_a_number() -> None:
    assert user_name(0) == f"{pwd.getpwuid(0).pw_name} (uid 0)"
    assert user_name(SOMEBODY) == "uid 4711"


def test_a_link_to_a_folder_is_followed_where_this_user_or_root_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, link = tmp_path / "place", tmp_path / "link"
    place.mkdir()
    link.symlink_to(place)
    check_folder(link)
    place.chmod(0o777)
    with pytest.raises(Refused, match="other users may write to"):
        check_folder(link)
    as_somebody(monkeypatch)
    with pytest.raises(Refused, match="link of user" if OWN else "belongs to root"):
        check_folder(link)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_no_file_is_opened_through_a_link(tmp_path: Path, use: Callable[[Path], object]) -> None:
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("precious", encoding="utf-8")
    link.symlink_to(victim)
    with pytest.raises(Refused, match=f"{link} is a symbolic link of user"):
        use(link)
    assert victim.read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_a_link_to_nothing_makes_no_file(tmp_path: Path, use: Callable[[Path], object]) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nothing")
    with pytest.raises(Refused, match="symbolic link"):
        use(link)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_others_may_write_is_not_opened(tmp_path: Path, what: str, use: Callable[[Path], object]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    file = folder / "file"
    file.write_text("theirs", encoding="utf-8")
    (file if what == "file" else folder).chmod(0o777)
    with pytest.raises(Refused, match="other users may write to"):
        use(file)
    assert file.read_text(encoding="utf-8") == "theirs"


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, use: Callable[[Path], object]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(Refused, match="neither a folder nor a regular file"):
        use(pipe)


def test_what_the_user_names_may_be_a_link(tmp_path: Path) -> None:
    place, link = tmp_path / "place", tmp_path / "link"
    place.write_text("text", encoding="utf-8")
    place.chmod(0o666)
    link.symlink_to(place)
    assert read_text(link) == "text"


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_parents_are_private_whatever_the_umask_is(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        make_private_folder(tmp_path / "a" / "b" / "c")
        append_line(tmp_path / "a" / "file", "line")
    finally:
        os.umask(before)
    made = [tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/c"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in made] == [0o700] * 3
    assert stat.S_IMODE((tmp_path / "a" / "file").stat().st_mode) == 0o600


def test_sockets_of_ssh_lie_in_a_folder_of_this_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = socket_folder(tmp_path / "home")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    with pytest.raises(AccessDenied, match="other users may write to") as caught:
        socket_folder(tmp_path / "home")
    assert caught.value.hint == "remove it, or set TMPDIR"
