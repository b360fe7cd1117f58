"""The modules of rlctl: their imports, and which of them their package's docstring declares pure.

A docstring that ends with "Pure." covers the whole folder; "Pure: `a`, `b`." names modules and folders of it.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
# A package may import only those before it. docs/architecture.md says where a new package belongs.
ORDER = (
    *("errors", "services", "secrets", "assets", "limits", "files", "topology", "system", "state", "scripts"),
    *("render", "observe", "targets", "plan", "doctor", "execute", "operations", "limiter", "rules", "reports"),
    *("capacity", "bench", "lab", "drills", "runbooks", "cli"),
)


@cache
def module_names() -> tuple[str, ...]:
    """The name of every module; a package is named for its `__init__`."""
    paths = (path.relative_to(ROOT).with_suffix("") for path in sorted((ROOT / "rlctl").rglob("*.py")))
    return tuple(".".join(path.parts).removesuffix(".__init__") for path in paths)


def module_of(name: str) -> Path:
    """The file of a module."""
    path = ROOT / name.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def imported_modules(name: str, tree: ast.Module | None = None) -> set[str]:
    """Every import of the module: modules of rlctl by full name, others by their top-level package."""
    tree = tree or ast.parse(module_of(name).read_text("utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {named_module(node.module, alias.name) for alias in node.names}
    return {one if one.startswith("rlctl") else one.partition(".")[0] for one in found}


def named_module(package: str, name: str) -> str:
    """The module that `from PACKAGE import NAME` imports: PACKAGE.NAME if it is a module, else PACKAGE."""
    module = f"{package}.{name}"
    return module if module in module_names() else package


@cache
def pure_modules() -> frozenset[str]:
    """The modules that are declared pure."""
    return frozenset(pure for package in module_names() for pure in _declared(package))


def _declared(package: str) -> Iterator[str]:
    path = module_of(package)
    if path.name != "__init__.py":
        return
    text = " ".join((ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split())
    if text.endswith("Pure."):
        yield from (name for name in module_names() if name == package or name.startswith(f"{package}."))
    elif found := re.search(r"Pure: ((?:`\w+`(?:, )?)+)\.$", text):
        for name in re.findall(r"`(\w+)`", found[1]):
            below = [one for one in module_names() if f"{one}.".startswith(f"{package}.{name}.")]
            assert below, f"{package} calls {name} pure, which is not there"
            yield from below
