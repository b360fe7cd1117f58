"""The codes of findings and checks, read from the source, so that no list of them can be incomplete."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import rlctl

ROOT = Path(rlctl.__file__).parent
MAKERS = {"passed", "warned", "failed", "unread", "degraded", "critical", "Finding"}


@cache
def sayings(where: str) -> frozenset[str]:
    """The codes in all modules that match the pattern."""
    return frozenset(code for path in sorted(ROOT.glob(where)) for code in _codes(ast.parse(path.read_text("utf-8"))))


def _codes(module: ast.AST) -> Iterator[str]:
    """The codes in one source: the first argument or `code` of a constructor, `name = ...`, and tables of codes."""
    nodes = list(ast.walk(module))
    constants = {ast.unparse(one.targets[0]): one.value for one in nodes if isinstance(one, ast.Assign)}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=maker)) if maker in MAKERS:
                given = [*(one.value for one in node.keywords if one.arg == "code"), *node.args][:1]
                yield from _texts([constants.get(ast.unparse(one), one) for one in given])
            case ast.Assign(targets=[ast.Name(id="name")], value=value):
                yield from _texts([value])
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id="name"), *_])], value=ast.Tuple(elts=[value, *_])):
                yield from _texts([value])
            case ast.Tuple(elts=[ast.Constant(value=str(code)), ast.Constant(value=str(_))]) if "node-" in code:
                yield code


def _texts(values: list[ast.expr]) -> Iterator[str]:
    return (one.value for one in values if isinstance(one, ast.Constant) and isinstance(one.value, str))
