"""Asking rlctl to stop: once at the next safe point, twice at once."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rlctl.errors import Exit, Interrupted, Terminated


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
        return Terminated if self._signal == signal.SIGTERM else Interrupted

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
        """Listen to SIGINT and SIGTERM; the handlers are put back afterwards."""
        before = {number: signal.signal(number, self._asked) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _asked(self, number: int, _frame: FrameType | None) -> None:
        if self._signal is not None:
            os.write(2, b"\nrlctl: aborted in the middle of a step; run the same command to carry on\n")
            os._exit(Exit.TERMINATED if number == signal.SIGTERM else Exit.INTERRUPTED)
        self._signal = number
        os.write(2, b"\nrlctl: stopping at the next safe point; once more aborts at once\n")
