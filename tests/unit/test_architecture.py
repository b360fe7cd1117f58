"""Rules for every source file, checked on its syntax tree. test_packages.py has the rules for packages."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "rlctl").rglob("*.py"))
# Programs that rlctl copies to hosts, without any other module of rlctl.
ON_HOSTS = {"rlctl/targets/hosts/probe.py", "rlctl/targets/hosts/port_probe.py"}
LONGEST = 350


def place(source: Path) -> str:
    return source.relative_to(ROOT).as_posix()


@cache
def tree(source: Path) -> ast.Module:
    return ast.parse(source.read_text(encoding="utf-8"))


def imports(module: ast.Module) -> set[str]:
    """Every module that the source imports, and the packages that contain it."""
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {".".join(name.split(".")[:depth]) for name in names for depth in range(1, name.count(".") + 2)}


def calls(module: ast.Module) -> Iterator[str]:
    """The name of every call as written: `print`, `time.sleep`."""
    return (ast.unparse(node.func) for node in ast.walk(module) if isinstance(node, ast.Call))


def catches_everything(module: ast.Module) -> bool:
    """Whether a handler swallows every exception. It may catch BaseException to clean up and re-raise."""
    handlers = [node for node in ast.walk(module) if isinstance(node, ast.ExceptHandler)]
    kinds = {ast.unparse(one.type) if one.type else "BaseException": one for one in handlers}
    tidies_up = any(isinstance(node, ast.Raise) and node.exc is None for one in handlers for node in ast.walk(one))
    return "Exception" in kinds or ("BaseException" in kinds and not tidies_up)


def broken_rules(where: str, module: ast.Module) -> list[str]:
    """The rules that this source breaks."""
    found = imports(module)
    rules = {
        "click and rich belong to rlctl/cli": found & {"click", "rich"} and not where.startswith("rlctl/cli/"),
        "subprocess belongs to rlctl/system": "subprocess" in found
        and not where.startswith("rlctl/system/")
        and where not in ON_HOSTS,
        "print belongs to the output of rlctl/cli": "print" in calls(module)
        and where not in {"rlctl/cli/output.py", "rlctl/cli/main.py"},
        "sleeping belongs to the clock": {"time.sleep", "sleep"} & set(calls(module))
        and where != "rlctl/system/clock.py",
        "rlctl starts itself by OWN_PYTHON, blind to the working folder": "sys.executable" in ast.unparse(module)
        and where != "rlctl/system/process.py",
        "every failure has a name": catches_everything(module) and where != "rlctl/cli/main.py",
        "every module says what it is for": not ast.get_docstring(module),
    }
    return [rule for rule, is_broken in rules.items() if is_broken]


@pytest.mark.parametrize("source", SOURCES, ids=place)
def test_source_keeps_the_rules(source: Path) -> None:
    assert broken_rules(place(source), tree(source)) == []


@pytest.mark.parametrize("source", SOURCES, ids=place)
def test_module_is_not_too_long(source: Path) -> None:
    assert len(source.read_text(encoding="utf-8").splitlines()) <= LONGEST


@pytest.mark.parametrize(
    ("where", "text", "rule"),
    [
        pytest.param("rlctl/execute/x.py", "import rich.table", "click and rich belong to rlctl/cli", id="rich"),
        pytest.param(
            "rlctl/drills/x.py",
            "import sys\nargv = [sys.executable, '-m', 'rlctl']",
            "rlctl starts itself by OWN_PYTHON, blind to the working folder",
            id="own interpreter",
        ),
        pytest.param("rlctl/targets/x.py", "import subprocess", "subprocess belongs to rlctl/system", id="subprocess"),
        pytest.param("rlctl/cli/status.py", "print(1)", "print belongs to the output of rlctl/cli", id="print"),
        pytest.param("rlctl/execute/x.py", "import time\ntime.sleep(1)", "sleeping belongs to the clock", id="sleep"),
        pytest.param(
            "rlctl/system/x.py", "try:\n f()\nexcept Exception:\n pass", "every failure has a name", id="catch all"
        ),
        pytest.param("rlctl/system/x.py", "try:\n f()\nexcept:\n pass", "every failure has a name", id="bare except"),
        pytest.param("rlctl/x.py", "", "every module says what it is for", id="no docstring"),
    ],
)
def test_a_broken_rule_is_found(where: str, text: str, rule: str) -> None:
    assert rule in broken_rules(where, ast.parse(text))


def test_what_is_allowed_is_not_found() -> None:
    tidy = "try:\n f()\nexcept BaseException:\n close()\n raise\n"
    text = f'"""A module."""\nimport time\nimport subprocess\ntime.sleep(1)\n{tidy}'
    assert broken_rules("rlctl/system/clock.py", ast.parse(text)) == []
