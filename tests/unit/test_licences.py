"""Licences: Apache-2.0 for the project, GPL-3.0-or-later for the files that subclass classes of ansible-core."""

import ast
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GPL = "# SPDX-License-Identifier: GPL-3.0-or-later"
FOLDERS = ("rlctl", "playbooks", "tests", "benchmarks", "examples")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports_gpl(text: str) -> bool:
    """Whether a source imports ansible-core beyond `module_utils`, which has the BSD licence."""
    names = [
        name
        for node in ast.walk(ast.parse(text))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and node.level == 0
            else []
        )
    ]
    return any(name.split(".")[0] == "ansible" and not name.startswith("ansible.module_utils") for name in names)


def test_the_sources_that_import_gpl_code_say_so() -> None:
    labelled = {place(path) for path in SOURCES if path.read_text("utf-8").startswith(GPL + "\n")}
    importing = {place(path) for path in SOURCES if imports_gpl(path.read_text("utf-8"))}
    assert labelled == importing
    assert importing == {"playbooks/plugins/callback/rlctl_events.py", "playbooks/action_plugins/rlctl_files.py"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from ansible.plugins.action import ActionBase", True),
        ("import ansible", True),
        ("def f():\n    import ansible.errors", True),
        ("from ansible.module_utils.basic import AnsibleModule", False),
        ("from rlctl.system import ansible", False),
    ],
)
def test_which_imports_count(text: str, found: bool) -> None:  # noqa: FBT001
    assert imports_gpl(text) is found


def test_both_texts_are_there_and_shipped() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["license"] == "Apache-2.0"
    files = {place(path) for pattern in project["license-files"] for path in ROOT.glob(pattern)}
    assert files == {"LICENSE", "LICENSES/GPL-3.0-or-later.txt"}
    heads = {place(path): path.read_text("utf-8").split(maxsplit=4)[:4] for path in map(ROOT.joinpath, files)}
    assert heads["LICENSE"] == ["Apache", "License", "Version", "2.0,"]
    assert heads["LICENSES/GPL-3.0-or-later.txt"] == ["GNU", "GENERAL", "PUBLIC", "LICENSE"]


@pytest.mark.parametrize("path", sorted((ROOT / "playbooks/roles").glob("*/meta/main.yml")), ids=place)
def test_roles_name_the_licence(path: Path) -> None:
    assert yaml.safe_load(path.read_text("utf-8"))["galaxy_info"]["license"] == "Apache-2.0"


def test_the_package_is_marked_as_typed() -> None:
    assert (ROOT / "rlctl/py.typed").read_bytes() == b""
