"""The journal: what is written is read again, also after a crash in the middle of a line."""

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rlctl.execute.journal import Journal, read

NOW = datetime(2030, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


class FakeClock:
    """Time that stands still."""

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)

    def now(self) -> datetime:
        return NOW


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "limiter.jsonl"


def begun(path: Path, command: str = "deploy") -> Journal:
    journal = Journal(path, FakeClock())
    journal.begin(command, ["deploy", "--yes"])
    return journal


def test_a_whole_operation(path: Path) -> None:
    journal = begun(path)
    journal.step("node-0: start", "done")
    journal.step("node-1: start", "failed: no memory")
    journal.end("partly-done")
    (operation,) = read(path)
    assert (operation.command, operation.argv, operation.outcome) == ("deploy", ("deploy", "--yes"), "partly-done")
    assert (operation.started, operation.ended) == ("2030-01-02T03:04:05.678+00:00",) * 2
    assert operation.steps == (("node-0: start", "done"), ("node-1: start", "failed: no memory"))
    assert operation.pid > 0


def test_the_json_of_an_operation(path: Path) -> None:
    begun(path).end("done")
    document = read(path)[0].to_json()
    assert list(document) == ["id", "command", "user", "host", "argv", "started", "ended", "outcome", "steps"]


def test_an_operation_that_was_killed_is_unfinished(path: Path) -> None:
    begun(path).step("node-0: start", "done")
    (operation,) = read(path)
    assert (operation.outcome, operation.ended) == ("unfinished", None)
    assert len(operation.steps) == 1


def test_operations_of_two_writers_are_kept_apart(path: Path) -> None:
    one, two = begun(path), begun(path, "destroy")
    one.step("of the first", "done")
    two.step("of the second", "done")
    two.end("done")
    one.end("timeout")
    assert [(op.command, op.outcome, op.steps[0][0]) for op in read(path)] == [
        ("deploy", "timeout", "of the first"),
        ("destroy", "done", "of the second"),
    ]


@pytest.mark.parametrize(
    "torn",
    [
        pytest.param('{"op":"abc","at":"20', id="in the middle"),
        pytest.param("\x00\x00\x00", id="zeros"),
        pytest.param("[]", id="a list"),
        pytest.param('"text"', id="a text"),
        pytest.param('{"at":"now"}', id="no operation"),
        pytest.param("", id="an empty line"),
    ],
)
def test_a_torn_line_costs_only_itself(path: Path, torn: str) -> None:
    begun(path).end("done")
    with path.open("a", encoding="utf-8") as stream:
        stream.write(torn + "\n")
    begun(path, "destroy").end("done")
    assert [operation.command for operation in read(path)] == ["deploy", "destroy"]


def test_an_operation_after_a_torn_line_without_its_end_is_not_lost(path: Path) -> None:
    """The power went in the middle of a write; the next line must not join the torn one."""
    begun(path).end("done")
    with path.open("a", encoding="utf-8") as stream:
        stream.write('{"op":"abc","at":"20')
    begun(path, "destroy").end("done")
    assert [operation.command for operation in read(path)] == ["deploy", "destroy"]


def test_events_without_their_beginning_are_passed_over(path: Path) -> None:
    path.write_text('{"op":"abc","at":"now","event":"end","outcome":"done"}\n', encoding="utf-8")
    assert read(path) == ()


def test_no_journal_is_no_history(path: Path) -> None:
    assert read(path) == ()


def test_nobody_else_may_read_it(path: Path) -> None:
    begun(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
