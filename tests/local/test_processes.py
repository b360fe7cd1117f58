"""Programs that rlctl runs to their end: after a time-out or a stop, they may clean up first."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from rlctl.system import process
from rlctl.system.clock import SystemClock
from rlctl.system.process import Finished, GracefulRunner, ProcessId, ProcessRunner, Runner
from tests.local.driver import PATIENCE_S, wait_for

TIDY = """
import pathlib, signal, sys, time
def end(*_):
    pathlib.Path(sys.argv[2]).write_text("tidy")
    print("ended")
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[1]).write_text("begun")
time.sleep(600)
"""
STUBBORN = TIDY.replace("signal.SIGTERM, end", "signal.SIGTERM, signal.SIG_IGN")


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "begun", tmp_path / "tidy"


def argv(program: str, places: tuple[Path, Path]) -> list[str]:
    return [sys.executable, "-c", program, *map(str, places)]


def once(begun: Path) -> Callable[[], bool]:
    """Stop as soon as the program runs."""
    return begun.exists


class LateOnceBegun(SystemClock):
    """The time-out comes as soon as the program runs, and not before."""

    def __init__(self, begun: Path) -> None:
        self._begun = begun

    def monotonic(self) -> float:
        return super().monotonic() + (PATIENCE_S if self._begun.exists() else 0.0)


def test_a_late_program_puts_things_in_order(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "SystemClock", lambda: LateOnceBegun(places[0]))
    done = GracefulRunner(is_stopped=lambda: False).run(argv(TIDY, places), timeout_s=PATIENCE_S)
    assert done == Finished(code=143, output="ended\n", errors="", timed_out=True)
    assert places[1].read_text() == "tidy"


def test_a_stopped_program_tells_how_it_ended(places: tuple[Path, Path]) -> None:
    done = GracefulRunner(is_stopped=once(places[0])).run(argv(TIDY, places), timeout_s=PATIENCE_S)
    assert (done.code, done.output) == (143, "ended\n")


def test_a_stubborn_program_is_killed(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "END_S", 0.2)
    done = GracefulRunner(is_stopped=once(places[0])).run(argv(STUBBORN, places), timeout_s=PATIENCE_S)
    assert done.code == -9
    assert not places[1].exists()


@pytest.mark.parametrize(
    "runner", [ProcessRunner(), GracefulRunner(is_stopped=lambda: False)], ids=["plain", "patient"]
)
def test_what_is_no_text_is_replaced(runner: Runner) -> None:
    done = runner.run(
        [sys.executable, "-c", "import os; os.write(1, b'a\\xffb'); os.write(2, b'x' * 3_000_000)"], timeout_s=60
    )
    assert done.output == "a\N{REPLACEMENT CHARACTER}b"
    assert len(done.errors) == 3_000_000


# The main thread ends and another one continues, as in a server that is still closing its files.
HEADLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_lives_as_long_as_one_of_its_threads() -> None:
    started = subprocess.Popen([sys.executable, "-c", HEADLESS])
    try:
        found = ProcessId.of(started.pid)
        assert found is not None
        wait_for(lambda: psutil.Process(started.pid).status() == psutil.STATUS_ZOMBIE, "the end of the first thread")
        assert found.is_alive()
        assert found.is_ending()
        started.kill()
        wait_for(lambda: not found.is_alive(), "the end of the process, before anybody reaps it")
    finally:
        started.kill()
        started.wait()
