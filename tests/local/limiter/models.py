"""Exact models of the seven limiters in integers and fractions: slow, simple, and independent of Lua."""

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

OK, OVER, INTERVAL, NEVER, NO_LEASE = 0, 1, 2, 3, 4


def split(cost: int) -> tuple[int, int]:
    """The charge and the refund of a call. A negative cost is a refund, which also peeks."""
    return max(0, cost), max(0, -cost)


def ms(microseconds: Fraction | int) -> int:
    """Milliseconds, rounded up."""
    return ceil(Fraction(microseconds) / 1000)


@dataclass
class Gcra:
    """Meter of arrivals that are `spacing` apart; state is the theoretical arrival time."""

    tat: int | None = None

    def call(self, burst: int, rate: int, period_ms: int, cost: int, now: int) -> list[int]:
        cost, back = split(cost)
        spacing = ceil(Fraction(period_ms * 1000, rate))
        span = burst * spacing
        tat, clamped = self.tat, False
        if tat is not None and burst and tat > now + span:
            if tat > now + 2 * span:
                tat, clamped = now + span, True
            else:
                now = tat - span
        tat = now if tat is None else max(tat - back * spacing, now)
        left = max(0, floor(Fraction(now + span - tat, spacing)))
        never = burst == 0 or cost > burst
        after = tat + cost * spacing
        if never or after > now + span:
            if clamped and cost:
                self.tat = tat
            wait = -1 if never else ms(after - now - span)
            return [0, burst, left, wait, ms(tat - now), NEVER if never else OVER]
        if cost or (back and self.tat is not None):
            self.tat = after
        return [1, burst, floor(Fraction(now + span - after, spacing)), 0, ms(after - now), OK]


@dataclass
class TokenBucket:
    """Tokens as a fraction. A change of scale rounds it down to a value of the new scale."""

    level: Fraction | None = None
    scale: int = 0
    last: int = 0

    def call(self, capacity: int, rate: int, period_ms: int, cost: int, now: int) -> list[int]:
        cost, back = split(cost)
        per_us = Fraction(rate, period_ms * 1000)
        scale = per_us.denominator
        level, last, clamped = self.level, self.last, False
        if level is None:
            level, last = Fraction(capacity), now
        if self.level is not None and scale != self.scale:
            level = Fraction(floor(level * scale), scale)
        level = min(level, Fraction(capacity))
        if last > now:
            if last - now <= capacity / per_us:
                now = last
            else:
                clamped = True
        else:
            level = min(Fraction(capacity), level + (now - last) * per_us)
        level = min(Fraction(capacity), level + back)
        never = capacity == 0 or cost > capacity
        if never or (cost and cost > level):
            if clamped and cost and capacity:
                self.level, self.scale, self.last = level, scale, now
            wait = -1 if never else ms(ceil((cost - level) / per_us))
            return [0, capacity, floor(level), wait, ms(ceil((capacity - level) / per_us)), NEVER if never else OVER]
        if cost or (back and self.level is not None):
            level -= cost
            self.level, self.scale, self.last = level, scale, now
        return [1, capacity, floor(level), 0, ms(ceil((capacity - level) / per_us)), OK]


@dataclass
class FixedWindow:
    """A count in an epoch-aligned window."""

    start: int | None = None
    count: int = 0

    def call(self, limit: int, window_ms: int, cost: int, now: int) -> list[int]:
        cost, back = split(cost)
        window = window_ms * 1000
        start, count, clamped = now - now % window, 0, False
        if self.start is not None and self.start >= start:
            count = self.count
            if self.start > start:
                if self.start - now <= window:
                    start = now = self.start
                else:
                    clamped = True
        left = ms(start + window - now)
        back = min(back, count)
        count -= back
        never = limit == 0 or cost > limit
        if never or (cost and count + cost > limit):
            if clamped and cost:
                self.start, self.count = start, count
            room = max(0, limit - count)
            return [0, limit, room, -1 if never else left, left if count else 0, NEVER if never else OVER]
        if cost or back:
            count += cost
            self.start, self.count = start, count
        return [1, limit, max(0, limit - count), 0, left if count else 0, OK]


