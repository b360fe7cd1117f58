"""Follows the fleet's rules in a background task: by a subscription, and by polling in case a message is lost."""

import asyncio

from rlctl.errors import RlctlError
from rlctl.limiter.aio.backend import AsyncBackend
from rlctl.limiter.aio.connection import AsyncConnection
from rlctl.limiter.core.internal import defects_as_failures
from rlctl.limiter.core.rulebook import POINTER, SUBSCRIBE, RuleBook, read_command
from rlctl.limiter.threads.watch import POLL_EVERY_S, RETRY_S
from rlctl.limits.failures import Failure


class AsyncRuleWatch:
    """Keeps a rule book up to date in a background task; decisions never wait for it."""

    def __init__(self, book: RuleBook, backend: AsyncBackend, timeout_s: float) -> None:
        self._book = book
        self._backend = backend
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._first = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, wait_s: float) -> None:
        """Start to follow the rules, and wait at most `wait_s` seconds for the first revision."""
        self._task = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(wait_s):
                await self._first.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        """Stop following the rules."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while True:
            links: list[AsyncConnection] = []
            try:
                with defects_as_failures:
                    await self._follow(links)
            except (Failure, RlctlError) as failure:
                self._book.reading_failed(failure)
                self._backend.refresh_routes()
            finally:
                for link in links:
                    link.close()
            # After the first failure, `start` must stop waiting.
            self._first.set()
            await asyncio.sleep(RETRY_S)

    async def _follow(self, links: list[AsyncConnection]) -> None:
        """Follow the rules until another node stores them.

        Subscribes before the first read of the rules. If the subscription began after the read, the limiter would miss
        a change that happens between the read and the subscription.
        """
        node = self._backend.rules_node()
        links.append(link := await self._backend.open_connection(node))
        links.append(subscription := await self._backend.open_connection(node))
        self._backend.check_rules_reply(await subscription.exchange(SUBSCRIBE, self._deadline()), node)
        while self._backend.rules_node() == node:
            await self._poll(link)
            await subscription.listen(POLL_EVERY_S)

    async def _poll(self, link: AsyncConnection) -> None:
        reply = self._backend.check_rules_reply(await link.exchange(POINTER, self._deadline()), link.endpoint)
        version = self._book.newer_version(reply)
        if version is not None:
            found = self._backend.check_rules_reply(
                await link.exchange(read_command(version), self._deadline()), link.endpoint
            )
            # `learn` runs in a thread, because preparing thousands of rules would delay decisions of this event loop.
            await asyncio.to_thread(self._book.learn, version, found)
        self._first.set()

    def _deadline(self) -> float:
        return self._loop.time() + self._timeout_s
