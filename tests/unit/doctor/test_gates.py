"""Gates: what speaks against an operation, and that the table names only what can be found."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import rlctl
from rlctl.doctor.gates import GATES, Operation, closing
from rlctl.doctor.model import Check, Severity, failed, passed, unread, warned
from rlctl.plan.findings import NODE_FENCED

ROOT = Path(rlctl.__file__).parent
MAKERS = {"passed", "warned", "failed", "unread", "_degraded", "_critical"}


def constants(module: ast.Module) -> Iterator[str]:
    """The names given to checks and findings: the first argument of their makers, `name = ...`, and tables of codes."""
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Name(id=maker), args=[ast.Constant(value=str(name)), *_]) if maker in MAKERS:
                yield name
            case ast.Assign(targets=[ast.Name(id="name")], value=ast.Constant(value=str(name))):
                yield name
            case ast.Assign(
                targets=[ast.Tuple(elts=[ast.Name(id="name"), *_])],
                value=ast.Tuple(elts=[ast.Constant(value=str(name)), *_]),
            ):
                yield name
            case ast.Tuple(elts=[ast.Constant(value=str(name)), ast.Constant(value=str(_))]) if "node-" in name:
                yield name


@cache
def names(where: str) -> frozenset[str]:
    return frozenset(
        name for path in sorted(ROOT.glob(where)) for name in constants(ast.parse(path.read_text("utf-8")))
    )


def findings() -> frozenset[str]:
    return names("plan/findings.py") | {NODE_FENCED}


def test_the_names_are_found_in_the_source() -> None:
    assert {"node-down", "two-primaries", "users-drift"} <= findings()
    assert {"disk", "ports", "memory-used", "host-facts"} <= names("doctor/*.py")
    assert {"server", "scripts-run"} <= names("execute/doctor.py")


@pytest.mark.parametrize("operation", list(Operation))
def test_a_gate_names_only_what_exists(operation: Operation) -> None:
    assert set(GATES[operation]) <= findings() | names("doctor/*.py") | names("execute/doctor.py")
    assert set(GATES[operation].values()) <= {Severity.WARNING, Severity.CRITICAL}


def test_a_drill_wants_a_fleet_without_findings() -> None:
    assert findings() <= set(GATES[Operation.DRILL])


@pytest.mark.parametrize(
    ("check", "closed"),
    [
        pytest.param(warned("node-down", "node-0", "down", "deploy"), {"failover", "drill", "release"}, id="down"),
        pytest.param(failed("two-primaries", "shard 0", "both", "wait"), set(Operation), id="two primaries"),
        pytest.param(warned("node-fenced", "node-0", "fenced", "unfence"), set(Operation) - {"deploy"}, id="fenced"),
        pytest.param(warned("users-drift", "node-0", "off", "deploy"), {"failover", "drill"}, id="users"),
        pytest.param(warned("memory-used", "node-0", "much", "more"), set(), id="much memory"),
        pytest.param(failed("memory-used", "node-0", "full", "more"), {"deploy", "drill", "release"}, id="no memory"),
        pytest.param(unread("disk", "this machine", "unread", "df"), set(), id="unread"),
        pytest.param(passed("ports", "limiter", "free"), set(), id="passed"),
        pytest.param(warned("swap-in-use", "this machine", "used", "free"), set(), id="of no gate"),
    ],
)
def test_what_closes_which_gate(check: Check, closed: set[str]) -> None:
    assert {operation for operation in Operation if closing(operation, [check])} == closed
