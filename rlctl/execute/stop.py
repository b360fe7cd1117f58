"""Asking rlctl to stop: once at the next safe point, twice at once."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from rlctl.errors import HungUp, Interrupted, Terminated

_WAKE_UP_S = 0.2
_KINDS: dict[int, type[Interrupted]] = {
    signal.SIGINT: Interrupted,
    signal.SIGTERM: Terminated,
    signal.SIGHUP: HungUp,
}


class StopFlag:
    """Set by a signal, looked at between steps and in every wait."""

    def __init__(self) -> None:
        self._signal: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether somebody asked."""
        return self._signal is not None

    @property
    def kind(self) -> type[Interrupted]:
        """What ending now is called."""
        return _KINDS.get(self._signal or signal.SIGINT, Interrupted)

    def check(self, *, done: int = 0, of: int = 0) -> None:
        """Raise at a safe point when somebody asked."""
        if self._signal is None:
            return
        progress = f" after {done} of {of} steps" if of else ""
        raise self.kind(
            f"stopped at a safe point{progress}; what was done stays",
            hint="the same command carries on from here",
        )

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Listen to SIGINT, SIGTERM and SIGHUP; the handlers are put back afterwards."""
        with _handled(self._asked):
            yield

    def _asked(self, number: int, _frame: FrameType | None) -> None:
        if self._signal is not None:
            if number == signal.SIGHUP:
                # No impatience: when a terminal closes, the kernel and the shell each send one.
                return
            _say(b"aborted in the middle of a step; run the same command to carry on")
            os._exit(_KINDS[number].exit_code)
        self._signal = number
        _say(b"stopping at the next safe point; once more aborts at once")


@contextmanager
def ended_by_signals(message: str, *, hint: str) -> Iterator[None]:
    """End a wait for a person at once on SIGINT, SIGTERM or SIGHUP; it would go on after a handler that returns."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise _KINDS[number](message, hint=hint)

    with _handled(end), _woken_up():
        yield


@contextmanager
def _woken_up() -> Iterator[None]:
    """What waits is interrupted again and again: of a signal that comes just before it, the wait knows nothing."""
    before = signal.signal(signal.SIGALRM, lambda _number, _frame: None)
    signal.setitimer(signal.ITIMER_REAL, _WAKE_UP_S, _WAKE_UP_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    # Under nohup a command goes on when its terminal closes.
    numbers = [one for one in _KINDS if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _say(text: bytes) -> None:
    """Write to stderr where that is possible: its terminal may be closed."""
    with suppress(OSError):
        os.write(2, b"\nrlctl: " + text + b"\n")
