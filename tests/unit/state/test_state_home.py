"""RLCTL_HOME, whoever spells it."""

from pathlib import Path

import pytest

from rlctl.state.home import Home


@pytest.mark.parametrize("spelling", ["{0}/home", "{0}/home/", "{0}/fleets/../home", "{0}/./home", "home"])
def test_a_home_has_one_path(spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLCTL_HOME", spelling.format(tmp_path))
    assert Home.from_environment().root == tmp_path / "home"


def test_the_folder_for_data_is_meant_where_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLCTL_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", f"{tmp_path}/a/..")
    assert Home.from_environment().root == tmp_path / "rlctl"
