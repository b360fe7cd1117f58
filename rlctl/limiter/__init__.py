"""The runtime library: decisions by the limiter scripts, for services in Python.

Importing it is cheap; nothing is read or connected before `Limiter.connect` or `AsyncLimiter.connect`.
"""

from typing import TYPE_CHECKING

from rlctl.limiter.core.breaker import BreakerSettings
from rlctl.limiter.core.counters import Stats
from rlctl.limiter.core.policy import LocalPolicy, Policy
from rlctl.limiter.threads.limiter import Limiter, new_request_id
from rlctl.limits.algorithms import (
    ALGORITHMS,
    Algorithm,
    Concurrent,
    FixedWindow,
    Gcra,
    RollingRing,
    RollingWindow,
    SlidingCounter,
    TokenBucket,
)
from rlctl.limits.decision import Decision, Quota, Reason, Source
from rlctl.limits.failures import BrokenState, Cause, InvalidLimit
from rlctl.limits.keys import Filled, fill, key

if TYPE_CHECKING:
    from rlctl.limiter.aio.limiter import AsyncLimiter

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "AsyncLimiter",
    "BreakerSettings",
    "BrokenState",
    "Cause",
    "Concurrent",
    "Decision",
    "Filled",
    "FixedWindow",
    "Gcra",
    "InvalidLimit",
    "Limiter",
    "LocalPolicy",
    "Policy",
    "Quota",
    "Reason",
    "RollingRing",
    "RollingWindow",
    "SlidingCounter",
    "Source",
    "Stats",
    "TokenBucket",
    "fill",
    "key",
    "new_request_id",
]


def __getattr__(name: str) -> object:
    # asyncio takes longer to import than all the rest; services with threads do without it.
    if name == "AsyncLimiter":
        from rlctl.limiter.aio.limiter import AsyncLimiter  # noqa: PLC0415

        return AsyncLimiter
    raise AttributeError(name)
