"""The house rules of the source, read off its syntax trees."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "rlctl").rglob("*.py"))
PURE_FOLDERS = ("rlctl/topology/", "rlctl/render/", "rlctl/plan/", "rlctl/doctor/")
PURE_DRILLS = (
    *("accounts", "admission", "cast", "casting", "cuts", "evidence", "history", "invariants", "ledger", "member"),
    *("model", "order", "reading", "requests", "result", "sample", "scenario", "settings", "times", "verdict"),
)
PURE_RULES = (
    "advice",
    "bucket",
    "compile",
    "conditions",
    "diff",
    "edit",
    "enforcement",
    "load",
    "match",
    "model",
    "schema",
    "states",
    "table",
)
PURE_LIMITER = ("asks", "lookup", "resp", "routes", "together")
PURE_RUNBOOKS = ("answer", "blocks", "front", "gist", "given", "index", "model", "order", "page", "query")
PURE_FILES = (
    *("rlctl/observe/model.py", "rlctl/observe/parse.py", "rlctl/observe/server_log.py"),
    *("rlctl/secrets.py", "rlctl/services.py", "rlctl/errors.py"),
    *("rlctl/system/playbook_events.py", "rlctl/targets/remains.py", "rlctl/scripts/rights.py"),
    *(f"rlctl/bench/{name}.py" for name in ("subjects", "stats", "figures", "attack", "claims", "scaling")),
    *(f"rlctl/drills/{name}.py" for name in PURE_DRILLS),
    *(f"rlctl/rules/{name}.py" for name in PURE_RULES),
    *(f"rlctl/limiter/{name}.py" for name in PURE_LIMITER),
    *(f"rlctl/runbooks/{name}.py" for name in PURE_RUNBOOKS),
)
# What draws, fills and asks servers; all else of capacity is calculation.
IMPURE_CAPACITY = {f"rlctl/capacity/{name}.py" for name in ("calibrate", "drawing", "measure", "report", "sampling")}
IMPURE_MODULES = {
    *("redis", "docker", "subprocess", "socket", "time", "click", "rich", "psutil", "cryptography"),
    *("rlctl.system", "rlctl.execute", "rlctl.targets", "rlctl.cli", "rlctl.state"),
    *(f"rlctl.drills.{path.stem}" for path in (ROOT / "rlctl/drills").glob("*.py") if path.stem not in PURE_DRILLS),
}
LONGEST = 350


def place(source: Path) -> str:
    return source.relative_to(ROOT).as_posix()


@cache
def tree(source: Path) -> ast.Module:
    return ast.parse(source.read_text(encoding="utf-8"))


def imports(module: ast.Module) -> set[str]:
    """Every module that is imported anywhere, with the packages it lives in."""
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {".".join(name.split(".")[:depth]) for name in names for depth in range(1, name.count(".") + 2)}


def calls(module: ast.Module) -> Iterator[str]:
    """Every call, as it is written: `print`, `time.sleep`."""
    return (ast.unparse(node.func) for node in ast.walk(module) if isinstance(node, ast.Call))


def catches_everything(module: ast.Module) -> bool:
    """Whether failures without a name are swallowed; BaseException may be caught to tidy up and pass it on."""
    handlers = [node for node in ast.walk(module) if isinstance(node, ast.ExceptHandler)]
    kinds = {ast.unparse(one.type) if one.type else "BaseException": one for one in handlers}
    tidies_up = any(isinstance(node, ast.Raise) and node.exc is None for one in handlers for node in ast.walk(one))
    return "Exception" in kinds or ("BaseException" in kinds and not tidies_up)


def broken_rules(where: str, module: ast.Module) -> list[str]:
    """What this source does that its place does not allow."""
    found = imports(module)
    is_pure = where.startswith(PURE_FOLDERS) or where in PURE_FILES
    is_pure |= where.startswith("rlctl/capacity/") and where not in IMPURE_CAPACITY
    rules = {
        f"a pure module imports {', '.join(sorted(found & IMPURE_MODULES))}": is_pure and found & IMPURE_MODULES,
        "click and rich belong to rlctl/cli": found & {"click", "rich"} and not where.startswith("rlctl/cli/"),
        "subprocess belongs to rlctl/system": "subprocess" in found and not where.startswith("rlctl/system/"),
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


def test_the_pure_parts_exist() -> None:
    places = {place(source) for source in SOURCES}
    assert places >= {*PURE_FILES, *IMPURE_CAPACITY}
    assert all(any(where.startswith(folder) for where in places) for folder in PURE_FOLDERS)


@pytest.mark.parametrize(
    ("where", "text", "rule"),
    [
        pytest.param("rlctl/plan/x.py", "import socket", "a pure module imports socket", id="socket"),
        pytest.param("rlctl/capacity/x.py", "import time", "a pure module imports time", id="capacity"),
        pytest.param("rlctl/plan/x.py", "from time import monotonic", "a pure module imports time", id="time"),
        pytest.param(
            "rlctl/render/x.py", "from redis.crc import key_slot", "a pure module imports redis", id="a part of redis"
        ),
        pytest.param(
            "rlctl/observe/parse.py", "from rlctl import state", "a pure module imports rlctl.state", id="ours"
        ),
        pytest.param(
            "rlctl/drills/casting.py",
            "from rlctl.drills.crew import Crew",
            "a pure module imports rlctl.drills.crew",
            id="an impure part of a package",
        ),
        pytest.param(
            "rlctl/secrets.py", "def f():\n import psutil", "a pure module imports psutil", id="a late import"
        ),
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
