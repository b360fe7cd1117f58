"""Counts requests in this process while Redis does not answer.

The counts are integers, and their memory is bounded. Pure except for a lock.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from rlctl.limiter.core.forks import renew_after_fork
from rlctl.limits.algorithms import Algorithm, Concurrent, Gcra, RollingRing, RollingWindow, TokenBucket
from rlctl.limits.decision import Reason

_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class LocalAnswer:
    """The result of a local count; `limit` and `remaining` describe this process's share."""

    limit: int
    remaining: int
    retry_after_ms: int
    reset_after_ms: int
    reason: Reason


@dataclass(slots=True)
class _State:
    """The state of one key.

    `amount` is the level of a bucket at `since_ns`, or the count of a window that began at `since_ns`. `last_ns` is the
    time of the last admission. `leases` maps request ids to expiry times.
    """

    amount: int = 0
    since_ns: int = 0
    last_ns: int | None = None
    leases: dict[str, int] = field(default_factory=dict)


class LocalLimits:
    """Token buckets, windows and leases by key. Above `max_keys` the least recently used key is dropped."""

    def __init__(self, instances: int, max_keys: int, clock_ns: Callable[[], int] | None = None) -> None:
        self._instances = instances
        self._max_keys = max_keys
        self._clock_ns = clock_ns or time.monotonic_ns
        self._lock = threading.Lock()
        # The algorithm is part of the key, so that a rule with new parameters does not read levels in the scale of its
        # old parameters.
        self._states: OrderedDict[tuple[bytes, Algorithm], _State] = OrderedDict()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Renew the lock; the child continues from a copy of the parent's counts."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._states)

    def count(self, algorithm: Algorithm, key: bytes, cost: int) -> LocalAnswer:
        """Count `cost` for a key; a cost of 0 only reads the state."""
        with self._lock:
            state = self._state((key, algorithm), keep=cost > 0)
            if isinstance(algorithm, TokenBucket | Gcra):
                return self._bucket(algorithm, state, cost)
            return self._window(algorithm, state, cost)

    def lease(self, algorithm: Algorithm, key: bytes, verb: str, request_id: str) -> LocalAnswer:
        """Run one verb of the concurrent limiter: acquire, renew, release or peek."""
        with self._lock:
            state = self._state((key, algorithm), keep=verb == "acquire")
            now = self._clock_ns()
            state.leases = {held: end for held, end in state.leases.items() if end > now}
            share = self._share(algorithm.limit)
            reason, wait_ms = self._lease(algorithm, state, verb, request_id, now)
            room = max(0, share - len(state.leases))
            reset_ms = _ms(max(state.leases.values(), default=now) - now)
            return LocalAnswer(share, room, wait_ms, reset_ms, reason)

    def refund(self, algorithm: Algorithm, key: bytes, cost: int) -> bool:
        """Refund an admitted charge; False if the key was dropped."""
        with self._lock:
            state = self._states.get((key, algorithm))
            if state is None:
                return False
            if isinstance(algorithm, TokenBucket | Gcra):
                # The level may now exceed a full bucket; the next read caps it.
                state.amount += cost * algorithm.period_ms * _MS * self._instances
            else:
                state.amount = max(0, state.amount - cost)
            return True

    def impossible(self, algorithm: Algorithm, key: bytes) -> LocalAnswer:
        """Answer a request that can never be admitted, without counting the request."""
        now = self.count(algorithm, key, 0)
        return LocalAnswer(now.limit, now.remaining, -1, now.reset_after_ms, Reason.IMPOSSIBLE)

    def _lease(self, algorithm: Algorithm, state: _State, verb: str, request_id: str, now: int) -> tuple[Reason, int]:
        share, held = self._share(algorithm.limit), request_id in state.leases
        if verb == "release":
            state.leases.pop(request_id, None)
            return Reason.OK, 0
        if verb == "renew" and not held:
            return Reason.NO_LEASE, -1
        if share == 0:
            return Reason.IMPOSSIBLE, -1
        if verb == "peek":
            return Reason.OK, 0
        if not held and len(state.leases) >= share:
            return Reason.OVER_LIMIT, _ms(sorted(state.leases.values())[len(state.leases) - share] - now)
        if isinstance(algorithm, Concurrent):
            state.leases[request_id] = now + algorithm.lease_ms * _MS
        return Reason.OK, 0

    def _bucket(self, rule: TokenBucket | Gcra, state: _State, cost: int) -> LocalAnswer:
        """Count `cost` on a bucket. A level is tokens times `unit`, so that each nanosecond adds exactly `rate`."""
        now, share = self._clock_ns(), self._share(rule.limit)
        unit = rule.period_ms * _MS * self._instances
        full = share * unit
        # A new key has a full bucket.
        level = full if state.last_ns is None else min(full, state.amount + (now - state.since_ns) * rule.rate)
        price = cost * unit
        if price > level:
            wait_ms = _ms(-(-(price - level) // rule.rate))
            return LocalAnswer(share, level // unit, wait_ms, _ms(-(-(full - level) // rule.rate)), Reason.OVER_LIMIT)
        level -= price
        state.amount, state.since_ns, state.last_ns = level, now, now
        return LocalAnswer(share, level // unit, 0, _ms(-(-(full - level) // rule.rate)), Reason.OK)

    def _window(self, rule: Algorithm, state: _State, cost: int) -> LocalAnswer:
        now, share = self._clock_ns(), self._share(rule.limit)
        length = (rule.key_window_ms or 0) * _MS
        if state.last_ns is None or now - state.since_ns >= length:
            state.amount, state.since_ns = 0, now
        left_ms = _ms(state.since_ns + length - now)
        interval_ns = rule.min_interval_ms * _MS if isinstance(rule, RollingWindow | RollingRing) else 0
        early = state.last_ns + interval_ns - now if state.last_ns is not None else 0
        if cost > 0 and state.amount + cost > share:
            return LocalAnswer(share, max(0, share - state.amount), left_ms, left_ms, Reason.OVER_LIMIT)
        if cost > 0 and early > 0:
            return LocalAnswer(share, share - state.amount, _ms(early), left_ms, Reason.MIN_INTERVAL)
        if cost > 0:
            state.amount += cost
            state.last_ns = now
        return LocalAnswer(share, max(0, share - state.amount), 0, left_ms if state.amount else 0, Reason.OK)

    def _share(self, limit: int) -> int:
        return max(1, limit // self._instances) if limit else 0

    def _state(self, key: tuple[bytes, Algorithm], *, keep: bool) -> _State:
        state = self._states.get(key)
        if state is not None:
            self._states.move_to_end(key)
            return state
        state = _State()
        if keep:
            self._states[key] = state
            if len(self._states) > self._max_keys:
                self._states.popitem(last=False)
        return state


def _ms(ns: int) -> int:
    return max(0, -(-ns // _MS))
