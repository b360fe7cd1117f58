"""Time, as a collaborator that tests replace."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from rlctl.errors import TimedOut


class Clock(Protocol):
    """What rlctl needs of time."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return datetime.now(UTC)


def wait_until(
    ready: Callable[[], bool], *, timeout_s: float, clock: Clock, what: str, hint: str = "", every_s: float = 0.02
) -> None:
    """Return once `ready` holds; TimedOut says what was waited for."""
    deadline = clock.monotonic() + timeout_s
    while not ready():
        if clock.monotonic() >= deadline:
            raise TimedOut(f"{what}: not so after {timeout_s:g} s", hint=hint)
        clock.sleep(every_s)
