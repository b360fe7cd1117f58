"""Counters of a limiter: decisions by source and reason, errors by cause, look-ups, refunds."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rlctl.limiter.core.breaker import Circuit
from rlctl.limiter.core.forks import renew_after_fork
from rlctl.limits.decision import Reason, Source
from rlctl.limits.failures import Cause, Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A snapshot of a limiter's counters, which count from its creation.

    - `decisions`: decisions by source and reason.
    - `errors`: failures by cause. Includes redirections that were followed; excludes calls that an open breaker
      stopped.
    - `last_errors`: the text of the latest error, by cause.
    - `fallback_s`: seconds during which at least one breaker was open.
    - `breakers_opened`, `lookups`: how often a breaker opened, and how often the limiter looked up the fleet's nodes.
    - `shadow_denials`: requests that a rule in shadow would have denied, by rule.
    - `refunds`, `unrefunded`: charges for requests that another rule then denied, by rule. `refunds` counts the charges
      that were refunded. `unrefunded` counts the charges that could not be refunded.
    - `rules_revision`, `rules_age_s`: the revision by which the limiter decides, and the seconds since the fleet last
      confirmed this revision; None if no rules were read.

    Example: `limiter.stats.to_json()["decisions"]` is `{"redis/ok": 120, "local/over_limit": 3}`.
    """

    decisions: Mapping[tuple[Source, Reason], int]
    errors: Mapping[Cause, int]
    last_errors: Mapping[Cause, str]
    fallback_s: float
    breakers_opened: int
    lookups: int
    shadow_denials: Mapping[str, int]
    refunds: Mapping[str, int]
    unrefunded: Mapping[str, int]
    rules_revision: int | None
    rules_age_s: float | None

    def by_source(self) -> dict[Source, int]:
        """The number of decisions of each source."""
        total: Counter[Source] = Counter()
        for (source, _reason), count in self.decisions.items():
            total[source] += count
        return dict(total)

    def to_json(self) -> dict[str, object]:
        """The counters as JSON; keys of `decisions` are `source/reason`."""
        return {
            "decisions": {f"{source}/{reason}": count for (source, reason), count in sorted(self.decisions.items())},
            "errors": {cause.value: count for cause, count in sorted(self.errors.items())},
            "last_errors": {cause.value: text for cause, text in sorted(self.last_errors.items())},
            "fallback_s": round(self.fallback_s, 3),
            "breakers_opened": self.breakers_opened,
            "lookups": self.lookups,
            "shadow_denials": dict(sorted(self.shadow_denials.items())),
            "refunds": dict(sorted(self.refunds.items())),
            "unrefunded": dict(sorted(self.unrefunded.items())),
            "rules_revision": self.rules_revision,
            "rules_age_s": None if self.rules_age_s is None else round(self.rules_age_s, 3),
        }


class Counters:
    """The counters behind `Stats`; thread-safe."""

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
        self._shadow_denials: Counter[str] = Counter()
        self._refunds: Counter[str] = Counter()
        self._unrefunded: Counter[str] = Counter()
        self._rules_revision: int | None = None
        self._rules_seen_s = 0.0
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def decided(self, what: tuple[Source, Reason]) -> None:
        """Count a decision."""
        with self._lock:
            self._decisions[what] += 1

    def failed(self, failure: Failure) -> None:
        """Count an error, unless an open breaker stopped the call."""
        if failure.cause is Cause.BREAKER_OPEN:
            return
        with self._lock:
            self._errors[failure.cause] += 1
            self._last_errors[failure.cause] = failure.evidence

    def looked_up(self) -> None:
        """Count a look-up of the fleet's nodes."""
        with self._lock:
            self._lookups += 1

    def shadow_denied(self, rule_id: str) -> None:
        """Count a request that a rule in shadow would have denied."""
        with self._lock:
            self._shadow_denials[rule_id] += 1

    def refunded(self, rule_id: str, *, is_refunded: bool) -> None:
        """Count a charge for a denied request as refunded or unrefunded."""
        with self._lock:
            (self._refunds if is_refunded else self._unrefunded)[rule_id] += 1

    def saw_rules(self, revision: int) -> None:
        """Record that this revision is in force in the fleet, and that the limiter decides by it."""
        with self._lock:
            self._rules_revision, self._rules_seen_s = revision, self._clock()

    def circuit_changed(self, breaker: str, circuit: Circuit) -> None:
        """Record that the breaker of this name opened or closed."""
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
        with self._lock:
            running_s = self._clock() - self._open_since_s if self._open else 0.0
            return Stats(
                decisions=dict(self._decisions),
                errors=dict(self._errors),
                last_errors=dict(self._last_errors),
                fallback_s=self._fallback_s + running_s,
                breakers_opened=self._opened,
                lookups=self._lookups,
                shadow_denials=dict(self._shadow_denials),
                refunds=dict(self._refunds),
                unrefunded=dict(self._unrefunded),
                rules_revision=self._rules_revision,
                rules_age_s=None if self._rules_revision is None else self._clock() - self._rules_seen_s,
            )
