"""The limiter for asyncio: one object for an event loop."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Self

from rlctl.limiter.algorithms import Concurrent, Costed
from rlctl.limiter.async_backend import AsyncBackend
from rlctl.limiter.breaker import BreakerSettings
from rlctl.limiter.core import Core
from rlctl.limiter.counters import Counters, Stats
from rlctl.limiter.decision import Decision
from rlctl.limiter.failures import Failure
from rlctl.limiter.keys import tag_of
from rlctl.limiter.limiter import new_request_id
from rlctl.limiter.options import Options
from rlctl.limiter.policy import Policy, Request
from rlctl.limiter.settings import read_settings
from rlctl.scripts.model import Release


class AsyncLimiter:
    """Decides by the scripts in Redis, and by a failure policy where Redis does not answer within the budget.

    Thread-safe; make one per process and fleet. It calls EVALSHA only and never loads a script: that is the part of
    `rlctl`. Bad parameters raise InvalidLimit, a key that holds something else raises BrokenState; all other
    trouble becomes a decision by the policy, with its `cause`.
    """

    def __init__(self, core: Core, backend: AsyncBackend) -> None:
        self._core = core
        self._backend = backend

    @classmethod
    async def connect(
        cls,
        settings: Mapping[str, object],
        *,
        policy: str | Policy = "open",
        budget_ms: float = 5.0,
        release: Release | None = None,
        breaker: BreakerSettings | None = None,
        connect_timeout_ms: float = 1000.0,
    ) -> Self:
        """A limiter for the fleet that `rlctl env -o json` describes.

        `policy` is open, closed, local or local:N, N being the number of instances of the service. `budget_ms`
        bounds every decision. Waits up to `connect_timeout_ms` for `warm` connections to each node in charge, but
        does not fail where there is nobody: a service starts without Redis too, and `stats` says what is wrong.
        """
        counters = Counters()
        core = Core(release, policy, counters)
        options = Options(
            budget_ms=budget_ms,
            connect_timeout_ms=connect_timeout_ms,
            breaker=breaker or BreakerSettings(),
        )
        backend = AsyncBackend(read_settings(settings), options, counters)
        await backend.warm()
        return cls(core, backend)

    async def decide(
        self,
        algorithm: Costed,
        identity: str,
        *,
        rule_id: str = "default",
        cost: int = 1,
        peek: bool = False,
        policy: str | Policy | None = None,
    ) -> Decision:
        """Count `cost` for an identity, or with `peek` only look.

        `identity` is one value, a user say; what `fill` made of a template counts as it is. `policy` replaces the
        limiter's own for this call, as rules have their own.
        """
        call = self._core.costed(algorithm, rule_id)
        tag = tag_of(identity)
        cost = 0 if peek else cost
        message = call.message(tag, cost)
        try:
            return self._core.answered(call, await self._backend.ask(message, tag, call.sha1))
        except Failure as failure:
            wait_ms = self._backend.retry_in_ms(tag, call.sha1)
            request = Request(algorithm=algorithm, key=call.key(tag), quota=call.quota, cost=cost, retry_in_ms=wait_ms)
            return self._core.fall_back(request, failure, policy)

    async def acquire(
        self,
        algorithm: Concurrent,
        identity: str,
        request_id: str,
        *,
        rule_id: str = "default",
        policy: str | Policy | None = None,
    ) -> Decision:
        """Take a lease for a request, or keep the one it has; it ends by itself after `lease_ms`."""
        return await self._lease(algorithm, identity, "acquire", request_id, rule_id, policy)

    async def renew(
        self,
        algorithm: Concurrent,
        identity: str,
        request_id: str,
        *,
        rule_id: str = "default",
        policy: str | Policy | None = None,
    ) -> Decision:
        """Keep a lease for another `lease_ms`; reason no_lease where it has ended."""
        return await self._lease(algorithm, identity, "renew", request_id, rule_id, policy)

    async def release(
        self,
        algorithm: Concurrent,
        identity: str,
        request_id: str,
        *,
        rule_id: str = "default",
        policy: str | Policy | None = None,
    ) -> Decision:
        """Give a lease back; giving it back twice does no harm."""
        return await self._lease(algorithm, identity, "release", request_id, rule_id, policy)

    async def peek(
        self, algorithm: Concurrent, identity: str, *, rule_id: str = "default", policy: str | Policy | None = None
    ) -> Decision:
        """How many leases are left, without taking one; allowed says nothing here, `remaining` does."""
        return await self._lease(algorithm, identity, "peek", "", rule_id, policy)

    @asynccontextmanager
    async def hold(
        self,
        algorithm: Concurrent,
        identity: str,
        *,
        rule_id: str = "default",
        policy: str | Policy | None = None,
    ) -> AsyncIterator[Decision]:
        """A lease for the length of a block; look at `allowed` inside. It is given back at the end."""
        request_id = new_request_id()
        decision = await self.acquire(algorithm, identity, request_id, rule_id=rule_id, policy=policy)
        try:
            yield decision
        finally:
            if decision.allowed:
                await self.release(algorithm, identity, request_id, rule_id=rule_id, policy=policy)

    @property
    def stats(self) -> Stats:
        """A copy of the counters."""
        return self._core.counters.snapshot()

    async def close(self) -> None:
        """Hang up. Decisions made later are the policy's."""
        await self._backend.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def _lease(
        self,
        algorithm: Concurrent,
        identity: str,
        verb: str,
        request_id: str,
        rule_id: str,
        policy: str | Policy | None,
    ) -> Decision:
        call = self._core.concurrent(algorithm, rule_id)
        tag = tag_of(identity)
        message = call.message(tag, verb, request_id)
        request = Request(algorithm=algorithm, key=call.key(tag), quota=call.quota, verb=verb, request_id=request_id)
        try:
            decision = self._core.answered(call, await self._backend.ask(message, tag, call.sha1))
        except Failure as failure:
            return self._core.fall_back(request, failure, policy)
        if verb == "release":
            self._core.released(request, policy)
        return decision
