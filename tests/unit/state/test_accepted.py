"""The record of accepted directives may be lost, and never causes a failure."""

import json
from pathlib import Path

import pytest

from rlctl.state.accepted import AcceptedDirectives


def test_it_is_remembered_by_all_parts(tmp_path: Path) -> None:
    path = tmp_path / "accepted.json"
    AcceptedDirectives(path).add("7.0", [("hz", "1")])
    assert AcceptedDirectives(path).holds("7.0", [("hz", "1")])
    assert not AcceptedDirectives(path).holds("7.0", [("hz", "2")])
    assert not AcceptedDirectives(path).holds("8.0", [("hz", "1")])
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "[", "{}", "3", "\x00"])
def test_a_damaged_file_remembers_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "accepted.json"
    path.write_text(text, encoding="utf-8")
    assert not AcceptedDirectives(path).holds("7.0")
    AcceptedDirectives(path).add("7.0")
    assert AcceptedDirectives(path).holds("7.0")


def test_no_folder_is_made_for_it(tmp_path: Path) -> None:
    AcceptedDirectives(tmp_path / "home" / "accepted.json").add("7.0")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_let_be(tmp_path: Path) -> None:
    (tmp_path / "accepted.json").mkdir()
    accepted = AcceptedDirectives(tmp_path / "accepted.json")
    accepted.add("7.0")
    assert not accepted.holds("7.0")


def test_the_oldest_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "accepted.json"
    for number in range(250):
        AcceptedDirectives(path).add(number)
    assert len(json.loads(path.read_text(encoding="utf-8"))) == 200
    assert AcceptedDirectives(path).holds(249)
    assert not AcceptedDirectives(path).holds(0)
