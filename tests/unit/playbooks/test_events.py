"""What the callback tells, and what rlctl makes of it: a loop's reason is its item's, not its summary's."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rlctl.assets import asset_folder
from rlctl.system.playbook_events import PlaybookRun, TaskResult, parse_events


def load() -> ModuleType:
    path = asset_folder("playbooks") / "plugins" / "callback" / "rlctl_events.py"
    spec = importlib.util.spec_from_file_location("rlctl_events", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Ansible looks around the machine when it is imported.
EVENTS = load()


def of(result: dict[str, Any], loop: list[str] | None, action: str = "rlctl_check") -> Any:
    """What Ansible hands over."""
    task = SimpleNamespace(loop=loop, action=action, get_name=lambda: "redis_host : Refuse")
    return SimpleNamespace(_host=SimpleNamespace(get_name=lambda: "h1"), _task=task, _result=result)


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Path]]:
    """The callback, and where it writes to."""
    monkeypatch.setenv("RLCTL_EVENTS", str(tmp_path / "events"))
    callback = EVENTS.CallbackModule()
    yield callback, tmp_path / "events"
    callback._file.close()


def run(events: Path) -> PlaybookRun:
    results = parse_events(events.read_text(encoding="utf-8").splitlines())
    return PlaybookRun(results=tuple(one for one in results if isinstance(one, TaskResult)), failures={"h1": 1})


def test_a_loop_is_told_by_its_items(told: tuple[Any, Path]) -> None:
    callback, events = told
    item = {"failed": True, "msg": "h1: make room", "_ansible_item_label": "free space"}
    callback.v2_runner_item_on_failed(of(item, ["{{ demands }}"]))
    callback.v2_runner_on_failed(of({"msg": "One or more items failed", "results": [item]}, ["{{ demands }}"]))
    assert run(events).problem("h1") == "Refuse (free space): h1: make room"
    assert len(events.read_text(encoding="utf-8").splitlines()) == 1


@pytest.mark.parametrize(
    ("result", "loop"),
    [
        pytest.param({"msg": "'demands' is undefined"}, ["{{ demands }}"], id="the loop itself"),
        pytest.param({"msg": "no package", "results": []}, None, id="a module that calls its answer so"),
    ],
)
def test_what_has_no_items_is_told_as_it_is(
    told: tuple[Any, Path], result: dict[str, Any], loop: list[str] | None
) -> None:
    callback, events = told
    callback.v2_runner_on_failed(of(result, loop))
    assert run(events).problem("h1") == f"Refuse: {result['msg']}"
    assert json.loads(events.read_text(encoding="utf-8"))["item"] is None


def test_refused_directives_are_passed_on(told: tuple[Any, Path]) -> None:
    callback, events = told
    callback.v2_runner_on_failed(of({"msg": "redis.hz: no number", "refused": {"hz": "no number"}}, None))
    callback.v2_runner_on_ok(of({"changed": False, "refused": {}}, None))
    assert run(events).refused("h1") == {"hz": "no number"}


def test_what_a_playbook_says_is_told_and_what_a_module_answers_is_not(told: tuple[Any, Path]) -> None:
    callback, events = told
    callback.v2_runner_on_ok(of({"msg": "redis-server: still installed"}, None, "ansible.builtin.debug"))
    callback.v2_runner_on_ok(of({"msg": "all is well"}, None))
    callback.v2_runner_on_ok(of({"msg": "hidden", "censored": "no_log"}, None, "debug"))
    assert run(events).messages("h1") == ("redis-server: still installed",)
    assert run(events).messages("h2") == ()
