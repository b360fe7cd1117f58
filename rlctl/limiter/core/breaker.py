"""A circuit breaker: repeated failures stop all calls, then single calls probe the node. Pure except for a lock."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from rlctl.limiter.core.forks import renew_after_fork


class Circuit(StrEnum):
    """Closed: calls pass. Open: calls are stopped. Half open: one call is under way as a probe."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    """When the circuit breaker of a node opens, and how long it waits before one call probes the node.

    The breaker opens after `failures` failed calls in a row. It waits `backoff_ms` milliseconds before the first probe
    and twice as long after each failed probe, at most `max_backoff_ms`. `jitter` varies each wait at random by this
    share: 0.2 means 20 % more or less. While the breaker is open, the failure policy decides at once.

    Values out of range raise ValueError.
    """

    failures: int = 5
    backoff_ms: int = 100
    max_backoff_ms: int = 1000
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if self.failures < 1 or not 1 <= self.backoff_ms <= self.max_backoff_ms or not 0 <= self.jitter < 1:
            raise ValueError("a breaker needs failures >= 1, 1 <= backoff_ms <= max_backoff_ms, and 0 <= jitter < 1")


class Breaker:
    """A circuit breaker. After `admit` returns True, the caller must report `succeeded`, `failed` or `abandoned`.

    While `is_closed` is true and `failures` is 0, callers may skip all methods, so that the usual path takes no lock.
    """

    def __init__(
        self,
        settings: BreakerSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        on_change: Callable[[Circuit], None] | None = None,
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
        return self._circuit

    @property
    def retry_in_ms(self) -> int:
        """Milliseconds until the next probe may pass; 0 while closed."""
        if self.is_closed:
            return 0
        return max(0, round((self._probe_at_s - self._clock()) * 1000))

    def admit(self) -> bool:
        """Return whether this call may pass. After each back-off, one call passes as the probe."""
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
        """Report that the node answered, and close the circuit."""
        with self._lock:
            was_closed = self.is_closed
            self.failures = 0
            self._backoff_ms = self._settings.backoff_ms
            self._circuit = Circuit.CLOSED
            self.is_closed = True
        if not was_closed and self._on_change is not None:
            self._on_change(Circuit.CLOSED)

    def failed(self, began_s: float | None = None, *, at_once: bool = False) -> None:
        """Report a failed call. `at_once` opens the circuit at the first failure; set it if a retry would fail too.

        A call that began before the last failure is not counted, so concurrent calls that fail together count once.
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
        if was_closed and self._on_change is not None:
            self._on_change(Circuit.OPEN)

    def abandoned(self) -> None:
        """Report that a call ended without a result, for example because it was cancelled.

        If the call was the probe, the next call may become the probe instead.
        """
        with self._lock:
            if self._circuit is Circuit.HALF_OPEN:
                self._circuit = Circuit.OPEN

    def after_fork(self) -> None:
        """Renew the lock, and abandon the parent's probe, because only the parent receives the result of the probe."""
        self._lock = threading.Lock()
        self.abandoned()

    def _open(self) -> None:
        spread = 1 + self._settings.jitter * (2 * self._chance() - 1)
        self._probe_at_s = self._clock() + self._backoff_ms * spread / 1000
        self._circuit = Circuit.OPEN
        self.is_closed = False
