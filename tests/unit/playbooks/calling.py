"""Run an Ansible module of the playbooks in this process, with fake programs."""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NoReturn

import pytest

from rlctl.assets import asset_folder

Answer = tuple[int, str, str]
Answers = Callable[[list[str]], Answer]
DONE: Answer = (0, "", "")


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, asset_folder("playbooks") / "library" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Failed(Exception):
    """What fail_json says."""


class Left(Exception):
    """Raised by exit_json, with its result."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(result)
        self.result = result


@dataclass
class Called:
    """A fake AnsibleModule that records commands and warnings."""

    params: dict[str, Any]
    check_mode: bool = False
    answer: Answers = lambda _argv: DONE
    ran: list[list[str]] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)

    def run_command(self, argv: Sequence[str], environ_update: object = None) -> Answer:
        _ = environ_update
        self.ran.append(list(argv))
        return self.answer(list(argv))

    def get_bin_path(self, name: str, opt_dirs: Sequence[str]) -> str:
        return f"{opt_dirs[0]}/{name}"

    def warn(self, text: str) -> None:
        self.warned.append(text)

    def fail_json(self, msg: str, **_more: Any) -> NoReturn:
        raise Failed(msg)

    def exit_json(self, **result: Any) -> NoReturn:
        raise Left(result)

    def said(self, *words: str) -> list[list[str]]:
        """The recorded commands that contain all of these words."""
        return [argv for argv in self.ran if set(words) <= set(argv)]


def run(
    module: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    answer: Answers = lambda _argv: DONE,
    *,
    check: bool = False,
    **params: Any,
) -> tuple[dict[str, Any], Called]:
    """Run `main` with the defaults of its argument_spec and return its result."""
    made: list[Called] = []

    def make(argument_spec: dict[str, dict[str, Any]], *, supports_check_mode: bool) -> Called:
        assert supports_check_mode
        assert set(params) <= set(argument_spec)
        assert {name for name, one in argument_spec.items() if one.get("required")} <= set(params)
        defaults = {name: one.get("default") for name, one in argument_spec.items()}
        made.append(Called(params=defaults | params, check_mode=check, answer=answer))
        return made[-1]

    monkeypatch.setattr(module, "AnsibleModule", make)
    with pytest.raises(Left) as left:
        module.main()
    return left.value.result, made[-1]
