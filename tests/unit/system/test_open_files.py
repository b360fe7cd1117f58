"""A process that can open no more files says so of itself, and nothing of the nodes."""

from collections.abc import Callable
from errno import EMFILE, ENFILE, ENOENT
from pathlib import Path

import pytest

from rlctl.cli import main
from rlctl.errors import Unreachable
from rlctl.system.files import append_line, read_own
from rlctl.system.listeners import listening_socket
from rlctl.system.open_files import limit_reached
from rlctl.system.process import processes_below
from tests.limits import no_file_left


def test_only_the_limits_are_told() -> None:
    assert limit_reached(OSError(ENOENT, "no such file")) is None
    assert limit_reached(ValueError()) is None
    own, machine = limit_reached(OSError(EMFILE, "")), limit_reached(OSError(ENFILE, ""))
    assert own is not None
    assert machine is not None
    assert "ulimit -n 1024" in own.hint
    assert "this machine" in machine.message


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda _folder: listening_socket("127.0.0.1", 1), id="listener"),
        pytest.param(processes_below, id="processes"),
        pytest.param(lambda folder: read_own(folder / "file"), id="read"),
        pytest.param(lambda folder: append_line(folder / "file", "line"), id="append"),
    ],
)
def test_it_is_no_fault_of_what_is_asked(tmp_path: Path, ask: Callable[[Path], object]) -> None:
    with no_file_left(), pytest.raises((Unreachable, OSError)) as caught:
        ask(tmp_path)
    told = caught.value if isinstance(caught.value, Unreachable) else limit_reached(caught.value)
    assert told is not None
    assert "files at once and needs more for this command" in told.message


def test_a_command_ends_with_the_limit_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def exhausted(*_arguments: object, **_options: object) -> None:
        raise OSError(EMFILE, "Too many open files")

    monkeypatch.setattr(main.root, "main", exhausted)
    assert main.run(["status"]) == 6
    said = capsys.readouterr().err
    assert said.startswith("rlctl: rlctl may open ")
    assert "hint: run `ulimit -n 1024`" in said
