"""Client process of a drill that uses the runtime library with a failure policy, as a service does.

It writes no ledger. It records each decision, and whether Redis or the failure policy made the decision.
"""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from rlctl.drills.engine.client import ControlledClient
from rlctl.drills.engine.requests import HOT_EVERY
from rlctl.drills.record.ops import HOT, NOWHERE, Batch, OpOutcome
from rlctl.limiter import Decision, FixedWindow, Limiter, Source

RULE = "drill"
THREADS = 4
CONNECT_MS = 5_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """The service's connection, rate and failure policy. The victim's shard has the key of identity `hot`."""

    connection: dict[str, object]
    hot: str
    policy: str
    limit: int
    window_ms: int
    rate: int
    history: Path

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ServiceSettings":
        """Read the settings that the engine wrote to standard input."""
        return cls(**{**data, "history": Path(data["history"])})


class ServiceThread:
    def __init__(self, client: ControlledClient, settings: ServiceSettings, limiter: Limiter, number: int) -> None:
        self._client = client
        self._settings = settings
        self._limiter = limiter
        self._number = number
        self._between_s = THREADS / settings.rate
        self._hot = FixedWindow(limit=settings.limit, window_ms=settings.window_ms)
        self._cold = FixedWindow(limit=1_000_000_000, window_ms=settings.window_ms)

    def run(self) -> None:
        """Make decisions at a fixed rate, without catching up on missed decisions."""
        due_s = time.monotonic()
        while not self._client.stopped.is_set():
            late_s = time.monotonic() - due_s
            if late_s < 0:
                self._client.stopped.wait(-late_s)
            due_s = max(due_s, time.monotonic() - self._between_s) + self._between_s
            self._decide_one()

    def _decide_one(self) -> None:
        number = self._client.reserve_numbers(1)
        is_hot = self._client.burst and number % HOT_EVERY == 0
        sent_s = time.monotonic()
        if is_hot:
            decision = self._limiter.decide(self._hot, self._settings.hot, rule_id=RULE)
        else:
            decision = self._limiter.decide(self._cold, f"cold-{number % 64}", rule_id=RULE)
        codes = bytes([_outcome(decision) | (HOT if is_hot else 0)])
        done_s = time.monotonic()
        batch = Batch(node=NOWHERE, connection=self._number, first=number, sent_s=sent_s, done_s=done_s, codes=codes)
        self._client.record(batch, [] if decision.cause is None else [decision.cause.value])


def _outcome(decision: Decision) -> OpOutcome:
    if decision.source is Source.REDIS:
        return OpOutcome.ADMITTED if decision.allowed else OpOutcome.DENIED
    return OpOutcome.LOCAL_ADMITTED if decision.allowed else OpOutcome.LOCAL_DENIED


def main() -> None:
    """Read the settings from the first line of standard input, then make decisions until the engine sends `stop`."""
    settings = ServiceSettings.from_json(json.loads(sys.stdin.readline()))
    client = ControlledClient(settings.history)
    with Limiter.connect(settings.connection, policy=settings.policy, connect_timeout_ms=CONNECT_MS) as limiter:
        workers = [ServiceThread(client, settings, limiter, number) for number in range(THREADS)]
        client.run([Thread(target=worker.run) for worker in workers])


if __name__ == "__main__":
    main()