@dataclass
class SlidingCounter:
    """previous * (W - e) + (current + cost) * W <= limit * W."""

    start: int | None = None
    current: int = 0
    previous: int = 0

    def call(self, limit: int, window_ms: int, cost: int, now: int) -> list[int]:
        cost, back = split(cost)
        window = window_ms * 1000
        start, clamped = now - now % window, False
        current, previous = self._counts(start, window)
        if self.start is not None and self.start > start:
            if self.start - now <= window:
                start = now = self.start
            else:
                clamped = True
        is_refund = back > 0 and current + previous > 0
        current, back = max(0, current - back), max(0, back - current)
        previous = max(0, previous - back)
        used = Fraction(previous * (start + window - now), window) + current
        never = limit == 0 or cost > limit
        reset = ms(start + 2 * window - now) if current else ms(start + window - now) if previous else 0
        if never or (cost and used + cost > limit):
            if clamped and cost:
                self.start, self.current, self.previous = start, current, previous
            wait = -1 if never else ms(self._when(limit, window, cost, start, current, previous) - now)
            return [0, limit, max(0, floor(limit - used)), wait, reset, NEVER if never else OVER]
        if cost:
            current += cost
            used += cost
            reset = ms(start + 2 * window - now)
        if cost or is_refund:
            self.start, self.current, self.previous = start, current, previous
        return [1, limit, max(0, floor(limit - used)), 0, reset, OK]

    def _counts(self, start: int, window: int) -> tuple[int, int]:
        """The counts of this window and of the last one. A later window is this one on another clock."""
        if self.start is None or self.start < start - window:
            return 0, 0
        return (0, self.current) if self.start == start - window else (self.current, self.previous)

    @staticmethod
    def _when(limit: int, window: int, cost: int, start: int, current: int, previous: int) -> int:
        """The first microsecond at which the call fits, if no other call comes."""
        if current + cost <= limit:
            return ceil(start + window - Fraction((limit - cost - current) * window, previous))
        return ceil(start + 2 * window - Fraction((limit - cost) * window, current))


@dataclass
class RollingWindow:
    """All admission times in (now - window, now]; `unit` is the resolution in microseconds."""

    unit: int = 1
    log: list[int] = field(default_factory=list)

    def call(self, limit: int, window_ms: int, interval_ms: int, cost: int, now: int) -> list[int]:
        cost, back = split(cost)
        window, interval = window_ms * 1000, interval_ms * 1000
        self.log = self.log[: max(0, len(self.log) - back)]
        log = self._history(window, now)
        if log and self.log[-1] - now >= self.unit:
            now = max(now, log[-1])
        clock = now - now % self.unit
        live = [instant for instant in log if instant > clock - window]
        room = max(0, limit - len(live))
        reset = ms(live[-1] + window - now) if live else 0
        never = limit == 0 or cost > limit
        if cost == 0 and not never:
            return [1, limit, room, 0, reset, OK]
        wait, reason = 0, OK
        if interval and live and clock - live[-1] < interval:
            wait, reason = live[-1] + interval - now, INTERVAL
        if len(live) + cost > limit and not never:
            wait, reason = max(wait, live[len(live) + cost - limit - 1] + window - now), OVER
        if never or reason:
            if cost:
                self.log = log
            return [0, limit, room, -1 if never else ms(wait), reset, NEVER if never else reason]
        stamp = ceil(Fraction(now, self.unit)) * self.unit
        stamp = max([stamp, *live[-1:]])
        self.log = live + [stamp] * cost
        return [1, limit, room - cost, 0, ms(stamp + window - now), OK]

    def _history(self, window: int, now: int) -> list[int]:
        """The log without entries that only another clock can have written."""
        if not self.log or self.log[-1] - now <= window:
            return self.log
        return [instant for instant in self.log if instant <= now + window]


@dataclass
class Concurrent:
    """Leases by request id."""

    leases: dict[str, int] = field(default_factory=dict)

    def call(self, verb: str, limit: int, lease_ms: int, request_id: str, now: int) -> list[int]:
        lease = lease_ms * 1000
        live = {name: end for name, end in self.leases.items() if end > now}
        if verb == "peek":
            reset = ms(max(live.values()) - now) if live else 0
            return [0, 0, 0, -1, reset, NEVER] if limit == 0 else [1, limit, max(0, limit - len(live)), 0, reset, OK]
        live = {name: now + lease if end > now + 2 * lease else end for name, end in live.items()}
        self.leases = live
        reply = self._change(verb, limit, now, lease, request_id)
        reset = ms(max(self.leases.values()) - now) if self.leases else 0
        allowed, wait, reason = reply
        return [allowed, limit, max(0, limit - len(self.leases)), wait, reset, reason]

    def _change(self, verb: str, limit: int, now: int, lease: int, request_id: str) -> tuple[int, int, int]:
        held = request_id in self.leases
        if verb == "release":
            self.leases.pop(request_id, None)
            return 1, 0, OK
        if verb == "renew" and not held:
            return 0, -1, NO_LEASE
        if limit == 0:
            return 0, -1, NEVER
        if not held and len(self.leases) >= limit:
            ends = sorted(self.leases.values())
            return 0, ms(ends[len(ends) - limit] - now), OVER
        self.leases[request_id] = now + lease
        return 1, 0, OK
