"""What a limiter counts about itself."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rlctl.limiter.breaker import Circuit
from rlctl.limiter.decision import Reason, Source
from rlctl.limiter.failures import Cause, Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A copy of the counters.

    `errors` counts what servers and networks did, by kind; redirections that were followed are among them, calls
    that an open breaker kept back are not. `fallback_s` is the time in which at least one breaker was open.
    """

    decisions: Mapping[tuple[Source, Reason], int]
    errors: Mapping[Cause, int]
    last_errors: Mapping[Cause, str]
    fallback_s: float
    breakers_opened: int
    lookups: int

    def by_source(self) -> dict[Source, int]:
        """How many decisions each source made."""
        total: Counter[Source] = Counter()
        for (source, _reason), count in self.decisions.items():
            total[source] += count
        return dict(total)

    def to_json(self) -> dict[str, object]:
        """The counters with plain keys, `source/reason` for decisions."""
        return {
            "decisions": {f"{source}/{reason}": count for (source, reason), count in sorted(self.decisions.items())},
            "errors": {cause.value: count for cause, count in sorted(self.errors.items())},
            "last_errors": {cause.value: text for cause, text in sorted(self.last_errors.items())},
            "fallback_s": round(self.fallback_s, 3),
            "breakers_opened": self.breakers_opened,
            "lookups": self.lookups,
        }


class Counters:
    """Counts from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._decisions: Counter[tuple[Source, Reason]] = Counter()
        self._errors: Counter[Cause] = Counter()
        self._last_errors: dict[Cause, str] = {}
        self._open: set[str] = set()
        self._open_since_s = 0.0
        self._fallback_s = 0.0
        self._opened = 0
        self._lookups = 0

    def decided(self, what: tuple[Source, Reason]) -> None:
        """One more decision."""
        with self._lock:
            self._decisions[what] += 1

    def failed(self, failure: Failure) -> None:
        """One more error; calls that nobody made are none."""
        if failure.cause is Cause.BREAKER_OPEN:
            return
        with self._lock:
            self._errors[failure.cause] += 1
            self._last_errors[failure.cause] = failure.evidence

    def looked_up(self) -> None:
        """One more look-up of who is in charge."""
        with self._lock:
            self._lookups += 1

    def changed(self, breaker: str, circuit: Circuit) -> None:
        """A breaker opened, closed, or is no longer needed."""
        with self._lock:
            was_open = bool(self._open)
            if circuit is Circuit.CLOSED:
                self._open.discard(breaker)
            else:
                self._open.add(breaker)
                self._opened += 1
            if self._open and not was_open:
                self._open_since_s = self._clock()
            elif was_open and not self._open:
                self._fallback_s += self._clock() - self._open_since_s

    def snapshot(self) -> Stats:
        """The counters as they are now."""
        with self._lock:
            running_s = self._clock() - self._open_since_s if self._open else 0.0
            return Stats(
                decisions=dict(self._decisions),
                errors=dict(self._errors),
                last_errors=dict(self._last_errors),
                fallback_s=self._fallback_s + running_s,
                breakers_opened=self._opened,
                lookups=self._lookups,
            )
