"""Stop requests by signal: the first stops rlctl at the next safe point, the second at once."""

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
    """A flag that a signal sets; operations check it between steps and in every wait."""

    def __init__(self) -> None:
        self._signal: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether a stop was requested."""
        return self._signal is not None

    @property
    def kind(self) -> type[Interrupted]:
        """The error class for the signal: Interrupted, Terminated or HungUp."""
        return _KINDS.get(self._signal or signal.SIGINT, Interrupted)

    def check(self, *, done: int = 0, of: int = 0) -> None:
        """Raise if a stop was requested; call it at safe points only."""
        if self._signal is None:
            return
        progress = f" after {done} of {of} steps" if of else ""
        raise self.kind(
            f"stopped at a safe point{progress}; completed steps are not undone",
            hint="run the same command again: it continues from here",
        )

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Set the flag on SIGINT, SIGTERM and SIGHUP; restore the previous handlers afterwards."""
        with _handled(self._asked):
            yield

    def _asked(self, number: int, _frame: FrameType | None) -> None:
        if self._signal is not None:
            if number == signal.SIGHUP:
                # Not a second request: when a terminal closes, the kernel and the shell each send SIGHUP.
                return
            _say(b"aborted in the middle of a step; run the same command to carry on")
            os._exit(_KINDS[number].exit_code)
        self._signal = number
        _say(b"stopping at the next safe point; once more aborts at once")


@contextmanager
def ended_by_signals(message: str, *, hint: str) -> Iterator[None]:
    """End a wait for user input at once on SIGINT, SIGTERM or SIGHUP.

    The handler raises, because Python resumes the read after a handler that returns.
    """

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise _KINDS[number](message, hint=hint)

    with _handled(end), _woken_up():
        yield


@contextmanager
def _woken_up() -> Iterator[None]:
    """Interrupt a blocking read periodically, so that Python handles a signal that arrived just before the read.

    Such a signal does not interrupt the read, and its handler would have to wait until the user types a line.
    """
    before = signal.signal(signal.SIGALRM, _ignored)
    signal.setitimer(signal.ITIMER_REAL, _WAKE_UP_S, _WAKE_UP_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _ignored(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. A signal that has a handler interrupts a system call; an ignored signal would not."""


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    # Under nohup, SIGHUP must remain ignored.
    numbers = [one for one in _KINDS if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _say(text: bytes) -> None:
    """Write to stderr. Errors are ignored, because the terminal may be closed."""
    with suppress(OSError):
        os.write(2, b"\nrlctl: " + text + b"\n")
