"""The latency of decisions while Redis is stopped with SIGSTOP, under the policy `open`."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from rlctl.limiter import Gcra, Limiter, Source

BUDGET_MS = 5.0
DECISIONS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The latency of each decision, in order."""

    waits_ms: list[float]
    budget_ms: float

    @property
    def waited(self) -> list[float]:
        """The decisions that waited for Redis: those before the breaker opened, and its probes."""
        return [wait_ms for wait_ms in self.waits_ms if wait_ms > 1]

    def to_json(self) -> dict[str, object]:
        return {
            "budget_ms": self.budget_ms,
            "decisions": len(self.waits_ms),
            "waited": len(self.waited),
            "longest_ms": max(self.waits_ms),
            "median_ms": median(self.waits_ms),
        }

    def __str__(self) -> str:
        return (
            f"with Redis stopped, policy open, budget {self.budget_ms:g} ms: {len(self.waits_ms)} decisions, "
            f"{len(self.waited)} of them waited, the longest {max(self.waits_ms):.1f} ms; "
            f"median {median(self.waits_ms) * 1000:.0f} us"
        )


def measure_outage(port: int, pid: int) -> Outage:
    """Stop the server while a service uses it, make decisions, and continue it."""
    settings = {"kind": "single", "host": "127.0.0.1", "port": port}
    rule = Gcra(1000, 1000, 1000)
    with Limiter.connect(settings, policy="open", budget_ms=BUDGET_MS) as limiter:
        for _ in range(100):
            limiter.decide(rule, "user")
        with _frozen(pid):
            waits_ms = [_wait_ms(limiter, rule) for _ in range(DECISIONS)]
    return Outage(waits_ms=waits_ms, budget_ms=BUDGET_MS)


@contextmanager
def _frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _wait_ms(limiter: Limiter, rule: Gcra) -> float:
    began_s = time.perf_counter()
    decision = limiter.decide(rule, "user")
    wait_ms = (time.perf_counter() - began_s) * 1000
    if decision.source is not Source.OPEN or not decision.allowed:
        raise RuntimeError(f"a stopped server decided: {decision}")
    # A service does other work between decisions, so the breaker has time for probes.
    time.sleep(0.001)
    return wait_ms
