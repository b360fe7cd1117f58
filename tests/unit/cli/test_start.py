"""What a command imports before it begins. Imports inside functions are left out: they wait until they are needed."""

import ast
import sys
from collections.abc import Iterator

import pytest

from rlctl.cli.main import COMMANDS
from tests.unit.sources import module_names, module_of, named_module

EVERY_COMMAND = {"click", "psutil", "yaml"}
ALSO = {"runbook": {"jmespath"}, "capacity": {"markupsafe"}}
# Slow to import, and of no use to a command that looks at a fleet without TLS.
SLOW = {"asyncio", "email", "http", "logging", "multiprocessing", "ssl", "statistics", "unittest", "xml"}
MODULES = {command: where.partition(":")[0] for command, (where, _help) in COMMANDS.items()}


def loaded_with(*modules: str) -> set[str]:
    """Every module of rlctl that is imported with these, and the first words of all others."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        parts = name.split(".") if name.startswith("rlctl") else [name.partition(".")[0]]
        for depth in range(1, len(parts) + 1):
            module = ".".join(parts[:depth])
            if module not in found:
                found.add(module)
                waiting += imports_of(module) if module in module_names() else ()
    return found


def imports_of(module: str) -> Iterator[str]:
    return _imports(ast.parse(module_of(module).read_text("utf-8")))


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (named_module(node.module, alias.name) for alias in node.names)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_for_types(node):
            yield from _imports(node)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def libraries(modules: set[str]) -> set[str]:
    return {name for name in modules if not name.startswith("rlctl")} - sys.stdlib_module_names


def test_help_needs_click_only() -> None:
    loaded = loaded_with("rlctl.__main__", "rlctl.cli.main")
    assert libraries(loaded) == {"click"}
    assert not loaded & SLOW
    packages = {name.split(".")[1] for name in loaded if name.count(".") > 0}
    assert packages == {"__main__", "cli", "errors", "files", "system"}


@pytest.mark.parametrize("command", MODULES)
def test_a_command_imports_no_library_before_it_needs_it(command: str) -> None:
    assert libraries(loaded_with(MODULES[command])) <= EVERY_COMMAND | ALSO.get(command, set())


@pytest.mark.parametrize("command", ["status", "deploy", "failover", "fence", "env", "history"])
def test_a_command_for_incidents_imports_what_it_uses(command: str) -> None:
    loaded = loaded_with(MODULES[command])
    assert not loaded & SLOW
    for package in ("bench", "capacity", "drills", "lab", "limiter", "rules", "reports"):
        assert f"rlctl.{package}" not in loaded
    assert not {"rlctl.runbooks.page", "rlctl.scripts.manifest"} & loaded


def test_a_failure_finds_its_page_without_reading_pages() -> None:
    loaded = {name for name in loaded_with("rlctl.runbooks.answers") if name.startswith("rlctl.")}
    assert loaded == {"rlctl.runbooks", "rlctl.runbooks.answers", "rlctl.assets", "rlctl.errors"}


def test_the_library_needs_the_standard_library_only() -> None:
    loaded = loaded_with("rlctl.limiter", "rlctl.limiter.threads", "rlctl.limiter.aio")
    assert libraries(loaded) == set()
