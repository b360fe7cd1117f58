"""Kernel settings: what is set, what is remembered for the way back, and what a container only warns of."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.calling import Called, Failed, load, run

KERNEL = load("rlctl_kernel")
OVERCOMMIT, BACKLOG = "vm.overcommit_memory", "net.core.somaxconn"
PAGES = "transparent_hugepage"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel below the test's folder."""
    texts = {
        "proc/sys/vm/overcommit_memory": "0\n",
        "proc/sys/net/core/somaxconn": "4096\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text, encoding="ascii")
    monkeypatch.setattr(KERNEL, "Path", lambda text: tmp_path / text.lstrip("/"))
    return tmp_path


def settle(
    monkeypatch: pytest.MonkeyPatch, sysctl: dict[str, Any] | None = None, *, check: bool = False, **more: Any
) -> tuple[dict[str, Any], Called]:
    return run(KERNEL, monkeypatch, check=check, record="/etc/kernel.json", sysctl=sysctl or {}, **more)


def now(root: Path, name: str) -> str:
    return (root / "proc/sys" / name.replace(".", "/")).read_text(encoding="ascii").strip()


def record(root: Path) -> dict[str, str] | None:
    path = root / "etc/kernel.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def test_what_differs_is_set_and_what_was_there_is_remembered(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    result, called = settle(monkeypatch, {OVERCOMMIT: 1, BACKLOG: "4096"}, huge_pages="never")
    assert result == {"changed": True, "settings": {OVERCOMMIT: "1", PAGES: "never"}}
    assert (now(root, OVERCOMMIT), now(root, BACKLOG)) == ("1", "4096")
    assert (root / "sys/kernel/mm/transparent_hugepage/enabled").read_text(encoding="ascii") == "never"
    assert record(root) == {OVERCOMMIT: "0", PAGES: "madvise"}
    assert called.warned == []
    assert [path.name for path in (root / "etc").iterdir()] == ["kernel.json"]


def test_what_is_as_wanted_is_left_alone(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    result, called = settle(monkeypatch, {OVERCOMMIT: "0", "vm.no_such": "1"}, huge_pages="madvise")
    assert (result, called.warned, record(root)) == ({"changed": False, "settings": {}}, [], None)


def test_check_mode_tells_and_sets_nothing(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    result, _ = settle(monkeypatch, {OVERCOMMIT: "1"}, check=True)
    assert result == {"changed": True, "settings": {OVERCOMMIT: "1"}}
    assert (now(root, OVERCOMMIT), record(root)) == ("0", None)


def test_the_first_value_is_remembered_and_not_one_of_ours(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    settle(monkeypatch, {OVERCOMMIT: "1"})
    settle(monkeypatch, {OVERCOMMIT: "2", BACKLOG: "9000"})
    assert record(root) == {OVERCOMMIT: "0", BACKLOG: "4096"}


def test_the_way_back(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    settle(monkeypatch, {OVERCOMMIT: "1"})
    told, _ = settle(monkeypatch, {OVERCOMMIT: "7"}, state="absent", check=True)
    assert told == {"changed": True, "settings": {OVERCOMMIT: "0"}}
    assert (now(root, OVERCOMMIT), record(root)) == ("1", {OVERCOMMIT: "0"})
    assert settle(monkeypatch, state="absent")[0] == told
    assert (now(root, OVERCOMMIT), record(root)) == ("0", None)
    assert settle(monkeypatch, state="absent")[0] == {"changed": False, "settings": {}}


def test_what_the_host_does_not_let_be_set_is_warned_of(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setattr(KERNEL, "can_write", lambda name: name != OVERCOMMIT)
    result, called = settle(monkeypatch, {OVERCOMMIT: "1", BACKLOG: "9000"})
    assert result == {"changed": True, "settings": {BACKLOG: "9000"}}
    fix = "in a container, set it on the machine that runs the container"
    assert called.warned == [f"{OVERCOMMIT} is 0 and cannot be set to 1 here; {fix}"]
    assert record(root) == {BACKLOG: "4096"}


def test_only_an_existing_file_can_be_written(root: Path) -> None:
    assert KERNEL.can_write(OVERCOMMIT)
    assert not KERNEL.can_write("vm.no_such")
    assert not (root / "proc/sys/vm/no_such").exists()


def test_a_record_that_cannot_be_written_sets_nothing(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    (root / "etc").touch()
    with pytest.raises(Failed, match=r"cannot write .*/etc: File exists. Fix the cause and run again"):
        settle(monkeypatch, {OVERCOMMIT: "1"})
    assert now(root, OVERCOMMIT) == "0"
