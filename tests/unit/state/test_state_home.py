"""RLCTL_HOME, from the environment and normalised."""

from pathlib import Path

import pytest

from rlctl.errors import Refused, UsageFault
from rlctl.state.home import Home
from rlctl.topology.nodes import NodeName


@pytest.mark.parametrize("spelling", ["{0}/home", "{0}/home/", "{0}/fleets/../home", "{0}/./home", "home"])
def test_a_home_has_one_path(spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLCTL_HOME", spelling.format(tmp_path))
    assert Home.from_environment().root == tmp_path / "home"


def test_the_folder_for_data_is_meant_where_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLCTL_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", f"{tmp_path}/a/..")
    assert Home.from_environment().root == tmp_path / "rlctl"


@pytest.mark.parametrize("broken", ["\n", "\r", "\t", "\x1b", "\x7f", "\x85", "\u2028", "\udcff"], ids=ascii)
@pytest.mark.parametrize("variable", ["RLCTL_HOME", "XDG_DATA_HOME"])
def test_a_line_break_in_the_name_is_refused(
    variable: str, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RLCTL_HOME", raising=False)
    monkeypatch.setenv(variable, f"{tmp_path}/a{broken}b")
    with pytest.raises(UsageFault) as caught:
        Home.from_environment()
    assert broken not in caught.value.message
    assert "RLCTL_HOME" in caught.value.hint


@pytest.mark.parametrize("name", ["a b", "a'b", 'a"b', "$(a)", "ümläut", "\u202eabc", "{{ a }}", "a\\b"])
def test_other_odd_names_are_taken(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLCTL_HOME", str(tmp_path / name))
    assert Home.from_environment().root == tmp_path / name


@pytest.mark.parametrize("name", ["", "fleets", "journal", "locks", "drills", "runbooks", "bugs"])
def test_a_folder_that_others_may_write_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    (home / name).mkdir(parents=True)
    monkeypatch.setenv("RLCTL_HOME", str(home))
    Home.from_environment()
    (home / name).chmod(0o777)
    with pytest.raises(Refused, match=f"other users may write to {home / name}: "):
        Home.from_environment()


def test_a_stray_file_among_the_nodes_is_no_node(tmp_path: Path) -> None:
    fleet = Home(tmp_path).fleet("limiter")
    assert fleet.placed() == ()
    for node in ("node-1", "node-0"):
        fleet.node(NodeName(node)).mkdir(parents=True)
    (fleet.nodes / ".DS_Store").touch()
    assert fleet.placed() == ("node-0", "node-1")
