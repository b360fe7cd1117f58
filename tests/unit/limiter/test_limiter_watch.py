"""Following the fleet's rules without a network: messages, polls, failures and clean-up."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from rlctl.limiter import AsyncLimiter
from rlctl.limiter.aio.backend import AsyncBackend
from rlctl.limiter.aio.connection import AsyncConnection
from rlctl.limiter.aio.watch import AsyncRuleWatch
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.rulebook import POINTER, SUBSCRIBE, RuleBook, require_success
from rlctl.limiter.core.settings import Endpoint
from rlctl.limiter.threads.watch import RuleWatch
from rlctl.limits.failures import Cause, ErrorReply
from rlctl.limits.resp import Reply
from rlctl.limits.rule import Version
from tests.conftest import RunAsync
from tests.unit.rules.documents import EXAMPLE, revision

PATIENCE_S = 60.0
SETTINGS = {"kind": "single", "nodes": ["here.example:1"], "username": "limiter", "password": "secret", "tls": False}
MESSAGE = b"*3\r\n$7\r\nmessage\r\n$11\r\nrlctl:rules\r\n$1\r\n2\r\n"


class Deaf(asyncio.Transport):
    """Accepts everything and sends nothing."""

    def write(self, data: Any) -> None:
        """Nobody is there."""

    def abort(self) -> None:
        """Nobody was there."""


def test_a_message_before_the_wait_ends_it_once(run_async: RunAsync) -> None:
    async def story() -> None:
        link = AsyncConnection(Endpoint("here.example", 1))
        link.connection_made(Deaf())
        for _ in range(3):
            link.data_received(MESSAGE)
        async with asyncio.timeout(5):
            await link.listen(3600)
        listening = asyncio.create_task(link.listen(3600))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not listening.done()
        link.data_received(MESSAGE)
        async with asyncio.timeout(PATIENCE_S):
            await listening

    run_async(story())


@pytest.mark.parametrize("where", ["warm", "open_connection"])
def test_a_connect_that_is_cancelled_leaves_nothing_behind(
    where: str, monkeypatch: pytest.MonkeyPatch, run_async: RunAsync
) -> None:
    async def story() -> None:
        reached = asyncio.Event()

        async def nothing(*_words: object) -> None:
            return

        async def hangs(*_words: object) -> None:
            reached.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(AsyncBackend, "warm", nothing)
        monkeypatch.setattr(AsyncBackend, "rules_node", lambda _self: Endpoint("here.example", 1))
        monkeypatch.setattr(AsyncBackend, where, hangs)
        connecting = asyncio.create_task(AsyncLimiter.connect(SETTINGS, connect_timeout_ms=60_000, rules=True))
        await reached.wait()
        connecting.cancel()
        await asyncio.wait({connecting})
        assert connecting.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_async(story())


class Spoiled:
    """A rules node whose pointer is invalid for the first two reads; both ends of its connection."""

    endpoint = Endpoint("here.example", 1)

    def __init__(self, spoiled: Reply | Exception) -> None:
        self.spoiled = spoiled
        self.stored = revision(EXAMPLE)
        self.looks = 0

    def answer(self, question: bytes) -> Any:
        if question == SUBSCRIBE:
            return []
        if question != POINTER:
            return self.stored.to_text().encode()
        self.looks += 1
        version = self.stored.version
        if self.looks >= 3:
            return [b"%d" % version.revision, version.digest.encode()]
        if isinstance(self.spoiled, Exception):
            raise self.spoiled
        return self.spoiled

    def rules_node(self) -> Endpoint:
        return self.endpoint

    def check_rules_reply(self, reply: Any, asked: Endpoint) -> Any:
        return require_success(reply, asked)

    def refresh_routes(self) -> None:
        """There is no other node."""


class SpoiledLink(Spoiled):
    """For the thread."""

    def open_connection(self, _endpoint: Endpoint) -> "SpoiledLink":
        return self

    def exchange(self, question: bytes, _deadline: float) -> Any:
        return self.answer(question)

    def listen(self, _deadline: float) -> None:
        threading.Event().wait(0.01)

    def wake(self) -> None:
        """Sleeps only briefly."""

    def close(self) -> None:
        """There is nothing to close."""


class SpoiledAsyncLink(Spoiled):
    """For the task."""

    async def open_connection(self, _endpoint: Endpoint) -> "SpoiledAsyncLink":
        return self

    async def exchange(self, question: bytes, _deadline: float) -> Any:
        return self.answer(question)

    async def listen(self, _timeout_s: float) -> None:
        await asyncio.sleep(0.01)

    def close(self) -> None:
        """There is nothing to close."""


SPOILED = pytest.mark.parametrize(
    ("spoiled", "cause"),
    [(ErrorReply("WRONGTYPE no"), Cause.ERROR), (KeyError("a bug"), Cause.INTERNAL), ([b"many", b""], Cause.ERROR)],
    ids=["something-else", "a-bug", "no-number"],
)


@SPOILED
def test_a_pointer_that_is_something_else_does_not_end_the_watch(spoiled: Reply | Exception, cause: Cause) -> None:
    counters = Counters()
    book, backend = RuleBook(counters), SpoiledLink(spoiled)
    watch = RuleWatch(book, backend, 1.0)  # type: ignore[arg-type]
    watch.start(0)
    for _ in range(round(PATIENCE_S / 0.05)):
        if book.rule("api-per-key") is not None:
            break
        threading.Event().wait(0.05)
    watch.close()
    assert not book.is_empty
    assert counters.snapshot().errors == {cause: 2}


class Reader(RuleBook):
    """Records the thread that read."""

    where: threading.Thread | None = None

    def learn(self, version: Version, reply: Any) -> None:
        self.where = threading.current_thread()
        super().learn(version, reply)


@SPOILED
def test_nor_the_one_of_asyncio_which_reads_beside_the_loop(
    run_async: RunAsync, spoiled: Reply | Exception, cause: Cause
) -> None:
    counters = Counters()
    book, backend = Reader(counters), SpoiledAsyncLink(spoiled)

    async def story() -> None:
        watch = AsyncRuleWatch(book, backend, 1.0)  # type: ignore[arg-type]
        await watch.start(0)
        async with asyncio.timeout(PATIENCE_S):
            while book.rule("api-per-key") is None:  # noqa: ASYNC110  the book has no event
                await asyncio.sleep(0.05)
        await watch.close()

    run_async(story())
    assert counters.snapshot().errors == {cause: 2}
    assert book.where not in {None, threading.main_thread()}


def test_the_thread_does_not_keep_the_process_alive() -> None:
    assert RuleWatch(RuleBook(Counters()), SpoiledLink(None), 1.0)._thread.daemon  # type: ignore[arg-type]


class Moving(SpoiledLink):
    """A rules node that is replaced after two reads; records its commands and the length of each wait."""

    def __init__(self) -> None:
        super().__init__(None)
        self.events: list[str] = []
        self.opened: list[str] = []
        self.waits_s: list[float] = []

    def rules_node(self) -> Endpoint:
        return Endpoint("other.example", 1) if self.events.count("listen") >= 2 else self.endpoint

    def open_connection(self, endpoint: Endpoint) -> "Moving":
        self.opened.append(endpoint.host)
        return self

    def exchange(self, question: bytes, deadline_s: float) -> Any:
        self.events.append({SUBSCRIBE: "subscribe", POINTER: "look"}.get(question, "read_command"))
        self.waits_s.append(deadline_s - time.monotonic())
        return self.answer(question)

    def answer(self, question: bytes) -> Any:
        self.looks = 3
        return super().answer(question)

    def listen(self, deadline_s: float) -> None:
        self.events.append("listen")
        self.waits_s.append(deadline_s - time.monotonic())


class MovingAsync(Moving):
    async def open_connection(self, endpoint: Endpoint) -> "MovingAsync":  # type: ignore[override]
        super().open_connection(endpoint)
        return self

    async def exchange(self, question: bytes, deadline_s: float) -> Any:
        return super().exchange(question, deadline_s)

    async def listen(self, seconds: float) -> None:  # type: ignore[override]
        super().listen(time.monotonic() + seconds)


def follow_with_a_thread(book: RuleBook) -> Moving:
    backend = Moving()
    RuleWatch(book, backend, 9.0)._follow()  # type: ignore[arg-type]
    return backend


def follow_with_a_task(book: RuleBook) -> Moving:
    async def story() -> Moving:
        backend = MovingAsync()
        await AsyncRuleWatch(book, backend, 9.0)._follow([])  # type: ignore[arg-type]
        return backend

    return asyncio.run(story())


@pytest.mark.parametrize("follow", [follow_with_a_thread, follow_with_a_task], ids=["threads", "asyncio"])
def test_the_keeper_is_looked_at_and_heard_by_turns(follow: Callable[[RuleBook], Moving]) -> None:
    """It subscribes before it reads, fetches only new revisions, and ends when another node stores the rules."""
    book = RuleBook(Counters())
    backend = follow(book)
    assert backend.events == ["subscribe", "look", "read_command", "listen", "look", "listen"]
    assert backend.opened == ["here.example"] * 2
    most_s = [9.0, 9.0, 9.0, 0.7, 9.0, 0.7]
    assert all(0 < wait_s <= most for wait_s, most in zip(backend.waits_s, most_s, strict=True))
    assert book.rule("api-per-key") is not None
