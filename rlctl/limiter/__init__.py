"""The runtime library: decisions by the limiter scripts, for services in Python.

Importing it is cheap; nothing is read or connected before `Limiter.connect` or `AsyncLimiter.connect`.
"""

from typing import TYPE_CHECKING

from rlctl.limiter.algorithms import (
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
from rlctl.limiter.breaker import BreakerSettings
from rlctl.limiter.counters import Stats
from rlctl.limiter.decision import Decision, Quota, Reason, Source
from rlctl.limiter.failures import BrokenState, Cause, InvalidLimit
from rlctl.limiter.keys import Filled, fill, key
from rlctl.limiter.limiter import Limiter, new_request_id
from rlctl.limiter.policy import LocalPolicy, Policy

if TYPE_CHECKING:
    from rlctl.limiter.async_limiter import AsyncLimiter

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
        from rlctl.limiter.async_limiter import AsyncLimiter  # noqa: PLC0415

        return AsyncLimiter
    raise AttributeError(name)
