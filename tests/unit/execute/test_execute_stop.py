"""A person who is asked can always leave by a signal."""

import _thread
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlctl.errors import HungUp, Interrupted, Terminated
from rlctl.execute.stop import StopFlag, ended_by_signals

PATIENCE_S = 20
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


@pytest.fixture(autouse=True)
def _hears_hangups() -> Iterator[None]:
    """Under nohup SIGHUP is ignored, and rlctl leaves it so."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGINT, Interrupted), (signal.SIGTERM, Terminated), (signal.SIGHUP, HungUp)]
)
def test_a_signal_that_did_not_interrupt_the_wait_ends_it_all_the_same(
    number: signal.Signals, kind: type[Interrupted]
) -> None:
    """As where it comes after the last look at signals and before the wait."""
    read_end, write_end = os.pipe()
    listening, ended, unheard = threading.Event(), threading.Event(), threading.Event()

    def wait_for_an_answer() -> None:
        listening.set()
        os.read(read_end, 100)

    def ask_to_end(waiting: Path) -> None:
        listening.wait()
        while waiting.read_text(encoding="ascii").rpartition(")")[2].split()[0] != "S":
            ended.wait(0.01)
        _thread.interrupt_main(number)
        if not ended.wait(PATIENCE_S):
            unheard.set()
            os.write(write_end, b"an answer")

    asking = threading.Thread(target=ask_to_end, args=(Path(f"/proc/self/task/{threading.get_native_id()}/stat"),))
    asking.start()
    try:
        with pytest.raises(kind, match="stopped"), ended_by_signals("stopped", hint="again"):
            wait_for_an_answer()
    finally:
        ended.set()
        asking.join()
        os.close(read_end)
        os.close(write_end)
    assert not unheard.is_set()


def test_nothing_is_left_behind() -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    with ended_by_signals("stopped", hint="again"):
        pass
    assert [signal.getsignal(number) for number in NUMBERS] == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_hangup_that_comes_twice_aborts_nothing() -> None:
    """The kernel and the shell each send one when a terminal closes."""
    stop = StopFlag()
    with stop.armed():
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        with pytest.raises(HungUp):
            stop.check()


def test_a_hangup_stays_ignored_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop = StopFlag()
    try:
        with stop.armed(), ended_by_signals("stopped", hint="again"):
            signal.raise_signal(signal.SIGHUP)
        assert not stop.is_set
    finally:
        signal.signal(signal.SIGHUP, before)
