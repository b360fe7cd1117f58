"""SIGKILL a command at a step of its progress or a line of its journal, instead of after some time."""

import fcntl
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rlctl.execute.journal import JournalEntry, read
from rlctl.state.home import Home
from tests.driver import PATIENCE_S, Fleet
from tests.seed import chance

_STEP = re.compile(rb"\[ *(\d+)/(\d+)\] ")
# When the test reads step k, the command may have printed the next one and done the one after it.
AHEAD = 2
_MOST = 1 << 16
# A command may write two lines of a journal within a few milliseconds.
LOOK_EVERY_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """A command that was killed after it had printed step `step` of `of`, with its operation in the journal."""

    step: int
    of: int
    operation: JournalEntry


def kill_in(fleet: Fleet, stretch: int, *words: str, stretches: int) -> Killed:
    """Kill a command in one of `stretches` equal parts of its plan, at the step that the seed chooses.

    At least one step is done then, and at least one is not.
    """
    where = chance(f"{words[0]}, stretch {stretch} of {stretches}").random()

    def chosen(of: int) -> int:
        last = of - AHEAD - 1
        assert last >= 1, f"{of} steps are too few to be killed between two of them"
        return 1 + int(last * (stretch + where) / stretches)

    killed = _kill(fleet, words, chosen)
    assert len(killed.operation.steps) < killed.of
    return killed


def kill_at_step(fleet: Fleet, step: int, *words: str) -> Killed:
    """Kill a command once it has printed this step."""
    return _kill(fleet, words, lambda _of: step)


def kill_at_line(fleet: Fleet, line: int, *words: str) -> tuple[int, str]:
    """Kill a command once it has printed this many lines, unless it ends before. Returns its code and output."""
    reading, command = _spawn(fleet, words)
    said: list[bytes] = []
    try:
        while len(said) < line and (more := os.read(reading, _MOST)):
            said.append(more)
        if len(said) == line:
            command.kill()
    finally:
        os.close(reading)
        command.communicate(timeout=PATIENCE_S)
    return command.returncode, b"".join(said).decode()


def kill_at_journal_line(fleet: Fleet, line: int, *words: str) -> JournalEntry:
    """Kill a command once it has written this many lines of its journal. It may write more until it dies."""
    lines = _lines(fleet) + line
    command = fleet.spawn(*words)
    deadline = time.monotonic() + PATIENCE_S
    while _lines(fleet) < lines:
        assert command.poll() is None or _lines(fleet) >= lines, command.communicate()
        assert time.monotonic() < deadline, f"the journal has no line {line} of {words}"
        time.sleep(LOOK_EVERY_S)
    command.kill()
    command.communicate(timeout=PATIENCE_S)
    return last_operation(fleet)


def last_operation(fleet: Fleet) -> JournalEntry:
    return read(_journal(fleet))[-1]


def _journal(fleet: Fleet) -> Path:
    return Home(fleet.home).journal(fleet.name)


def _lines(fleet: Fleet) -> int:
    return _journal(fleet).read_bytes().count(b"\n") if _journal(fleet).exists() else 0


def _kill(fleet: Fleet, words: tuple[str, ...], chosen: Callable[[int], int]) -> Killed:
    reading, command = _spawn(fleet, words)
    said: list[bytes] = []
    try:
        step, of = next((step, of) for step, of in _steps(reading, said) if step == chosen(of))
    except StopIteration:
        raise AssertionError(f"{words} ended before it was killed:\n{b''.join(said).decode()}") from None
    finally:
        command.kill()
        os.close(reading)
        command.communicate(timeout=PATIENCE_S)
    operation = last_operation(fleet)
    assert operation.outcome == "unfinished"
    assert step <= len(operation.steps) <= step + AHEAD
    return Killed(step=step, of=of, operation=operation)


def _spawn(fleet: Fleet, words: tuple[str, ...]) -> tuple[int, "subprocess.Popen[str]"]:
    """A command and the pipe for its progress, which holds one line so that the command cannot run far ahead."""
    reading, writing = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
    try:
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, os.sysconf("SC_PAGESIZE"))
        return reading, fleet.spawn(*words, stderr=writing)
    finally:
        os.close(writing)


def _steps(reading: int, said: list[bytes]) -> Iterator[tuple[int, int]]:
    while line := os.read(reading, _MOST):
        said.append(line)
        if found := _STEP.match(line):
            yield int(found[1]), int(found[2])
