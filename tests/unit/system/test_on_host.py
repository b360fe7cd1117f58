import json
import sys
from pathlib import Path

import pytest

from rlctl.system import on_host


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
    monkeypatch.setattr(on_host, "_systemctl", lambda *_words: "")
    on_host.main()
    assert json.loads(capsys.readouterr().out)["orphaned"] is orphaned
