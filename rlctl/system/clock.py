"""A clock interface that tests can replace, and a function that waits for a condition."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from rlctl.errors import TimedOut


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""

    def sleep(self, seconds: float) -> None: ...

    def now(self) -> datetime:
        """The current date and time in UTC."""


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def now(self) -> datetime:
        return datetime.now(UTC)


def wait_until(
    ready: Callable[[], bool], *, timeout_s: float, clock: Clock, what: str, hint: str = "", every_s: float = 0.02
) -> None:
    """Poll `ready` until it returns True. Raises TimedOut, with `what` in the message, after `timeout_s`."""
    deadline = clock.monotonic() + timeout_s
    while not ready():
        if clock.monotonic() >= deadline:
            raise TimedOut(f"{what}: timed out after {timeout_s:g} s", hint=hint)
        clock.sleep(every_s)
