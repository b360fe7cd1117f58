"""One connection of a thread: what it reads from a socket, in which time, and which failure it names."""

import socket
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from rlctl.limiter.core.settings import Endpoint, read_settings
from rlctl.limiter.threads.connection import Connection, tls_context
from rlctl.limits.failures import Cause, Failure
from rlctl.limits.resp import ErrorReply

HERE = Endpoint("10.0.0.1", 7000)
NUMBERS = b"*6\r\n:1\r\n:10\r\n:9\r\n:0\r\n:1000\r\n:0\r\n"
SIX = [1, 10, 9, 0, 1000, 0]
RESET = ConnectionResetError(104, "Connection reset by peer")
TIMEOUT = (Cause.TIMEOUT, "10.0.0.1:7000: no reply in time")
CLOSED = (Cause.CLOSED, "10.0.0.1:7000: the server closed the connection")
LONG_S = 100.0
Chunk = bytes | OSError


class Channel:
    """A socket that delivers prepared chunks and failures, and records its time-outs."""

    def __init__(self, *chunks: Chunk) -> None:
        self.chunks = list(chunks)
        self.sent = b""
        self.timeouts_s: list[float] = []
        self.is_closed = False

    def settimeout(self, seconds: float) -> None:
        self.timeouts_s.append(seconds)

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def recv(self, _size: int) -> bytes:
        chunk = self.chunks.pop(0)
        if isinstance(chunk, OSError):
            raise chunk
        return chunk

    def setsockopt(self, *option: int) -> None:
        assert option == (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def shutdown(self, _how: int) -> None:
        raise OSError(107, "not connected")

    def close(self) -> None:
        self.is_closed = True
        raise OSError(5, "cannot close")


def link(*chunks: Chunk) -> tuple[Connection, Channel]:
    channel = Channel(*chunks)
    return Connection(cast("socket.socket", channel), HERE), channel


def exchange(chunks: Sequence[Chunk], replies: int = 1) -> Any:
    """The reply, or the cause and the evidence of the failure."""
    subject, channel = link(*chunks)
    try:
        reply = subject.exchange(b"call", time.monotonic() + LONG_S, replies)
    except Failure as failure:
        return failure.cause, failure.evidence
    finally:
        assert channel.sent == b"call"
        assert channel.chunks == []
    return reply


@pytest.mark.parametrize(
    ("chunks", "replies", "found"),
    [
        pytest.param([NUMBERS], 1, SIX, id="a decision"),
        pytest.param([NUMBERS[:9], NUMBERS[9:]], 1, SIX, id="a decision in two parts"),
        pytest.param([b"+OK\r\n"], 1, b"OK", id="another reply"),
        pytest.param([b"+OK\r\n" + NUMBERS], 2, SIX, id="the last of two"),
        pytest.param([b"+OK\r\n", NUMBERS], 2, SIX, id="one after the other"),
        pytest.param([NUMBERS + b"+OK\r\n"], 2, b"OK", id="a decision that is not the last"),
        pytest.param([TimeoutError(), NUMBERS], 1, SIX, id="it had arrived"),
        pytest.param([TimeoutError(), BlockingIOError()], 1, TIMEOUT, id="it had not"),
        pytest.param([b""], 1, CLOSED, id="the server hangs up"),
        pytest.param([b"+O", b""], 1, CLOSED, id="in the middle"),
        pytest.param([b"+O", TimeoutError()], 1, TIMEOUT, id="the rest is late"),
        pytest.param([RESET], 1, (Cause.CLOSED, "10.0.0.1:7000: Connection reset by peer"), id="reset"),
        pytest.param([OSError("odd")], 1, (Cause.CLOSED, "10.0.0.1:7000: odd"), id="a failure without a number"),
    ],
)
def test_an_exchange(chunks: Sequence[Chunk], replies: int, found: object) -> None:
    assert exchange(chunks, replies) == found


def test_an_error_is_a_reply() -> None:
    reply = exchange([b"-ERR no\r\n"])
    assert isinstance(reply, ErrorReply)
    assert reply.text == "ERR no"


@pytest.mark.parametrize(
    ("chunks", "found"),
    [
        pytest.param([b":1\r\n:2\r\n:3\r\n"], [1, 2, 3], id="at once"),
        pytest.param([b":1\r\n:", b"2\r\n", b":3\r\n"], [1, 2, 3], id="in parts"),
        pytest.param([b":1\r\n", b""], [1, CLOSED, CLOSED], id="the server hangs up after one"),
        pytest.param([b":1\r\n:2\r\n", TimeoutError()], [1, 2, TIMEOUT], id="the last is late"),
        pytest.param([b":1\r\nwhat\r\n"], [1, Cause.ERROR, Cause.ERROR], id="no protocol"),
    ],
)
def test_replies_end_with_the_first_failure(chunks: Sequence[Chunk], found: list[object]) -> None:
    subject, channel = link(*chunks)
    subject.send(b"call", time.monotonic() + LONG_S)
    replies = subject.replies(3, time.monotonic() + LONG_S)
    assert channel.sent == b"call"
    assert len(replies) == len(found)
    for reply, wanted in zip(replies, found, strict=True):
        if isinstance(reply, Failure):
            assert wanted in ((reply.cause, reply.evidence), reply.cause)
        else:
            assert reply == wanted


def test_a_wait_ends_at_the_deadline_in_whole_milliseconds() -> None:
    subject, channel = link(NUMBERS, NUMBERS)
    began_s = time.monotonic()
    subject.exchange(b"call", began_s + LONG_S)
    [timeout_s] = channel.timeouts_s
    assert LONG_S - (time.monotonic() - began_s) <= timeout_s <= LONG_S
    assert round(timeout_s * 1000) == pytest.approx(timeout_s * 1000)


def test_after_the_deadline_nothing_is_sent_and_nothing_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlctl.limiter.threads.connection.time.monotonic", lambda: 1000.0)
    for deadline_s in (1000.0, 999.0):
        for act in (Connection.exchange, Connection.send):
            subject, channel = link()
            with pytest.raises(Failure) as failure:
                act(subject, b"call", deadline_s)
            assert (failure.value.cause, channel.sent) == (Cause.TIMEOUT, b"")


def test_the_time_out_is_set_again_only_where_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlctl.limiter.threads.connection.time.monotonic", lambda: 1000.0)
    subject, channel = link(NUMBERS, NUMBERS, NUMBERS)
    for deadline_s in (1000.0041, 1000.0045, 1000.0061):
        subject.exchange(b"call", deadline_s)
    assert channel.timeouts_s == [0.005, 0.007]


def test_after_a_look_the_time_out_is_set_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlctl.limiter.threads.connection.time.monotonic", lambda: 1000.0)
    subject, channel = link(NUMBERS, BlockingIOError(), TimeoutError(), NUMBERS, NUMBERS)
    subject.exchange(b"call", 1000.005)
    assert not subject.is_stale()
    for _ in range(2):
        subject.exchange(b"call", 1000.005)
    assert channel.timeouts_s == [0.005, 0, 0.005, 0, 0.005]


@pytest.mark.parametrize(
    ("chunk", "is_stale"),
    [
        pytest.param(BlockingIOError(), False, id="silent"),
        pytest.param(b"", True, id="hung up"),
        pytest.param(b"+", True, id="said something unasked"),
        pytest.param(RESET, True, id="reset"),
    ],
)
def test_a_stale_connection(chunk: Chunk, *, is_stale: bool) -> None:
    assert link(chunk)[0].is_stale() is is_stale


def test_everything_is_received_until_it_is_whole() -> None:
    subject, channel = link(b"ab", b"c", b"d")
    assert subject.receive(lambda data: len(data) >= 3, time.monotonic() + LONG_S) == b"abc"
    assert channel.chunks == [b"d"]
    for chunk, cause in ((b"", Cause.CLOSED), (RESET, Cause.CLOSED), (TimeoutError(), Cause.TIMEOUT)):
        with pytest.raises(Failure) as failure:
            link(b"a", chunk)[0].receive(lambda _data: False, time.monotonic() + LONG_S)
        assert failure.value.cause is cause


def test_listening_ends_with_a_word_or_with_the_time() -> None:
    deadline_s = time.monotonic() + LONG_S
    link(b"message")[0].listen(deadline_s)
    link(TimeoutError())[0].listen(deadline_s)
    for chunk in (b"", RESET):
        with pytest.raises(Failure) as failure:
            link(chunk)[0].listen(deadline_s)
        assert failure.value.cause is Cause.CLOSED


def test_hanging_up_never_fails() -> None:
    subject, channel = link()
    subject.wake()
    subject.close()
    assert channel.is_closed


HELLO = b"*2\r\n$4\r\nrole\r\n$%d\r\n%b\r\n"
LOGIN = read_settings({"host": "10.0.0.1", "port": 7000}).login


class Context:
    """TLS that is asked for, and may be refused."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.hosts: list[str] = []

    def wrap_socket(self, channel: Channel, server_hostname: str) -> Channel:
        self.hosts.append(server_hostname)
        if self.failure is not None:
            raise self.failure
        return channel


def opened(
    monkeypatch: pytest.MonkeyPatch, channel: Channel | Exception, context: Context | None = None
) -> tuple[Connection, list[float]]:
    waits_s: list[float] = []

    def create(address: Endpoint, timeout: float) -> Channel:
        assert address == HERE
        waits_s.append(timeout)
        if isinstance(channel, Exception):
            raise channel
        return channel

    monkeypatch.setattr("rlctl.limiter.threads.connection.socket.create_connection", create)
    return Connection.open(HERE, LOGIN, cast("Any", context), LONG_S), waits_s


@pytest.mark.parametrize(("role", "is_primary"), [(b"master", True), (b"replica", False)])
def test_a_connection_is_opened_and_logged_in(
    monkeypatch: pytest.MonkeyPatch, role: bytes, *, is_primary: bool
) -> None:
    channel = Channel(HELLO % (len(role), role))
    before_s = time.monotonic()
    subject, waits_s = opened(monkeypatch, channel)
    assert (subject.is_primary, subject.endpoint, channel.sent) == (is_primary, HERE, LOGIN.hello())
    assert before_s <= subject.used_at_s <= time.monotonic()
    assert LONG_S - 10 < waits_s[0] <= LONG_S
    assert not channel.is_closed


@pytest.mark.parametrize(
    ("channel", "cause", "evidence"),
    [
        (ConnectionRefusedError(111, "Connection refused"), Cause.UNREACHABLE, "Connection refused"),
        (ValueError("a label is too long"), Cause.UNREACHABLE, "a label is too long"),
        (OverflowError("port must be 0-65535."), Cause.UNREACHABLE, "port must be 0-65535."),
        (TimeoutError("timed out"), Cause.UNREACHABLE, "timed out"),
    ],
)
def test_a_connection_that_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch, channel: Exception, cause: Cause, evidence: str
) -> None:
    with pytest.raises(Failure) as failure:
        opened(monkeypatch, channel)
    assert (failure.value.cause, failure.value.evidence) == (cause, f"10.0.0.1:7000: {evidence}")


@pytest.mark.parametrize(
    ("chunks", "cause"),
    [
        ([b"-WRONGPASS no\r\n"], Cause.AUTH),
        ([b""], Cause.UNREACHABLE),
        ([TimeoutError(), BlockingIOError()], Cause.UNREACHABLE),
        ([b"HTTP/1.1 400\r\n"], Cause.UNREACHABLE),
    ],
)
def test_a_server_that_does_not_log_us_in_is_hung_up_on(
    monkeypatch: pytest.MonkeyPatch, chunks: Sequence[Chunk], cause: Cause
) -> None:
    channel = Channel(*chunks)
    with pytest.raises(Failure) as failure:
        opened(monkeypatch, channel)
    assert channel.is_closed
    assert failure.value.cause is cause
    assert not failure.value.cause.is_indeterminate


def test_an_interruption_of_the_login_hangs_up(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = Channel()
    monkeypatch.setattr(channel, "sendall", interrupt)
    with pytest.raises(KeyboardInterrupt):
        opened(monkeypatch, channel)
    assert channel.is_closed


def interrupt(_data: bytes) -> None:
    raise KeyboardInterrupt


def test_the_certificate_is_that_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    channel, context = Channel(HELLO % (6, b"master")), Context()
    opened(monkeypatch, channel, context)
    assert context.hosts == ["10.0.0.1"]
    assert 0 < channel.timeouts_s[0] <= LONG_S


@pytest.mark.parametrize(
    ("failure", "cause"), [(ssl.SSLError(1, "bad certificate"), Cause.TLS), (RESET, Cause.UNREACHABLE)]
)
def test_a_handshake_that_fails(monkeypatch: pytest.MonkeyPatch, failure: OSError, cause: Cause) -> None:
    channel = Channel()
    monkeypatch.setattr(channel, "close", lambda: setattr(channel, "is_closed", True))
    with pytest.raises(Failure) as caught:
        opened(monkeypatch, channel, Context(failure))
    assert (caught.value.cause, caught.value.evidence) == (cause, f"10.0.0.1:7000: {failure.strerror}")
    assert channel.is_closed


def test_without_tls_there_is_no_context() -> None:
    assert tls_context(LOGIN) is None


def test_a_certificate_that_cannot_be_read(tmp_path: Path) -> None:
    settings = read_settings({"host": "10.0.0.1", "port": 7000, "tls": True, "ca": str(tmp_path / "ca.pem")})
    with pytest.raises(Failure, match=r"ca\.pem: No such file or directory") as failure:
        tls_context(settings.login)
    assert failure.value.cause is Cause.TLS
