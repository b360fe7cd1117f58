"""One server of the fleet, with the breakers that keep decisions from waiting for it."""

import logging
import time
from collections.abc import Callable

from rlctl.limiter.core.breaker import Breaker, BreakerSettings, Circuit
from rlctl.limiter.core.counters import Counters
from rlctl.limits.failures import Cause, Failure

# Whoever wants to read it says where to; without that nothing is written.
_log = logging.getLogger("rlctl.limiter")
_log.addHandler(logging.NullHandler())


class Guards:
    """A node's breaker, and one for every script that it turned out to lack."""

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
        """Raise where a breaker says not to ask this node, or not for this script."""
        if not self.breaker.is_closed and not self.breaker.admit():
            raise Failure(Cause.BREAKER_OPEN, f"{self._name}: too many failures")
        script = self._scripts.get(sha1) if self._scripts else None
        if script is not None and not script.is_closed and not script.admit():
            self.breaker.forfeited()
            raise Failure(Cause.BREAKER_OPEN, f"{self._name}: script {sha1} is missing")

    def answered(self, sha1: str) -> None:
        """The server did what it was asked."""
        if self.breaker.failures:
            self.breaker.succeeded()
        script = self._scripts.get(sha1) if self._scripts else None
        if script is not None and script.failures:
            script.succeeded()

    def failed(self, failure: Failure, sha1: str, began_s: float | None = None) -> None:
        """The server did not; a script that is missing or broken is no fault of the other scripts."""
        if not failure.cause.blames_node:
            self.forfeited(sha1)
            return
        if failure.cause in {Cause.NO_SCRIPT, Cause.ERROR}:
            self.answered("")
            script = self._scripts.setdefault(sha1, self._breaker(f"{self._name} {sha1}"))
            script.failed(began_s, at_once=failure.cause is Cause.NO_SCRIPT)
            return
        self.breaker.failed(began_s)
        if self._scripts:
            self._forfeit(sha1)

    def forfeited(self, sha1: str) -> None:
        """The call ended without telling anything about the server."""
        self.breaker.forfeited()
        self._forfeit(sha1)

    def retire(self) -> None:
        """The node is no longer asked: its open breakers no longer count as time without Redis."""
        self._is_retired = True
        self._counters.changed(self._name, Circuit.CLOSED)
        for sha1 in self._scripts:
            self._counters.changed(f"{self._name} {sha1}", Circuit.CLOSED)

    def retry_in_ms(self, sha1: str) -> int:
        """How long until this node may be asked for this script again."""
        script = self._scripts.get(sha1)
        return max(self.breaker.retry_in_ms, script.retry_in_ms if script is not None else 0)

    def _forfeit(self, sha1: str) -> None:
        script = self._scripts.get(sha1)
        if script is not None:
            script.forfeited()

    def _breaker(self, name: str) -> Breaker:
        def on_change(circuit: Circuit) -> None:
            # Calls that were still under way must not open what nobody will ever close.
            if self._is_retired:
                return
            self._counters.changed(name, circuit)
            _log.warning("breaker of %s is %s", name, circuit)

        return Breaker(self._settings, clock=self._clock, on_change=on_change)
