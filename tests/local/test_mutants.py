"""scripts/mutants on a small package: the mutants that it finds, and that it does not change the sources."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.driver import PATIENCE_S

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "mutants"
SOURCE = "def is_large(size: int) -> bool:\n    return size >= 10\n"
TEST = (
    "from rlctl.sample.sizes import is_large\n\n\ndef test_it() -> None:\n    assert is_large({}) and not is_large(9)\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    texts = {
        "rlctl/__init__.py": "",
        "rlctl/sample/__init__.py": "",
        "rlctl/sample/sizes.py": SOURCE,
        "tests/unit/sample/test_sizes.py": TEST.format(10),
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "scripts").mkdir()
    shutil.copy2(SCRIPT, tmp_path / "scripts")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


def sample(project: Path, *options: str, package: str = "sample") -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-B", project / "scripts" / "mutants", package, *options]
    return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=PATIENCE_S)


def test_survivors_are_named_and_the_rest_is_counted(project: Path) -> None:
    """Three mutants: a test with 10 detects `> 10`, `>= 11` and an early return."""
    assert sample(project).stdout == "killed 3 of 3 (100 %)\n"
    (project / "tests/unit/sample/test_sizes.py").write_text(TEST.format(11), encoding="utf-8")
    lines = sample(project).stdout.splitlines()
    assert lines[-1] == "killed 1 of 3 (33 %)"
    found = {tuple(lines[at : at + 3]) for at in range(0, len(lines) - 1, 3)}
    place, before = "rlctl/sample/sizes.py:2", "  - return size >= 10"
    assert found == {(place, before, "  + return (size > 10)"), (place, before, "  + return size >= 11")}
    assert (project / "rlctl/sample/sizes.py").read_text(encoding="utf-8") == SOURCE
    assert not list(project.rglob("__pycache__"))


def test_a_pure_package_is_judged_by_the_tests_of_the_copy(project: Path) -> None:
    """The script itself imports tests.unit.sources, to learn which modules are pure."""
    for name in ("tests/conftest.py", "tests/__init__.py", "tests/unit/__init__.py"):
        (project / name).touch()
    shutil.copy2(ROOT / "tests/unit/sources.py", project / "tests/unit")
    shutil.move(project / "rlctl/sample", project / "rlctl/reports")
    (project / "rlctl/reports/__init__.py").write_text('"""Sizes. Pure."""\n', encoding="utf-8")
    shutil.move(project / "tests/unit/sample", project / "tests/unit/reports")
    test = project / "tests/unit/reports/test_sizes.py"
    test.write_text(TEST.format(10).replace("sample", "reports"), encoding="utf-8")
    assert sample(project, package="reports").stdout.startswith("killed 3 of 3 (100 %), goal")


def test_it_ends_in_time(project: Path) -> None:
    assert sample(project, "--minutes", "0").stdout == "time was up after 0 of 3 mutants\nkilled 0 of 0 (0 %)\n"


def test_tests_that_fail_anyway_prove_nothing(project: Path) -> None:
    (project / "tests/unit/sample/test_sizes.py").write_text(TEST.format(1), encoding="utf-8")
    ran = sample(project)
    assert ran.returncode == 1
    assert "the tests fail without any mutant" in ran.stderr
