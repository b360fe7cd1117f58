"""What a failed run left is undone where that is possible, and told where it is not."""

from pathlib import Path

import pytest

from rlctl.drills.record import runs
from rlctl.errors import Unreachable
from rlctl.execute.progress import Progress
from rlctl.lab.run_folder import RunFolder


class Told:
    """Keeps what is said."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def step(self, number: int, of: int, text: str, outcome: str) -> None:
        """Nobody asked."""


def test_what_cannot_be_undone_is_told_and_keeps_no_run_from_being_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_folder: RunFolder, _progress: Progress) -> tuple[str, ...]:
        raise Unreachable("cannot remove twin", hint="")

    monkeypatch.setattr(runs, "clean_up", fail)
    told = Told()
    runs.clean_up_failed(RunFolder(Path("20300102-030405-crash-0a1b")), told)
    left, again = told.notes
    assert left == "run 20300102-030405-crash-0a1b is not cleaned up: cannot remove twin"
    assert "`rlctl failover-drill heal`" in again
