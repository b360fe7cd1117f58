"""A hundred services that decide by a fleet's rules without a pause, in an event loop of their own thread."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rlctl.limiter import AsyncLimiter, Cause, Decision

CLIENTS = 100
PAUSE_S = 0.05
# The budget is large: on a busy machine these clients must not fall back.
PATIENT_MS = 30_000.0


@dataclass(slots=True)
class Clients:
    """Each client decides for its own identity, and for the hot identity that all share."""

    rule: str
    decisions: int = 0
    odd: list[Decision] = field(default_factory=list)
    limits: dict[str, int | None] = field(default_factory=dict)
    seen: set[int | None] = field(default_factory=set)
    hot_admitted: int = 0
    errors: dict[Cause, int] = field(default_factory=dict)
    revisions: list[int | None] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    ready: threading.Event = field(default_factory=threading.Event)

    @property
    def common(self) -> set[int | None]:
        """The limits in the clients' last decisions."""
        return set(self.limits.values())

    def wait_for_round(self, timeout_s: float = 60.0) -> None:
        """Wait until every client has decided again."""
        until, deadline = self.decisions + 3 * CLIENTS, time.monotonic() + timeout_s
        while self.decisions < until:
            assert time.monotonic() < deadline
            threading.Event().wait(0.01)

    def run(self, access: dict[str, Any]) -> None:
        asyncio.run(self._all(access))

    async def _all(self, access: dict[str, Any]) -> None:
        subjects = [
            await AsyncLimiter.connect(access, budget_ms=PATIENT_MS, connect_timeout_ms=PATIENT_MS, rules=True)
            for _ in range(CLIENTS)
        ]
        self.ready.set()
        try:
            await asyncio.gather(*(self._one(number, subject) for number, subject in enumerate(subjects)))
        finally:
            for subject in subjects:
                for cause, count in subject.stats.errors.items():
                    self.errors[cause] = self.errors.get(cause, 0) + count
                self.revisions.append(subject.stats.rules_revision)
                await subject.close()

    async def _one(self, number: int, subject: AsyncLimiter) -> None:
        name = f"client-{number}"
        while not self.ended.is_set():
            mine = await subject.decide(self.rule, {"api_key": name}, cost=0)
            hot = await subject.decide("hot", {"api_key": "everybody"})
            self.limits[name] = mine.limit
            self.seen.add(mine.limit)
            self.hot_admitted += hot.allowed
            self.decisions += 2
            self.odd += [one for one in (mine, hot) if one.cause is not None or one.limit is None]
            await asyncio.sleep(PAUSE_S)


@contextmanager
def running(access: dict[str, Any], rule: str) -> Iterator[Clients]:
    clients = Clients(rule)
    thread = threading.Thread(target=clients.run, args=(access,))
    thread.start()
    try:
        assert clients.ready.wait(60)
        yield clients
    finally:
        clients.ended.set()
        thread.join()
