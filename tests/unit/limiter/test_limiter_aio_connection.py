"""One connection of an event loop: what it reads in which order, how it ends, and how it is opened."""

import asyncio
import ssl
import time
from collections.abc import Sequence
from typing import Any

import pytest

from rlctl.limiter.aio.connection import AsyncConnection
from rlctl.limiter.core.settings import Endpoint, read_settings
from rlctl.limits.failures import Cause, Failure
from rlctl.limits.resp import ErrorReply

HERE = Endpoint("10.0.0.1", 7000)
NUMBERS = b"*6\r\n:1\r\n:10\r\n:9\r\n:0\r\n:1000\r\n:0\r\n"
SIX = [1, 10, 9, 0, 1000, 0]
HUNG_UP = (Cause.CLOSED, "10.0.0.1:7000: the server closed the connection")
LONG_S = 100.0
END = b"END"


class Wire(asyncio.Transport):
    """Answers each packet with the next chunks, one in each iteration of the loop; END closes the connection."""

    def __init__(self, link: AsyncConnection, chunks: Sequence[bytes | Exception]) -> None:
        super().__init__()
        self.link = link
        self.chunks = list(chunks)
        self.sent: list[bytes] = []
        self.is_aborted = False
        link.connection_made(self)

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))
        if len(self.sent) == 1:
            self.deliver()

    def deliver(self) -> None:
        if not self.chunks:
            return
        chunk = self.chunks.pop(0)
        loop = asyncio.get_running_loop()
        if chunk == END or isinstance(chunk, Exception):
            loop.call_soon(self.link.connection_lost, chunk if isinstance(chunk, Exception) else None)
            return
        loop.call_soon(self.link.data_received, chunk)
        loop.call_soon(self.deliver)

    def abort(self) -> None:
        self.is_aborted = True


async def asked(link: AsyncConnection, *replies: int) -> list[Any]:
    """The reply of each call, or the cause and evidence of its failure."""
    deadline_s = asyncio.get_running_loop().time() + LONG_S
    calls = [link.exchange(b"%d " % number, deadline_s, count) for number, count in enumerate(replies)]
    found = await asyncio.gather(*calls, return_exceptions=True)
    return [(one.cause, one.evidence) if isinstance(one, Failure) else one for one in found]


@pytest.mark.parametrize(
    ("chunks", "replies", "found"),
    [
        pytest.param([NUMBERS], [1], [SIX], id="a decision"),
        pytest.param([NUMBERS[:9], NUMBERS[9:]], [1], [SIX], id="in two parts"),
        pytest.param([b"+OK\r\n"], [1], [b"OK"], id="another reply"),
        pytest.param([b"+OK\r\n" + NUMBERS], [2], [SIX], id="the last of two"),
        pytest.param([NUMBERS + b"+OK\r\n"], [2], [b"OK"], id="a decision that is not the last"),
        pytest.param([NUMBERS, b"+OK\r\n"], [2], [b"OK"], id="a decision and what comes later"),
        pytest.param([b"+OK\r\n" + NUMBERS + b":5\r\n"], [1, 1, 1], [b"OK", SIX, 5], id="three calls"),
        pytest.param([NUMBERS, b":5\r\n"], [1, 1], [SIX, 5], id="one after the other"),
        pytest.param([b":1\r\n:2\r\n:3\r\n"], [2, 1], [2, 3], id="two for the first"),
        pytest.param([b":1\r\n", END], [1, 1], [1, HUNG_UP], id="the server hangs up"),
        pytest.param([OSError("reset")], [1], [(Cause.CLOSED, "10.0.0.1:7000: reset")], id="reset"),
    ],
)
def test_replies_come_back_in_order(chunks: Sequence[bytes | Exception], replies: list[int], found: list[Any]) -> None:
    async def story() -> None:
        link = AsyncConnection(HERE)
        wire = Wire(link, chunks)
        assert await asked(link, *replies) == found
        assert wire.sent == [b"".join(b"%d " % number for number in range(len(replies)))]

    asyncio.run(story())


def test_an_error_is_a_reply() -> None:
    async def story() -> None:
        link = AsyncConnection(HERE)
        Wire(link, [b"-ERR no\r\n"])
        [reply] = await asked(link, 1)
        assert isinstance(reply, ErrorReply)

    asyncio.run(story())


def test_another_protocol_ends_the_connection_for_all_calls() -> None:
    async def story() -> None:
        link = AsyncConnection(HERE)
        wire = Wire(link, [b":1\r\nHTTP/1.1 400\r\n"])
        first, *others = await asked(link, 1, 1, 1)
        assert (first, {cause for cause, _evidence in others}) == (1, {Cause.ERROR})
        assert all(evidence.startswith("10.0.0.1:7000: ") for _cause, evidence in others)
        assert wire.is_aborted
        assert not link.is_open
        [later] = await asked(link, 1)
        assert later == others[0], "the connection ended for this reason"

    asyncio.run(story())


