"""More callers than a process can serve: only delays of the node count as its failures."""

import asyncio
import threading
import time
from typing import Any

import pytest

from rlctl.limiter import Cause
from rlctl.limiter.aio import connection as links
from rlctl.limiter.aio.backend import AsyncBackend
from rlctl.limiter.aio.connection import AsyncConnection
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.node_breakers import NodeBreakers
from rlctl.limiter.core.options import Options
from rlctl.limiter.core.settings import Endpoint, read_settings
from rlctl.limiter.threads import pool as pools
from rlctl.limiter.threads.backend import Node
from rlctl.limiter.threads.pool import Pool
from rlctl.limits.failures import Failure
from tests.conftest import RunAsync

HERE = Endpoint("here.example", 1)
PATIENCE_S = 60.0
PING = b"PING\r\n"


class Server(asyncio.Transport):
    """Counts messages, and answers each with its number on request."""

    def __init__(self, *, answers: bool = False) -> None:
        super().__init__()
        self.link = AsyncConnection(HERE)
        self.link.connection_made(self)
        self.answers = answers
        self.sent = self.answered = 0

    def write(self, data: Any) -> None:
        self.sent += bytes(data).count(PING)
        if self.answers:
            asyncio.get_running_loop().call_later(0.1, self.answer)

    def answer(self) -> None:
        numbers = range(self.answered, self.sent)
        self.answered = self.sent
        self.link.data_received(b"".join(b":%d\r\n" % number for number in numbers))

    async def has_sent(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.sent < count:  # noqa: ASYNC110  the transport has no event
                await asyncio.sleep(0)

    def abort(self) -> None:
        """The link is closed."""

    def call(self, time_s: float) -> "asyncio.Task[Any]":
        return asyncio.create_task(self.link.exchange(PING, asyncio.get_running_loop().time() + time_s))


async def cause_of(call: "asyncio.Task[Any]") -> Cause | None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            await call
    except Failure as failure:
        return failure.cause
    return None


def test_a_loop_that_sends_late_takes_nothing_from_the_nodes_time(run_async: RunAsync) -> None:
    async def story() -> None:
        server = Server(answers=True)
        call = server.call(0.5)
        asyncio.get_running_loop().call_soon(time.sleep, 0.8)
        assert await cause_of(call) is None

    run_async(story())


def test_what_has_arrived_is_read_before_a_call_is_late(monkeypatch: pytest.MonkeyPatch, run_async: RunAsync) -> None:
    async def story() -> None:
        server = Server()
        looks: list[int] = []

        def has_arrived() -> bool:
            looks.append(1)
            if len(looks) == 3:
                server.answer()
            return True

        monkeypatch.setattr(server.link, "_has_arrived", has_arrived)
        assert await cause_of(server.call(0.01)) is None
        assert len(looks) == 3

    run_async(story())


def test_a_late_call_fails_alone_and_its_reply_is_dropped_in_order(
    monkeypatch: pytest.MonkeyPatch, run_async: RunAsync
) -> None:
    monkeypatch.setattr(links, "_SILENT_S", PATIENCE_S)

    async def story() -> None:
        server = Server()
        patient = server.call(PATIENCE_S)
        assert [await cause_of(server.call(0.01)) for _ in range(3)] == [Cause.TIMEOUT] * 3
        last = server.call(PATIENCE_S)
        await server.has_sent(5)
        server.answer()
        assert (await patient, await last, server.link.is_open) == (0, 4, True)

    run_async(story())


def test_a_connection_that_stays_silent_is_closed(monkeypatch: pytest.MonkeyPatch, run_async: RunAsync) -> None:
    monkeypatch.setattr(links, "_SILENT_S", 0.05)

    async def story() -> None:
        server = Server()
        patient = server.call(PATIENCE_S)
        assert await cause_of(server.call(0.01)) is Cause.TIMEOUT
        assert not patient.done()
        server.answer()
        assert await cause_of(patient) is None
        assert await cause_of(server.call(0.01)) is Cause.TIMEOUT
        async with asyncio.timeout(PATIENCE_S):
            while server.link.is_open:  # noqa: ASYNC110  the link has no event
                await asyncio.sleep(0.001)

    run_async(story())


def test_the_node_has_few_calls_at_once_and_all_are_answered(run_async: RunAsync) -> None:
    async def story() -> None:
        server = Server()
        calls = [server.call(PATIENCE_S) for _ in range(200)]
        cancelled = calls.pop()
        for under_way in range(links._MOST_UNDER_WAY, 200, links._MOST_UNDER_WAY):
            await server.has_sent(under_way)
            for _ in range(10):
                await asyncio.sleep(0)
            assert server.sent == under_way
            cancelled.cancel()
            server.answer()
        server.answers = True
        server.answer()
        assert await asyncio.gather(*calls) == list(range(199))
        assert server.sent == 199

    run_async(story())


def test_a_stopped_node_fails_all_calls_by_its_own_fault(run_async: RunAsync) -> None:
    async def story() -> None:
        server = Server()
        # A process that stalls longer than this has itself caused the delay.
        causes = [await cause_of(call) for call in [server.call(0.2) for _ in range(100)]]
        assert causes.count(Cause.TIMEOUT) == links._MOST_UNDER_WAY
        assert causes.count(Cause.NO_CONNECTION) == 100 - links._MOST_UNDER_WAY

    run_async(story())


def test_a_call_does_not_wait_for_ever_behind_others(monkeypatch: pytest.MonkeyPatch, run_async: RunAsync) -> None:
    monkeypatch.setattr(links, "_MOST_TIMES", 1)

    async def story() -> None:
        server = Server()
        first = [server.call(PATIENCE_S) for _ in range(links._MOST_UNDER_WAY)]
        assert await cause_of(server.call(0.01)) is Cause.SATURATED
        server.answer()
        await asyncio.gather(*first)

    run_async(story())


@pytest.mark.parametrize(
    ("busy_s", "since_s", "cause"), [(0.3, 0.0, Cause.SATURATED), (0.3, -9.0, Cause.NO_CONNECTION)]
)
def test_a_busy_loop_is_no_slow_node(
    monkeypatch: pytest.MonkeyPatch, run_async: RunAsync, busy_s: float, since_s: float, cause: Cause
) -> None:
    monkeypatch.setattr("rlctl.limiter.aio.backend._SLOW_OPENING_S", PATIENCE_S if since_s == 0 else 0.0)

    async def hangs(*_words: object) -> None:
        asyncio.get_running_loop().call_soon(time.sleep, busy_s)
        await asyncio.Event().wait()

    monkeypatch.setattr(AsyncBackend, "open_connection", hangs)

    async def story() -> None:
        settings = read_settings({"kind": "single", "host": "here.example", "port": 1})
        backend = AsyncBackend(settings, Options(budget_ms=50), Counters())
        with pytest.raises(Failure) as failure:
            await backend.execute(b"call", b"u", "aa")
        assert failure.value.cause is cause
        await backend.close()

    run_async(story())


class FakeLink:
    endpoint = HERE
    used_at_s = 0.0

    def __init__(self) -> None:
        self.deadline_s = 0.0

    def is_stale(self) -> bool:
        return False

    def close(self) -> None:
        """There is nothing to close."""

    def exchange(self, _message: bytes, deadline_s: float, _replies: int) -> int:
        self.deadline_s = deadline_s
        return 1


def in_line(subject: Pool, found: list[object], window_s: float) -> threading.Thread:
    """A thread that waits for a connection."""

    def take() -> None:
        now_s = time.monotonic()
        try:
            found.append(subject.take(now_s, now_s + window_s))
        except Failure as failure:
            found.append(failure.cause)

    thread = threading.Thread(target=take)
    thread.start()
    return thread


def test_a_connection_goes_to_the_thread_that_has_waited_longest() -> None:
    link = FakeLink()
    subject = Pool("here:1", lambda: link, limit=1)  # type: ignore[arg-type,return-value]
    now_s = time.monotonic()
    subject.take(now_s, now_s + PATIENCE_S)
    found: list[object] = []
    waiter = in_line(subject, found, PATIENCE_S)
    while not subject._line:
        threading.Event().wait(0.001)
    subject.give(link, now_s)  # type: ignore[arg-type]
    with pytest.raises(Failure):
        subject.take(now_s, now_s + 0.001)
    waiter.join(PATIENCE_S)
    assert found == [link]


@pytest.mark.parametrize(("answers", "cause"), [(True, Cause.SATURATED), (False, Cause.NO_CONNECTION)])
def test_too_many_threads_are_no_fault_of_a_node_that_answers(
    monkeypatch: pytest.MonkeyPatch, *, answers: bool, cause: Cause
) -> None:
    monkeypatch.setattr(pools, "_LATE_S", PATIENCE_S)
    subject = Pool("here:1", FakeLink, limit=1)  # type: ignore[arg-type]
    now_s = time.monotonic()
    subject.take(now_s, now_s + PATIENCE_S)
    subject._served_s = now_s + 2 * PATIENCE_S if answers else 0.0
    found: list[object] = []
    in_line(subject, found, 0.001).join(PATIENCE_S)
    assert found == [cause]


def test_a_node_has_its_whole_time_however_late_a_thread_is() -> None:
    link = FakeLink()
    node = Node(HERE, NodeBreakers("here:1", Options().breaker, Counters()), lambda: link, limit=1)  # type: ignore[arg-type,return-value]
    node.pool.warm(1)
    node.pool.wait_until_warm(time.monotonic() + PATIENCE_S)
    began_s = time.monotonic()
    node.exchange(b"call", began_s - 100, began_s - 90, 1)
    assert link.deadline_s >= began_s + 10
