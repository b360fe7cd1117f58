"""Following the fleet's rules with asyncio, without a network: what is heard when, and what is left behind."""

import asyncio
from typing import Any

import pytest

from rlctl.limiter import AsyncLimiter
from rlctl.limiter.async_backend import AsyncBackend
from rlctl.limiter.async_link import AsyncLink
from rlctl.limiter.settings import Endpoint

SETTINGS = {"kind": "single", "nodes": ["here.example:1"], "username": "limiter", "password": "secret", "tls": False}
MESSAGE = b"*3\r\n$7\r\nmessage\r\n$11\r\nrlctl:rules\r\n$1\r\n2\r\n"


class Deaf(asyncio.Transport):
    """Takes everything and says nothing."""

    def write(self, data: Any) -> None:
        """Nobody is there."""

    def abort(self) -> None:
        """Nobody was there."""


def test_a_message_that_came_while_nobody_listened_is_heard_once() -> None:
    async def story() -> None:
        link = AsyncLink(Endpoint("here.example", 1))
        link.connection_made(Deaf())
        for _ in range(3):
            link.data_received(MESSAGE)
        async with asyncio.timeout(5):
            await link.listen(3600)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await link.listen(0.05)
        assert loop.time() - began_s >= 0.05

    asyncio.run(story())


@pytest.mark.parametrize("where", ["warm", "open_link"])
def test_a_connect_that_is_cancelled_leaves_nothing_behind(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        reached = asyncio.Event()

        async def nothing(*_words: object) -> None:
            return

        async def hangs(*_words: object) -> None:
            reached.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(AsyncBackend, "warm", nothing)
        monkeypatch.setattr(AsyncBackend, "rules_keeper", lambda _self: Endpoint("here.example", 1))
        monkeypatch.setattr(AsyncBackend, where, hangs)
        connecting = asyncio.create_task(AsyncLimiter.connect(SETTINGS, connect_timeout_ms=60_000, rules=True))
        await reached.wait()
        connecting.cancel()
        await asyncio.wait({connecting})
        assert connecting.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(story())
