"""The limiter for asyncio: one object for an event loop."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Self

from rlctl.limiter.aio.backend import AsyncBackend
from rlctl.limiter.aio.watch import AsyncRuleWatch
from rlctl.limiter.core.breaker import BreakerSettings
from rlctl.limiter.core.combined import Together
from rlctl.limiter.core.counters import Counters, Stats
from rlctl.limiter.core.deciding import Core, costed, leased
from rlctl.limiter.core.options import Options
from rlctl.limiter.core.policy import Policy, Request
from rlctl.limiter.core.rulebook import RuleBook, Ruled
from rlctl.limiter.core.settings import read_settings
from rlctl.limiter.threads.limiter import new_request_id
from rlctl.limits.algorithms import Concurrent, Costed
from rlctl.limits.decision import Decision
from rlctl.limits.failures import BrokenState, Failure
from rlctl.limits.release import Release
from rlctl.limits.rule import Rule


class AsyncLimiter:
    """Decides by the scripts in Redis, and by a failure policy where Redis does not answer within the budget.

    Belongs to the event loop that made it; make one per loop and fleet. It decides by EVALSHA only and never loads a
    script: that is the part of `rlctl`. Bad parameters raise InvalidLimit, a key that holds something else raises
    BrokenState; all other trouble becomes a decision by the policy, with its `cause`.
    """

    def __init__(self, core: Core, backend: AsyncBackend, watch: AsyncRuleWatch | None = None) -> None:
        self._core = core
        self._backend = backend
        self._watch = watch

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
        rules: bool = False,
    ) -> Self:
        """A limiter for the fleet that `rlctl env -o json` describes.

        `policy` is open, closed, local or local:N, N being the number of instances of the service. `budget_ms`
        bounds every decision. Waits up to `connect_timeout_ms` for a connection to each node in charge, but does
        not fail where there is nobody: a service starts without Redis too, and `stats` says what is wrong.
        With `rules`, decisions may name a rule of the fleet; its rules are followed from then on, and waited for here.
        Settings of a service (`rlctl env --service`) count on that service's own keys.
        """
        counters, known = Counters(), read_settings(settings)
        book = RuleBook(counters, service=known.service) if rules else None
        core = Core(release, policy, counters, book, known.service)
        options = Options(
            budget_ms=budget_ms,
            connect_timeout_ms=connect_timeout_ms,
            breaker=breaker or BreakerSettings(),
        )
        backend = AsyncBackend(known, options, counters)
        watch = AsyncRuleWatch(book, backend, connect_timeout_ms / 1000) if book is not None else None
        subject = cls(core, backend, watch)
        try:
            await backend.warm()
            if watch is not None:
                await watch.start(connect_timeout_ms / 1000)
        except BaseException:
            # Whoever is cancelled here has no limiter that could be closed.
            await subject.close()
            raise
        return subject

    async def decide(
        self,
        rule: Costed | str | Ruled,
        who: str | Mapping[str, str],
        *,
        rule_id: str = "default",
        tier: str | None = None,
        cost: int = 1,
        peek: bool = False,
        policy: str | Policy | None = None,
    ) -> Decision:
        """Count `cost` for an identity, or with `peek` only look.

        With an algorithm, `who` is one value, a user say; what `fill` made of a template counts as it is. With the name
        of a rule of the fleet, `who` names the dimensions of the request, `{"api_key": ...}`, or is the one value that
        the rule counts by. `policy` replaces the rule's or the limiter's own for this call.
        """
        aim = self._core.aim(rule, who, rule_id, tier, policy)
        if isinstance(aim, Decision):
            return aim
        call, tag = costed(aim), aim.tag
        cost = 0 if peek else cost
        message = call.message(tag, cost)
        try:
            return self._core.answered(aim, await self._backend.ask(message, tag, call.sha1))
        except (Failure, BrokenState) as failure:
            wait_ms = self._backend.retry_in_ms(tag, call.sha1)
            request = Request(
                algorithm=call.algorithm, key=call.key(tag), quota=call.quota, cost=cost, retry_in_ms=wait_ms
            )
            return self._core.fall_back(aim, request, failure, policy)

    async def decide_all(
        self, who: Mapping[str, str], *, tier: str | None = None, cost: int = 1, peek: bool = False
    ) -> tuple[Decision, ...]:
        """Decide by every rule of the fleet that concerns a request, in their order, up to the first denial.

        All rules are looked at first, in one round, and charged only where all of them admit; a request that one rule
        denies costs the others nothing. Where another request takes the last unit in between, what was charged is
        refunded as far as the algorithms allow: `stats` counts `refunds` and `unrefunded`. `budget_ms` bounds each
        round, and an admission takes three. Rules with leases are left out: they are acquired by name. Empty where no
        rule concerns the request. All decisions are by the same revision.
        """
        aims = self._core.aims(who, tier)
        if isinstance(aims, Decision):
            return (aims,)
        rounds = Together(self._core, aims, 0 if peek else cost, self._backend.retry_in_ms).rounds()
        try:
            asks = next(rounds)
            while True:
                asks = rounds.send(await self._backend.ask_all(asks))
        except StopIteration as done:
            found: tuple[Decision, ...] = done.value
            return found

    async def acquire(
        self,
        rule: Concurrent | str,
        who: str | Mapping[str, str],
        request_id: str,
        *,
        rule_id: str = "default",
        tier: str | None = None,
        policy: str | Policy | None = None,
    ) -> Decision:
        """Take a lease for a request, or keep the one it has; it ends by itself after `lease_ms`."""
        return await self._lease(rule, who, "acquire", request_id, rule_id, tier, policy)

    async def renew(
        self,
        rule: Concurrent | str,
        who: str | Mapping[str, str],
        request_id: str,
        *,
        rule_id: str = "default",
        tier: str | None = None,
        policy: str | Policy | None = None,
    ) -> Decision:
        """Keep a lease for another `lease_ms`; reason no_lease where it has ended."""
        return await self._lease(rule, who, "renew", request_id, rule_id, tier, policy)

    async def release(
        self,
        rule: Concurrent | str,
        who: str | Mapping[str, str],
        request_id: str,
        *,
        rule_id: str = "default",
        tier: str | None = None,
        policy: str | Policy | None = None,
    ) -> Decision:
        """Give a lease back; giving it back twice does no harm."""
        return await self._lease(rule, who, "release", request_id, rule_id, tier, policy)

    async def peek(
        self,
        rule: Concurrent | str,
        who: str | Mapping[str, str],
        *,
        rule_id: str = "default",
        tier: str | None = None,
        policy: str | Policy | None = None,
    ) -> Decision:
        """How many leases are left, without taking one; allowed says nothing here, `remaining` does."""
        return await self._lease(rule, who, "peek", "", rule_id, tier, policy)

    @asynccontextmanager
    async def hold(
        self,
        rule: Concurrent | str,
        who: str | Mapping[str, str],
        *,
        rule_id: str = "default",
        tier: str | None = None,
        policy: str | Policy | None = None,
    ) -> AsyncIterator[Decision]:
        """A lease for the length of a block; look at `allowed` inside. It is given back at the end."""
        request_id = new_request_id()
        decision = await self.acquire(rule, who, request_id, rule_id=rule_id, tier=tier, policy=policy)
        try:
            yield decision
        finally:
            if decision.allowed:
                await self.release(rule, who, request_id, rule_id=rule_id, tier=tier, policy=policy)

    @property
    def has_rules(self) -> bool:
        """Whether rules of the fleet were read."""
        return self._core.book is not None and not self._core.book.is_empty

    def rule(self, name: str) -> Rule | None:
        """A rule of the fleet as it is decided by now."""
        ruled = self._core.book.rule(name) if self._core.book is not None else None
        return ruled.rule if ruled is not None else None

    @property
    def stats(self) -> Stats:
        """A copy of the counters."""
        return self._core.counters.snapshot()

    async def close(self) -> None:
        """Hang up. Decisions made later are the policy's."""
        if self._watch is not None:
            await self._watch.close()
        await self._backend.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def _lease(
        self,
        rule: Concurrent | str,
        who: str | Mapping[str, str],
        verb: str,
        request_id: str,
        rule_id: str,
        tier: str | None,
        policy: str | Policy | None,
    ) -> Decision:
        aim = self._core.aim(rule, who, rule_id, tier, policy)
        if isinstance(aim, Decision):
            return aim
        call, tag = leased(aim), aim.tag
        message = call.message(tag, verb, request_id)
        request = Request(
            algorithm=call.algorithm, key=call.key(tag), quota=call.quota, verb=verb, request_id=request_id
        )
        try:
            decision = self._core.answered(aim, await self._backend.ask(message, tag, call.sha1))
        except (Failure, BrokenState) as failure:
            return self._core.fall_back(aim, request, failure, policy)
        if verb == "release":
            self._core.released(aim, request, policy)
        return decision
