"""The limiters to compare, each called as its users call it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from redis import Redis

from rlctl.limiter import (
    Concurrent,
    FixedWindow,
    Gcra,
    Limiter,
    RollingRing,
    RollingWindow,
    SlidingCounter,
    TokenBucket,
)

OURS, LIMITS, THROTTLED, PYRATE = "rlctl", "limits", "throttled-py", "pyrate-limiter"
DAY_MS, MINUTE_MS = 86_400_000, 60_000
MANY = 1_000_000
BUDGET_MS = 5_000

# Makes one decision; returns whether it was admitted.
Decide = Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A limiter of a library with a rule; limiters of one `family` are compared."""

    family: str
    library: str
    label: str
    admits: bool
    decide: Decide

    @property
    def name(self) -> str:
        return f"{self.library} {self.label}"


def peer(module: str) -> ModuleType | None:
    """Import a library; None if it is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        return None


def all_contenders(limiter: Limiter, port: int) -> list[Contender]:
    """The limiters of rlctl, then those of installed peers, then INCR."""
    return [*ours(limiter), *of_limits(port), *of_throttled(port), *of_pyrate(port), plain_incr(port)]


def ours(limiter: Limiter) -> list[Contender]:
    """All seven scripts through the runtime library; the log also at 10,000 entries, where its cost is the same."""
    rules: list[tuple[str, str, Any, Any]] = [
        ("token bucket", "token_bucket", TokenBucket(MANY, MANY, 1000), TokenBucket(10, 1, DAY_MS)),
        ("gcra", "gcra", Gcra(MANY, MANY, 1000), Gcra(10, 1, DAY_MS)),
        ("fixed window", "fixed_window", FixedWindow(MANY, MINUTE_MS), FixedWindow(100, DAY_MS)),
        ("sliding counter", "sliding_counter", SlidingCounter(MANY, MINUTE_MS), SlidingCounter(100, DAY_MS)),
        ("log", "rolling_ring", RollingRing(100, 1), RollingRing(100, DAY_MS)),
        ("log", "rolling_ring L=10,000", RollingRing(10_000, 20), RollingRing(10_000, DAY_MS)),
        ("sorted set", "rolling_window", RollingWindow(10_000, 500), RollingWindow(100, DAY_MS)),
    ]
    found = [
        Contender(
            family=family, library=OURS, label=label, admits=admits, decide=_decide(limiter, rule, f"{label}-{admits}")
        )
        for family, label, *pair in rules
        for admits, rule in zip((True, False), pair, strict=True)
    ]
    return [*found, *_leases(limiter)]


def of_limits(port: int) -> list[Contender]:
    """alisaifee/limits: a fixed window, a log as a list, and two counters."""
    limits, strategies = peer("limits"), peer("limits.strategies")
    if limits is None or strategies is None:
        return []
    storage = import_module("limits.storage").storage_from_string(f"redis://127.0.0.1:{port}")
    kinds = {
        ("fixed window", "fixed window"): strategies.FixedWindowRateLimiter,
        ("log", "moving window"): strategies.MovingWindowRateLimiter,
        ("sliding counter", "sliding window counter"): strategies.SlidingWindowCounterRateLimiter,
    }
    found = []
    for (family, label), kind in kinds.items():
        strategy = kind(storage)
        for admits, rule in ((True, f"{MANY}/minute"), (False, "100/day")):
            item = limits.parse(rule)
            found.append(
                Contender(
                    family=family,
                    library=LIMITS,
                    label=label,
                    admits=admits,
                    decide=_bind(strategy.hit, item, f"{label}-{admits}"),
                )
            )
    return found


def of_throttled(port: int) -> list[Contender]:
    """throttled-py: five algorithms."""
    throttled = peer("throttled")
    if throttled is None:
        return []
    store = throttled.store.RedisStore(server=f"redis://127.0.0.1:{port}/0")
    quotas = {
        True: throttled.rate_limiter.per_sec(MANY, burst=MANY),
        False: throttled.rate_limiter.per_hour(10, burst=10),
    }
    families = {
        "token_bucket": "token bucket",
        "leaking_bucket": "gcra",
        "gcra": "gcra",
        "fixed_window": "fixed window",
        "sliding_window": "sliding counter",
    }

    def decide(limit: Callable[[], Any]) -> Decide:
        return lambda: not limit().limited

    return [
        Contender(
            family=family,
            library=THROTTLED,
            label=kind,
            admits=admits,
            decide=decide(throttled.Throttled(using=kind, quota=quota, store=store, key=f"{kind}-{admits}").limit),
        )
        for kind, family in families.items()
        for admits, quota in quotas.items()
    ]


def of_pyrate(port: int) -> list[Contender]:
    """pyrate-limiter: a log in a sorted set."""
    pyrate = peer("pyrate_limiter")
    if pyrate is None:
        return []
    client = Redis(host="127.0.0.1", port=port)
    found = []
    for admits, rate in ((True, pyrate.Rate(MANY, MINUTE_MS)), (False, pyrate.Rate(100, DAY_MS))):
        bucket = pyrate.RedisBucket.init([rate], client, f"pyrate-{admits}")
        # Without its thread that removes old entries, for which no decision waits.
        factory = import_module("pyrate_limiter.limiter").SingleBucketFactory(bucket, schedule_leak=False)
        acquire = pyrate.Limiter(factory).try_acquire
        decide = _bind(acquire, "user", 1, False)
        found.append(Contender(family="sorted set", library=PYRATE, label="RedisBucket", admits=admits, decide=decide))
    return found


def plain_incr(port: int) -> Contender:
    """INCR through the client library of the peers."""
    client = Redis(host="127.0.0.1", port=port)
    return Contender(
        family="none", library="redis-py", label="INCR", admits=True, decide=lambda: bool(client.incr("plain"))
    )


def warm_up(contenders: list[Contender]) -> None:
    """Bring every limiter to the answer that it is measured for; RuntimeError if one does not give it."""
    for one in contenders:
        deadline_s = time.monotonic() + 30
        while one.decide() is not one.admits:
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"{one.name} does not {'admit' if one.admits else 'deny'}")


def _leases(limiter: Limiter) -> list[Contender]:
    rule = Concurrent(50, DAY_MS)
    for admits, held in ((True, 49), (False, 50)):
        for number in range(held):
            limiter.acquire(rule, "user", f"{number:08x}", rule_id=f"leases-{admits}")
    return [
        Contender(
            family="concurrent",
            library=OURS,
            label="concurrent C=50",
            admits=admits,
            decide=_acquire(limiter, rule, f"leases-{admits}"),
        )
        for admits in (True, False)
    ]


def _acquire(limiter: Limiter, rule: Concurrent, rule_id: str) -> Decide:
    return lambda: limiter.acquire(rule, "user", "ffffffff", rule_id=rule_id).allowed


def _decide(limiter: Limiter, rule: Any, rule_id: str) -> Decide:  # noqa: ANN401  any of the costed algorithms
    return lambda: limiter.decide(rule, "user", rule_id=rule_id).allowed


def _bind(function: Callable[..., Any], *words: object) -> Decide:
    return lambda: bool(function(*words))
