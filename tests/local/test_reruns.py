"""The session lists the reruns of all workers at its end, and too many of them fail it even if all tests passed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DRILLS = """\
import pytest
from tests.reruns import until_undisturbed

@pytest.mark.parametrize("number", range({drills}))
def test_drill(number):
    results = iter([number < {stalls}, False])
    until_undisturbed(lambda: next(results), f"drill {{number}}", lambda stalled: "stalled" if stalled else None)
"""


def session(folder: Path, *words: str, drills: int, stalls: int) -> "subprocess.CompletedProcess[str]":
    (folder / "test_them.py").write_text(DRILLS.format(drills=drills, stalls=stalls), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.reruns", "-p", "no:cacheprovider", "-q", *words, str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_reruns_are_listed(tmp_path: Path, words: tuple[str, ...]) -> None:
    ended = session(tmp_path, *words, drills=70, stalls=2)
    assert ended.returncode == 0, ended.stdout
    assert "2 reruns of 70 drills" in ended.stdout
    assert sorted(re.findall(r"test_drill\[\d\]: drill .*", ended.stdout)) == [
        "test_drill[0]: drill 0: stalled",
        "test_drill[1]: drill 1: stalled",
    ]


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_too_many_reruns_fail(tmp_path: Path, words: tuple[str, ...]) -> None:
    ended = session(tmp_path, *words, drills=10, stalls=2)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert "10 passed" in ended.stdout
    assert "2 reruns of 10 drills" in ended.stdout
