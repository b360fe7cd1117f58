"""Dependencies: pyproject.toml and requirements.lock agree, and the output of `make audit`."""

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
ENTRY = re.compile(
    r"^(?P<requirement>[a-z0-9][^\\\n]*?)(?P<hashes>( \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE
)
PINNED = [Requirement(entry["requirement"]) for entry in ENTRY.finditer(LOCK)]
PYTHONS = ("3.11", "3.12", "3.13")


def direct() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return [Requirement(text) for text in (*extras["operator"], *extras["dev"])]


def test_the_library_alone_needs_no_package() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"] == []


def environment(python: str) -> dict[str, str]:
    return {
        "python_version": python,
        "python_full_version": f"{python}.7",
        "sys_platform": "linux",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }


def version(pin: Requirement) -> str:
    [specifier] = pin.specifier
    assert specifier.operator == "=="
    return specifier.version


def pins(name: str, python: str) -> list[Requirement]:
    """The distributions that a package installs for this Python."""
    same = (pin for pin in PINNED if pin.name == canonicalize_name(name))
    return [pin for pin in same if pin.marker is None or pin.marker.evaluate(environment(python))]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("wanted", direct(), ids=lambda wanted: wanted.name)
def test_every_direct_dependency_is_locked_inside_its_range(wanted: Requirement, python: str) -> None:
    [pin] = pins(wanted.name, python)
    assert wanted.specifier.contains(version(pin)), f"{pin} is not {wanted.specifier}; run `make lock`"


def test_the_lock_holds_versions_with_hashes_and_nothing_else() -> None:
    lines = [line for line in LOCK.splitlines() if not line.startswith("#")]
    assert len(PINNED) > len(direct())
    assert len(lines) == len(PINNED) + LOCK.count("--hash=sha256:")
    assert "://" not in LOCK
    assert "--index" not in LOCK


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        pytest.param("jinja2", "3.1.5", id="CVE-2025-27516"),
        pytest.param("cryptography", "44.0.0", id="CVE-2024-12797"),
        pytest.param("cryptography", "46.0.6", id="CVE-2026-39892"),
        pytest.param("ansible-core", "2.18.0", id="CVE-2024-11079"),
    ],
)
def test_known_bad_releases_are_outside_the_ranges(name: str, bad: str) -> None:
    [wanted] = [wanted for wanted in direct() if wanted.name == name]
    assert not wanted.specifier.contains(bad)
    assert any(specifier.operator == "<" for specifier in wanted.specifier)


VERDICT = runpy.run_path(str(ROOT / "scripts/audit"))["verdict"]
KNOWN = {"name": "redis", "version": "8.1.0", "vulns": []}
SKIPPED = {"name": "click", "skip_reason": "Dependency not found on PyPI and could not be audited: click (8.5.1)"}
BAD = {"name": "jinja2", "version": "3.1.5", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1.6"], "aliases": []}]}
NOT_AUDITED = "SKIPPED: the vulnerability database did not answer; requirements.lock was not audited"


@pytest.mark.parametrize(
    ("packages", "says", "code", "required"),
    [
        pytest.param([KNOWN], "1 packages of requirements.lock, no known vulnerability", 0, 0, id="clean"),
        pytest.param([], NOT_AUDITED, 0, 1, id="no report"),
        pytest.param([SKIPPED, SKIPPED], NOT_AUDITED, 0, 1, id="nothing known"),
        pytest.param([KNOWN, SKIPPED], "INCOMPLETE: 1 of 2 packages were not audited: click", 0, 1, id="partly"),
        pytest.param(
            [SKIPPED, BAD],
            "FAILED: requirements.lock contains packages with known vulnerabilities; see `make lock`\n"
            "  jinja2 3.1.5: PYSEC-1, fixed in 3.1.6",
            *(1, 1),
            id="vulnerable",
        ),
    ],
)
def test_what_an_audit_says(packages: list[dict[str, Any]], says: str, code: int, required: int) -> None:
    assert VERDICT(packages, is_required=False) == (says, code)
    assert VERDICT(packages, is_required=True) == (says, required)
