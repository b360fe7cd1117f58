"""The rate limiter for Python services. It decides requests with the Lua scripts of an rlctl fleet.

`Limiter` is for threads, `AsyncLimiter` for asyncio. Each decides within a time budget; if Redis does not answer in
time, a failure policy decides. `connect` reads files and opens connections; importing the package does neither, and
needs only the standard library.

Example, with the output of `rlctl env -o json`:

    from rlctl.limiter import FixedWindow, Limiter

    limiter = Limiter.connect(json.loads(Path("env.json").read_text()), policy="local:4")
    decision = limiter.decide(FixedWindow(limit=100, window_ms=60_000), user)
    if not decision.allowed:
        return 429, decision.headers()
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
    # Import AsyncLimiter on its first use: importing asyncio takes longer than importing the rest, and services with
    # threads do not need asyncio.
    if name == "AsyncLimiter":
        from rlctl.limiter.aio.limiter import AsyncLimiter  # noqa: PLC0415

        return AsyncLimiter
    raise AttributeError(name)
