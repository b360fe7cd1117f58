"""One connection for all tasks of an event loop: calls go out together, replies come back in order."""

import asyncio
import ssl
from collections import deque

from rlctl.limiter.failures import Cause, Failure, before_asking
from rlctl.limiter.resp import Incomplete, Reply, decision_numbers, parse
from rlctl.limiter.routes import says_primary
from rlctl.limiter.settings import Endpoint, Login


class AsyncLink(asyncio.Protocol):
    """A connection that fails as a whole: after the first late reply nobody knows which one comes next."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.is_open = False
        self.is_primary = True
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[asyncio.Future[Reply], int]] = deque()
        self._outgoing: list[bytes] = []
        self._incoming = b""
        self._heard: asyncio.Event | None = None

    @classmethod
    async def open(
        cls, endpoint: Endpoint, login: Login, context: ssl.SSLContext | None, timeout_s: float
    ) -> "AsyncLink":
        """Connect, verify, log in; Failure says which of them went wrong."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        link = cls(endpoint)
        name = endpoint.host if context is not None else None
        try:
            async with asyncio.timeout_at(deadline_s):
                await loop.create_connection(lambda: link, *endpoint, ssl=context, server_hostname=name)
            link.is_primary = says_primary(await link.exchange(login.hello(), deadline_s), endpoint)
        except (OSError, Failure) as trouble:
            link.close()
            raise _opening_failure(trouble, endpoint) from trouble
        except asyncio.CancelledError:
            link.close()
            raise
        return link

    async def exchange(self, message: bytes, deadline_s: float, replies: int = 1) -> Reply:
        """Send, and give the last of so many replies; the deadline is in the loop's time."""
        if not self.is_open:
            raise Failure(Cause.CLOSED, f"{self.endpoint}: the connection is closed")
        future: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting.append((future, replies))
        self._outgoing.append(message)
        if len(self._outgoing) == 1:
            # What other tasks ask in this turn of the loop leaves in the same packet.
            self._loop.call_soon(self._send)
        timer = self._loop.call_at(deadline_s, self._expire)
        try:
            return await future
        finally:
            timer.cancel()

    async def listen(self, seconds: float) -> None:
        """Wait until the server says something unasked, or so long; what it said is thrown away."""
        if not self.is_open:
            raise Failure(Cause.CLOSED, f"{self.endpoint}: the connection is closed")
        if self._incoming:
            # It came while nobody listened.
            self._incoming = b""
            return
        self._heard = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        except TimeoutError:
            return
        finally:
            self._heard = None

    def close(self) -> None:
        """Hang up; who still waits learns that the connection is closed."""
        self._fail(Cause.CLOSED, "the connection is closed")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop has connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        """The server hung up, or we did."""
        self._fail(Cause.CLOSED, str(exc) if exc is not None else "the server closed the connection")

    def data_received(self, data: bytes) -> None:
        """Hand the replies out, in order; whoever listens wants to know only that there was something."""
        if self._heard is not None:
            self._heard.set()
            return
        if not self._incoming and len(self._waiting) == 1 and self._waiting[0][1] == 1:
            numbers = decision_numbers(data)
            if numbers is not None:
                self._hand_out(numbers)
                return
        self._incoming += data
        try:
            self._take_apart()
        except Failure as failure:
            self._fail(failure.cause, failure.evidence)

    def _take_apart(self) -> None:
        at = 0
        try:
            while self._waiting and at < len(self._incoming):
                end, reply = at, None
                for _ in range(self._waiting[0][1]):
                    reply, end = parse(self._incoming, end)
                at = end
                self._hand_out(reply)
        except Incomplete:
            pass
        finally:
            self._incoming = self._incoming[at:]

    def _hand_out(self, reply: Reply) -> None:
        future, _replies = self._waiting.popleft()
        # A task that was cancelled meanwhile does not want it any more.
        if not future.done():
            future.set_result(reply)

    def _send(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        if self._transport is not None and self.is_open:
            self._transport.write(b"".join(outgoing))

    def _expire(self) -> None:
        self._fail(Cause.TIMEOUT, "no reply in time")

    def _fail(self, cause: Cause, evidence: str) -> None:
        self.is_open = False
        if self._heard is not None:
            self._heard.set()
        if self._transport is not None:
            self._transport.abort()
        waiting, self._waiting = self._waiting, deque()
        for future, _replies in waiting:
            if not future.done():
                future.set_exception(Failure(cause, f"{self.endpoint}: {evidence}"))


def _opening_failure(trouble: BaseException, endpoint: Endpoint) -> BaseException:
    match trouble:
        case Failure():
            return before_asking(trouble)
        case ssl.SSLError():
            return Failure(Cause.TLS, f"{endpoint}: {trouble.strerror or trouble}")
        case TimeoutError():
            return Failure(Cause.UNREACHABLE, f"{endpoint}: no connection in time")
        case OSError():
            return Failure(Cause.UNREACHABLE, f"{endpoint}: {trouble.strerror or trouble}")
        case _:
            return trouble
