"""The circuit breakers of one node: one for the node, and one for each script that failed on the node."""

import logging
import time
from collections.abc import Callable

from rlctl.limiter.core.breaker import Breaker, BreakerSettings, Circuit
from rlctl.limiter.core.counters import Counters
from rlctl.limits.failures import Cause, Failure

# The NullHandler keeps the library silent until the service configures logging. Without it, Python would write warnings
# to stderr.
_log = logging.getLogger("rlctl.limiter")
_log.addHandler(logging.NullHandler())


class NodeBreakers:
    """The breaker of a node, and a breaker for each script that the node lacks or fails to run."""

    def __init__(
        self, name: str, settings: BreakerSettings, counters: Counters, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._settings = settings
        self._counters = counters
        self._clock = clock
        self._scripts: dict[str, Breaker] = {}
        self._is_retired = False
        self.breaker = self._breaker(name)

    def admit(self, sha1: str) -> None:
        """Raise Failure if an open breaker stops calls to this node, or calls of this script."""
        if not self.breaker.is_closed and not self.breaker.admit():
            raise Failure(Cause.BREAKER_OPEN, f"{self._name}: too many failures")
        script = self._scripts.get(sha1) if self._scripts else None
        if script is not None and not script.is_closed and not script.admit():
            self.breaker.abandoned()
            raise Failure(Cause.BREAKER_OPEN, f"{self._name}: script {sha1} is missing")

    def answered(self, sha1: str) -> None:
        """Report that the node answered a call of this script."""
        if self.breaker.failures:
            self.breaker.succeeded()
        script = self._scripts.get(sha1) if self._scripts else None
        if script is not None and script.failures:
            script.succeeded()

    def failed(self, failure: Failure, sha1: str, began_s: float | None = None) -> None:
        """Report a failed call. A missing or broken script opens only its own breaker."""
        if not failure.cause.blames_node:
            self.abandoned(sha1)
            return
        if failure.cause in {Cause.NO_SCRIPT, Cause.ERROR}:
            self.answered("")
            script = self._scripts.setdefault(sha1, self._breaker(f"{self._name} {sha1}"))
            script.failed(began_s, at_once=failure.cause is Cause.NO_SCRIPT)
            return
        self.breaker.failed(began_s)
        if self._scripts:
            self._abandon(sha1)

    def abandoned(self, sha1: str) -> None:
        """Report a call that ended without a result about the node, for example because it was cancelled."""
        self.breaker.abandoned()
        self._abandon(sha1)

    def retire(self) -> None:
        """Stop counting the time of this node's open breakers, because the node is no longer used."""
        self._is_retired = True
        self._counters.circuit_changed(self._name, Circuit.CLOSED)
        for sha1 in self._scripts:
            self._counters.circuit_changed(f"{self._name} {sha1}", Circuit.CLOSED)

    def retry_in_ms(self, sha1: str) -> int:
        """Return the milliseconds until a call of this script may be sent to this node again."""
        script = self._scripts.get(sha1)
        return max(self.breaker.retry_in_ms, script.retry_in_ms if script is not None else 0)

    def _abandon(self, sha1: str) -> None:
        script = self._scripts.get(sha1)
        if script is not None:
            script.abandoned()

    def _breaker(self, name: str) -> Breaker:
        def on_change(circuit: Circuit) -> None:
            # A call that ends after `retire` must not report an open breaker, because the counters would show the
            # breaker as open forever.
            if self._is_retired:
                return
            self._counters.circuit_changed(name, circuit)
            _log.warning("breaker of %s is %s", name, circuit)

        return Breaker(self._settings, clock=self._clock, on_change=on_change)
