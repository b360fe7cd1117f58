"""A circuit breaker: after too many failures in a row nobody asks, then one asks for all. Pure but for its lock."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from rlctl.limiter.core.forks import renew_after_fork


class Circuit(StrEnum):
    """Closed: calls pass. Open: none does. Half open: one call is out to see."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    """When a breaker opens and how long it waits before it sends one call to see."""

    failures: int = 5
    backoff_ms: int = 100
    max_backoff_ms: int = 1000
    jitter: float = 0.2

    def __post_init__(self) -> None:
        """Refuse what makes no breaker."""
        if self.failures < 1 or not 1 <= self.backoff_ms <= self.max_backoff_ms or not 0 <= self.jitter < 1:
            raise ValueError(
                "a breaker opens after 1 or more failures, waits 1 ms or longer, and jitter is at least 0 and below 1"
            )


class Breaker:
    """One circuit. Whoever `admit` lets through must say `succeeded`, `failed` or `forfeited`.

    While `is_closed` and without `failures` nothing needs to be called: that is the usual path, without a lock.
    """

    def __init__(
        self,
        settings: BreakerSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        on_change: Callable[[Circuit], None] = lambda _circuit: None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._chance = chance
        self._on_change = on_change
        self._lock = threading.Lock()
        self._probe_at_s = 0.0
        self._failed_at_s = float("-inf")
        self._backoff_ms = settings.backoff_ms
        self._circuit = Circuit.CLOSED
        self.is_closed = True
        self.failures = 0
        self.opened = 0
        self.probes = 0
        renew_after_fork(self)

    @property
    def circuit(self) -> Circuit:
        """The present state."""
        return self._circuit

    @property
    def retry_in_ms(self) -> int:
        """How long until the next call may pass; 0 while closed."""
        if self.is_closed:
            return 0
        return max(0, round((self._probe_at_s - self._clock()) * 1000))

    def admit(self) -> bool:
        """Whether this call may pass; of all that ask after a back-off, one may."""
        if self.is_closed:
            return True
        with self._lock:
            if self._circuit is Circuit.CLOSED:
                return True
            if self._circuit is Circuit.HALF_OPEN or self._clock() < self._probe_at_s:
                return False
            self._circuit = Circuit.HALF_OPEN
            self.probes += 1
            return True

    def succeeded(self) -> None:
        """A call was answered: close."""
        with self._lock:
            was_closed = self.is_closed
            self.failures = 0
            self._backoff_ms = self._settings.backoff_ms
            self._circuit = Circuit.CLOSED
            self.is_closed = True
        if not was_closed:
            self._on_change(Circuit.CLOSED)

    def failed(self, began_s: float | None = None, *, at_once: bool = False) -> None:
        """A call failed; `at_once` opens without counting, for what no repetition cures.

        Calls that were under way together fail together: of all that began before the last failure none counts.
        """
        with self._lock:
            if began_s is not None and began_s < self._failed_at_s:
                return
            self._failed_at_s = self._clock()
            self.failures += 1
            was_closed = self.is_closed
            if self._circuit is Circuit.OPEN:
                return
            if self._circuit is Circuit.HALF_OPEN:
                self._backoff_ms = min(self._settings.max_backoff_ms, self._backoff_ms * 2)
            elif not at_once and self.failures < self._settings.failures:
                return
            self.opened += was_closed
            self._open()
        if was_closed:
            self._on_change(Circuit.OPEN)

    def forfeited(self) -> None:
        """A call ended without telling anything, by a cancellation say: let another one be the probe."""
        with self._lock:
            if self._circuit is Circuit.HALF_OPEN:
                self._circuit = Circuit.OPEN

    def after_fork(self) -> None:
        """The parent's probe, if there is one, reports to the parent only."""
        self._lock = threading.Lock()
        self.forfeited()

    def _open(self) -> None:
        spread = 1 + self._settings.jitter * (2 * self._chance() - 1)
        self._probe_at_s = self._clock() + self._backoff_ms * spread / 1000
        self._circuit = Circuit.OPEN
        self.is_closed = False
