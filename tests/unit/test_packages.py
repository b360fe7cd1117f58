"""Imports keep the order of the packages, and modules that their package's docstring declares pure do no I/O.

A docstring that ends with "Pure." covers the whole folder; "Pure: `a`, `b`." names modules and folders of it.
"""

import ast
from pathlib import Path

import pytest

from tests.unit.sources import ORDER, ROOT, imported_modules, module_names, module_of, pure_modules

# Services run the runtime library. It may import only these packages, and these import only the standard library.
ONLY = {"limiter": {"assets", "errors", "limits", "secrets", "services"}}
IMPURE = {
    *("asyncio", "click", "cryptography", "docker", "fcntl", "os", "psutil", "redis", "rich", "selectors", "shutil"),
    *("socket", "subprocess", "tempfile", "time"),
}
FILE_CALLS = {"open", "read_bytes", "read_text", "write_bytes", "write_text", "iterdir", "glob", "mkdir", "unlink"}


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def wrong_direction(module: str, imported: str) -> str | None:
    """Why the first module may not import the second; None if it may."""
    own, other = package_of(module), package_of(imported)
    if own == other or not other or own in {"", "__main__"}:
        return None
    if own not in ORDER or other not in ORDER:
        homeless = own if own not in ORDER else other
        return f"rlctl/{homeless} has no place in ORDER of tests/unit/sources.py; see docs/architecture.md"
    if ORDER.index(other) > ORDER.index(own) or other not in ONLY.get(own, {other}):
        return (
            f"{module} imports {imported}: rlctl/{own} may not import rlctl/{other}; move what both need further down"
        )
    return None


@pytest.mark.parametrize("module", module_names())
def test_packages_import_only_those_before_them(module: str) -> None:
    assert [why for one in sorted(imported_modules(module)) if (why := wrong_direction(module, one))] == []


def test_every_package_has_its_place() -> None:
    there = {package_of(module) for module in module_names()} - {"", "__main__"}
    assert there == set(ORDER)


def impurities(module: str, tree: ast.Module) -> list[str]:
    """What the module imports or calls that does I/O."""
    modules = imported_modules(module, tree)
    found = [f"{module} is pure and imports {one}" for one in sorted(modules & IMPURE)]
    ours = sorted(one for one in modules if one.startswith("rlctl.") and one not in pure_modules())
    found += [
        f"{module} is pure and imports {one}, which is not" for one in ours if module_of(one).name != "__init__.py"
    ]
    calls = {ast.unparse(node.func).split(".")[-1] for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return [*found, *(f"{module} is pure and calls {one}()" for one in sorted(calls & FILE_CALLS))]


@pytest.mark.parametrize("module", sorted(pure_modules()))
def test_pure_modules_do_no_more_than_compute(module: str) -> None:
    assert impurities(module, ast.parse(module_of(module).read_text("utf-8"))) == []


def test_most_packages_say_what_of_them_is_pure() -> None:
    assert {"rlctl.plan.planner", "rlctl.observe.parse", "rlctl.capacity.layout.redis"} <= pure_modules()
    assert not {"rlctl.execute.executor", "rlctl.system.redis", "rlctl.observe.collect"} & pure_modules()


@pytest.mark.parametrize(
    ("module", "text", "why"),
    [
        ("rlctl.plan.planner", "import socket", "rlctl.plan.planner is pure and imports socket"),
        ("rlctl.plan.planner", "from redis.crc import key_slot", "rlctl.plan.planner is pure and imports redis"),
        ("rlctl.plan.planner", "def f():\n import psutil", "rlctl.plan.planner is pure and imports psutil"),
        (
            "rlctl.observe.parse",
            "from rlctl.state.home import Home",
            "rlctl.observe.parse is pure and imports rlctl.state.home, which is not",
        ),
        ("rlctl.rules.load", "p.read_text()", "rlctl.rules.load is pure and calls read_text()"),
    ],
)
def test_an_impurity_is_found(module: str, text: str, why: str) -> None:
    assert why in impurities(module, ast.parse(text))


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("rlctl.plan.planner", "rlctl.execute.executor"),
        ("rlctl.limiter.core.calls", "rlctl.topology.model"),
        ("rlctl.newcomer.x", "rlctl.errors"),
    ],
)
def test_a_wrong_direction_is_found(module: str, imported: str) -> None:
    assert wrong_direction(module, imported) is not None
    assert wrong_direction("rlctl.execute.executor", "rlctl.plan.planner") is None


def test_file_of_a_module() -> None:
    assert module_of("rlctl.plan.planner") == ROOT / "rlctl/plan/planner.py"
    assert module_of("rlctl.plan") == Path(ROOT / "rlctl/plan/__init__.py")