def test_unexpected_data_does_not_answer_the_next_call() -> None:
    async def story() -> None:
        link = AsyncConnection(HERE)
        Wire(link, [])
        link.data_received(b"message")
        await link.listen(LONG_S)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await link.listen(LONG_S)
        listening = asyncio.create_task(link.listen(LONG_S))
        await asyncio.sleep(0)
        link.data_received(b"message")
        await listening
        await link.listen(0.001)
        link.close()
        with pytest.raises(Failure, match="the connection is closed"):
            await link.listen(0.001)

    asyncio.run(story())


def test_hanging_up_ends_who_listens() -> None:
    async def story() -> None:
        link = AsyncConnection(HERE)
        wire = Wire(link, [])
        listening = asyncio.create_task(link.listen(LONG_S))
        await asyncio.sleep(0)
        link.close()
        await listening
        assert wire.is_aborted

    asyncio.run(story())


def test_the_first_reason_to_end_is_the_one_that_is_told() -> None:
    async def story() -> None:
        link = AsyncConnection(HERE)
        Wire(link, [])
        assert link.is_open
        link.fail(Failure(Cause.TIMEOUT, "late"))
        link.close()
        assert await asked(link, 1) == [(Cause.TIMEOUT, "late")]

    asyncio.run(story())


def test_a_call_on_a_connection_that_never_opened() -> None:
    async def story() -> None:
        assert await asked(AsyncConnection(HERE), 1) == [(Cause.CLOSED, "10.0.0.1:7000: the connection is closed")]

    asyncio.run(story())


def test_a_cancelled_call_is_not_sent_and_its_reply_not_missed() -> None:
    async def story() -> None:
        link = AsyncConnection(HERE)
        wire = Wire(link, [])
        deadline_s = asyncio.get_running_loop().time() + LONG_S
        calls = [asyncio.create_task(link.exchange(b"%d " % number, deadline_s)) for number in range(3)]
        await asyncio.sleep(0)
        calls[1].cancel()
        await asyncio.sleep(0)
        assert wire.sent == [b"0 2 "]
        calls[0].cancel()
        await asyncio.sleep(0)
        link.data_received(b":10\r\n:12\r\n")
        assert await calls[2] == 12
        assert link.is_open

    asyncio.run(story())


LOGIN = read_settings({"host": "10.0.0.1", "port": 7000}).login


async def opened(monkeypatch: pytest.MonkeyPatch, outcome: Exception | bytes, *, tls: bool = False) -> Any:
    made: list[Wire] = []
    context = ssl.create_default_context() if tls else None

    async def create_connection(factory: Any, host: str, port: int, **how: object) -> None:
        assert Endpoint(host, port) == HERE
        assert how == {"ssl": context, "server_hostname": "10.0.0.1" if tls else None}
        if isinstance(outcome, Exception):
            raise outcome
        made.append(Wire(factory(), [outcome]))

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create_connection)
    try:
        return await AsyncConnection.open(HERE, LOGIN, context, LONG_S), made[0]
    except Failure as failure:
        assert all(wire.is_aborted for wire in made)
        return failure.cause, failure.evidence


@pytest.mark.parametrize(("role", "is_primary"), [(b"master", True), (b"replica", False)])
@pytest.mark.parametrize("tls", [False, True])
def test_a_connection_is_opened_and_logged_in(
    monkeypatch: pytest.MonkeyPatch, role: bytes, *, is_primary: bool, tls: bool
) -> None:
    hello = b"*2\r\n$4\r\nrole\r\n$%d\r\n%b\r\n" % (len(role), role)
    link, wire = asyncio.run(opened(monkeypatch, hello, tls=tls))
    assert (link.is_primary, link.is_open, wire.sent, wire.is_aborted) == (is_primary, True, [LOGIN.hello()], False)


@pytest.mark.parametrize(
    ("outcome", "cause", "evidence"),
    [
        (ConnectionRefusedError(111, "Connection refused"), Cause.UNREACHABLE, "10.0.0.1:7000: Connection refused"),
        (OSError("all failed"), Cause.UNREACHABLE, "10.0.0.1:7000: all failed"),
        (TimeoutError(), Cause.UNREACHABLE, "10.0.0.1:7000: no connection in time"),
        (ssl.SSLError(1, "bad certificate"), Cause.TLS, "10.0.0.1:7000: bad certificate"),
        (ValueError("a label is too long"), Cause.UNREACHABLE, "10.0.0.1:7000: a label is too long"),
        (OverflowError("port"), Cause.UNREACHABLE, "10.0.0.1:7000: port"),
        (END, Cause.UNREACHABLE, "10.0.0.1:7000: the server closed the connection"),
    ],
)
def test_a_connection_that_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch, outcome: Exception | bytes, cause: Cause, evidence: str
) -> None:
    assert asyncio.run(opened(monkeypatch, outcome)) == (cause, evidence)


def test_a_login_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cause, _evidence = asyncio.run(opened(monkeypatch, b"-WRONGPASS no\r\n"))
    assert cause is Cause.AUTH


def test_an_opening_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async def hang(*_where: object, **_how: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", hang)
        before_s = time.monotonic()
        with pytest.raises(Failure, match="no connection in time"):
            await AsyncConnection.open(HERE, LOGIN, None, 0.05)
        assert 0.05 <= time.monotonic() - before_s < LONG_S

    asyncio.run(story())
