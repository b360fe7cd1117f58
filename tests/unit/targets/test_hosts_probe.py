import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rlctl.targets.hosts import probe


@pytest.mark.parametrize(
    ("folders", "orphaned"),
    [
        pytest.param((), False, id="untouched"),
        pytest.param(("etc/.host",), True, id="only what hosts share"),
        pytest.param(("etc/limiter",), True, id="the fleet's own without nodes"),
        pytest.param(("etc/limiter/node-0",), False, id="a node"),
        pytest.param(("etc/limiter", "data/limiter/node-0"), False, id="data of a node"),
        pytest.param(("etc/.host", "etc/other/node-0"), False, id="another fleet"),
        pytest.param(("etc/.host", "data/other"), False, id="another fleet's data"),
        pytest.param(("etc/limiter", "etc/other/node-0"), True, id="beside another fleet"),
    ],
)
def test_what_a_killed_run_left_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    folders: tuple[str, ...],
    orphaned: bool,  # noqa: FBT001 - one column of the table
) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    asked = {"settings": f"{tmp_path}/etc/limiter", "data": f"{tmp_path}/data/limiter", "patterns": [], "nodes": {}}
    monkeypatch.setattr(sys, "argv", ["-", json.dumps(asked)])
    monkeypatch.setattr(probe, "_systemctl", lambda *_words: "")
    probe.main()
    assert json.loads(capsys.readouterr().out)["orphaned"] is orphaned


@pytest.mark.parametrize(
    ("folders", "record", "orphaned", "packages"),
    [
        pytest.param((), '{"packages": ["a", "b"], "masked": [], "kept": true}', False, ["a", "b"], id="only packages"),
        pytest.param((), '{"packages": ["a"], "masked": []}', True, [], id="a destroy that was killed"),
        pytest.param((), '{"packages": ["a"], "kept": false}', True, [], id="a fleet came and went since, not wholly"),
        pytest.param((), '{"packages": [', True, [], id="a damaged record"),
        pytest.param(("etc/other",), '{"packages": ["a"], "kept": true}', False, [], id="another fleet"),
    ],
)
def test_packages_that_no_fleet_needs_are_told_and_are_no_remains(
    tmp_path: Path,
    folders: tuple[str, ...],
    record: str,
    orphaned: bool,  # noqa: FBT001 - one column of the table
    packages: list[str],
) -> None:
    for folder in ("etc/.host", *folders):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/.host/packages.json").write_text(record, encoding="utf-8")
    places = tmp_path / "etc/limiter", tmp_path / "data/limiter"
    assert probe._is_orphaned(*places) is orphaned
    assert probe._kept_packages(*places) == packages


def _link(path: Path) -> None:
    shadow = path.with_name("shadow")
    shadow.write_text("root:secret", encoding="utf-8")
    path.symlink_to(shadow)


def _oversized(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(64 * 1024**2)


@pytest.mark.parametrize(
    "put",
    [
        pytest.param(_link, id="a link to another file"),
        pytest.param(os.mkfifo, id="a FIFO without a writer"),
        pytest.param(_oversized, id="a file that would fill the memory"),
        pytest.param(os.mkdir, id="a folder"),
        pytest.param(lambda _path: None, id="nothing"),
    ],
)
def test_only_a_regular_file_of_a_server_is_read(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "nodes.conf")
    put(tmp_path / "sentinel.conf")
    node = probe._node(tmp_path, {"address": "127.0.0.1", "bus_port": 0}, 1)
    assert (node["cluster_conf"], node["sentinel_conf"]) == ("", "")


def test_a_servers_own_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "nodes.conf").write_text("x" * 1024**2, encoding="ascii")
    assert len(probe._node(tmp_path, {"address": "127.0.0.1", "bus_port": 0}, 1)["cluster_conf"]) == 1024**2
