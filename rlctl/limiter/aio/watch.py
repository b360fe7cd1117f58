"""Follows the fleet's rules beside the decisions, in a task: told of news at once, and looking for itself anyway."""

import asyncio

from rlctl.errors import RlctlError
from rlctl.limiter.aio.backend import AsyncBackend
from rlctl.limiter.aio.connection import AsyncLink
from rlctl.limiter.core.internal import defects_as_failures
from rlctl.limiter.core.rulebook import POINTER, SUBSCRIBE, RuleBook, fetch
from rlctl.limiter.threads.watch import LOOK_EVERY_S, RETRY_S
from rlctl.limits.failures import Failure


class AsyncRuleWatch:
    """Keeps a rule book up to date; decisions never wait for it."""

    def __init__(self, book: RuleBook, backend: AsyncBackend, timeout_s: float) -> None:
        self._book = book
        self._backend = backend
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._first = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, wait_s: float) -> None:
        """Follow from now on; wait for the first rules, but not for ever."""
        self._task = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(wait_s):
                await self._first.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        """Stop following."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while True:
            links: list[AsyncLink] = []
            try:
                with defects_as_failures:
                    await self._follow(links)
            except (Failure, RlctlError) as failure:
                self._book.troubled(failure)
                self._backend.search()
            finally:
                for link in links:
                    link.close()
            # Whoever waits for the first rules has waited for nothing.
            self._first.set()
            await asyncio.sleep(RETRY_S)

    async def _follow(self, links: list[AsyncLink]) -> None:
        """Listen first and look then: what changes in between is heard."""
        keeper = self._backend.rules_keeper()
        links.append(link := await self._backend.open_link(keeper))
        links.append(ear := await self._backend.open_link(keeper))
        self._backend.judge_rules(await ear.exchange(SUBSCRIBE, self._deadline()), keeper)
        while self._backend.rules_keeper() == keeper:
            await self._look(link)
            await ear.listen(LOOK_EVERY_S)

    async def _look(self, link: AsyncLink) -> None:
        reply = self._backend.judge_rules(await link.exchange(POINTER, self._deadline()), link.endpoint)
        version = self._book.news(reply)
        if version is not None:
            found = self._backend.judge_rules(await link.exchange(fetch(version), self._deadline()), link.endpoint)
            # Thousands of rules take a while to make ready: decisions go on meanwhile.
            await asyncio.to_thread(self._book.learn, version, found)
        self._first.set()

    def _deadline(self) -> float:
        return self._loop.time() + self._timeout_s
