"""One connection that all tasks of an event loop share.

Calls that tasks make at about the same time leave in one packet. Replies arrive in the order of the calls.
"""

import asyncio
import select
import ssl
import time
from collections import deque
from collections.abc import Callable
from functools import wraps
from itertools import islice
from math import inf
from typing import Concatenate, ParamSpec, cast

from rlctl.limiter.core.internal import defects_as_failures
from rlctl.limiter.core.options import LEAST_EXCHANGE_S
from rlctl.limiter.core.routes import says_primary
from rlctl.limiter.core.settings import Endpoint, Login
from rlctl.limits.failures import Cause, Failure, before_asking
from rlctl.limits.resp import Incomplete, Reply, decision_numbers, parse

# If the oldest call of a connection is this late, the node or the network is gone, and the limiter closes the
# connection.
_SILENT_S = 0.5
# The most calls that a connection may have sent without a reply. Later calls wait in this process. Their wait does not
# count against the node: the node's time for a call starts when the call is sent.
_MOST_UNDER_WAY = 32
# The longest wait of an unsent call, as a multiple of the time that the node has for the call.
_MOST_TIMES = 32
# The least delay of the timer. A shorter delay could become 0, because uvloop rounds delays to whole milliseconds.
_SOON_S = 0.001

_Given = ParamSpec("_Given")


def _callback(
    method: Callable[Concatenate["AsyncConnection", _Given], None],
) -> Callable[Concatenate["AsyncConnection", _Given], None]:
    """Close the connection if its callback `method` raises.

    Without this decorator, the event loop would only log the error, and calls would wait for a reply forever.
    """

    @wraps(method)
    def guarded(link: "AsyncConnection", /, *args: _Given.args, **kwargs: _Given.kwargs) -> None:
        try:
            with defects_as_failures:
                method(link, *args, **kwargs)
        except Failure as failure:
            link.fail(failure)

    return guarded


class _Call:
    """A call under way. The node's time for the call starts when the message is sent. Times are from time.monotonic."""

    __slots__ = ("due_s", "future", "message", "replies", "time_s", "until_s")

    def __init__(self, future: asyncio.Future[Reply], message: bytes, replies: int, time_s: float) -> None:
        self.future = future
        self.message = message
        self.replies = replies
        self.time_s = time_s
        now_s = time.monotonic()
        self.due_s = now_s + time_s
        self.until_s = now_s + _MOST_TIMES * time_s


class AsyncConnection(asyncio.Protocol):
    """A connection that many calls share.

    Delays of the event loop itself do not count against the node. A call is late if the node has had the message for
    the call's whole time and the socket has no unread data. A late call fails, other calls continue, and the late reply
    is discarded. If the oldest call has no reply for a further half second, the connection is closed.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.is_open = False
        self.is_primary = True
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[_Call] = deque()
        self._unsent: deque[_Call] = deque()
        self._is_sending = False
        self._timer: asyncio.TimerHandle | None = None
        self._incoming = b""
        self._heard: asyncio.Event | None = None
        self._ended: Failure | None = None
        self._looks_at_s = inf

    @classmethod
    async def open(
        cls, endpoint: Endpoint, login: Login, context: ssl.SSLContext | None, timeout_s: float
    ) -> "AsyncConnection":
        """Connect, verify the certificate and log in; the cause of a Failure shows which of the three failed."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        link = cls(endpoint)
        name = endpoint.host if context is not None else None
        try:
            async with asyncio.timeout_at(deadline_s):
                await loop.create_connection(lambda: link, *endpoint, ssl=context, server_hostname=name)
            link.is_primary = says_primary(await link.exchange(login.hello(), deadline_s), endpoint)
        except (OSError, ValueError, OverflowError, Failure) as trouble:
            # ValueError: idna or TLS refuses the host name. OverflowError: the port is out of range.
            link.close()
            raise _opening_failure(trouble, endpoint) from trouble
        except asyncio.CancelledError:
            link.close()
            raise
        return link

    async def exchange(self, message: bytes, deadline_s: float, replies: int = 1) -> Reply:
        """Send a message, read `replies` replies and return the last one; `deadline_s` is a time of the loop's clock.

        If the loop sends the message late, the node still gets the time that was left when this method was called.
        """
        self._check_open()
        future: asyncio.Future[Reply] = self._loop.create_future()
        call = _Call(future, message, replies, max(LEAST_EXCHANGE_S, deadline_s - self._loop.time()))
        self._unsent.append(call)
        if not self._is_sending:
            # `_send` runs after the tasks that are ready now, so that their messages leave in the same packet.
            self._is_sending = True
            self._loop.call_soon(self._send)
        return await future

    async def listen(self, seconds: float) -> None:
        """Wait until the server pushes a message, or `seconds` have passed; the message is discarded."""
        self._check_open()
        if self._incoming:
            # A message has already arrived, so there is nothing to wait for.
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
        """Close the connection; calls under way fail."""
        self.fail(Failure(Cause.CLOSED, f"{self.endpoint}: the connection is closed"))

    def fail(self, failure: Failure) -> None:
        """Close the connection; calls under way and later calls raise this failure."""
        self.is_open = False
        self._ended = self._ended or failure
        if self._heard is not None:
            self._heard.set()
        if self._transport is not None:
            self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
        calls = [*self._waiting, *self._unsent]
        self._waiting.clear()
        self._unsent.clear()
        for call in calls:
            _give_up(call, failure)

    @_callback
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Mark the connection as open; called by the event loop."""
        # No isinstance: uvloop's transports do not inherit from those of asyncio.
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    @_callback
    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the calls under way. The event loop calls this method when the connection ends, also after `close`."""
        evidence = str(exc) if exc is not None else "the server closed the connection"
        self.fail(Failure(Cause.CLOSED, f"{self.endpoint}: {evidence}"))

    @_callback
    def data_received(self, data: bytes) -> None:
        """Deliver the replies in order. While `listen` waits, arriving data ends the wait and is discarded."""
        if self._heard is not None:
            self._heard.set()
            return
        if not self._incoming and len(self._waiting) == 1 and self._waiting[0].replies == 1:
            numbers = decision_numbers(data)
            if numbers is not None:
                self._hand_out(numbers)
                return
        self._incoming += data
        try:
            self._take_apart()
        except Failure as failure:
            self.fail(Failure(failure.cause, f"{self.endpoint}: {failure.evidence}"))
        if self._unsent:
            self._send()

    def _take_apart(self) -> None:
        at = 0
        try:
            while self._waiting and at < len(self._incoming):
                end, reply = at, None
                for _ in range(self._waiting[0].replies):
                    reply, end = parse(self._incoming, end)
                at = end
                self._hand_out(reply)
        except Incomplete:
            pass
        finally:
            self._incoming = self._incoming[at:]

    def _hand_out(self, reply: Reply) -> None:
        future = self._waiting.popleft().future
        # The caller may have been cancelled, or the call may have failed as too late, before this reply arrived.
        if not future.done():
            future.set_result(reply)

    @_callback
    def _send(self) -> None:
        self._is_sending = False
        if self._transport is None or not self.is_open:
            return
        calls = self._next_calls()
        # Do not use the loop's clock here: the clock of uvloop stands still while callbacks run.
        now_s = time.monotonic()
        if calls:
            for call in calls:
                call.due_s = now_s + call.time_s
            # Add the calls to `_waiting` before the write, so that these calls fail too if the write fails.
            self._waiting.extend(calls)
            self._transport.write(b"".join([call.message for call in calls]))
        self._watch(now_s, self._next_due_s())

    def _next_calls(self) -> list[_Call]:
        """Return the calls to send now, without cancelled calls.

        At most `_MOST_UNDER_WAY` calls are without a reply, including calls that were sent before.
        """
        calls: list[_Call] = []
        while self._unsent and len(self._waiting) + len(calls) < _MOST_UNDER_WAY:
            call = self._unsent.popleft()
            if not call.future.done():
                calls.append(call)
        return calls

    def _watch(self, now_s: float, due_s: float) -> None:
        """Schedule a check for late calls at `due_s`, unless an earlier check is scheduled."""
        if due_s < inf and (self._timer is None or due_s < self._looks_at_s):
            if self._timer is not None:
                self._timer.cancel()
            self._looks_at_s = due_s
            self._timer = self._loop.call_later(max(_SOON_S, due_s - now_s), self._look)

    @_callback
    def _look(self) -> None:
        self._timer = None
        now_s = time.monotonic()
        head = self._waiting[0] if self._waiting else None
        if any(call.due_s <= now_s for call in self._waiting) and self._has_arrived():
            # The socket has unread data, so this event loop is late, not the node. Check again after the loop has read
            # the data.
            self._watch(now_s, now_s)
            return
        if head is not None and head.due_s + _SILENT_S < now_s:
            self.fail(Failure(Cause.TIMEOUT, f"{self.endpoint}: no reply in time"))
            return
        self._give_up_late(now_s)
        # Unsent calls stay queued until the oldest call has waited twice its time, because its late reply may still
        # arrive.
        self._give_up_unsent(now_s, is_node_late=head is not None and head.due_s + head.time_s <= now_s)
        self._watch(now_s, self._next_due_s())

    def _give_up_late(self, now_s: float) -> None:
        failure = Failure(Cause.TIMEOUT, f"{self.endpoint}: no reply in time")
        for call in self._waiting:
            if call.due_s <= now_s:
                _give_up(call, failure)

    def _give_up_unsent(self, now_s: float, *, is_node_late: bool) -> None:
        """Fail unsent calls that have waited too long.

        If the node is late, a call fails with NO_CONNECTION after its `due_s`. Otherwise, a call fails with SATURATED
        after its `until_s`.
        """
        for call in self._unsent:
            if call.due_s <= now_s and is_node_late:
                _give_up(call, Failure(Cause.NO_CONNECTION, f"{self.endpoint}: earlier calls have no reply in time"))
            elif call.until_s <= now_s:
                _give_up(call, Failure(Cause.SATURATED, f"{self.endpoint}: more calls than this process can make"))
        self._unsent = deque(call for call in self._unsent if not call.future.done())

    def _next_due_s(self) -> float:
        """Return the earliest time at which a call becomes late or the connection has been silent for too long."""
        due_s = [call.due_s for call in self._waiting if not call.future.done()]
        silent_s = [call.due_s + _SILENT_S for call in islice(self._waiting, 1)]
        unsent_s = [call.due_s for call in islice(self._unsent, 1)]
        return min([*due_s, *silent_s, *unsent_s], default=inf)

    def _has_arrived(self) -> bool:
        """Return whether the socket has data that the loop has not read yet."""
        channel = self._transport.get_extra_info("socket") if self._transport is not None else None
        if channel is None:
            return False
        poll = select.poll()
        poll.register(channel.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _check_open(self) -> None:
        if not self.is_open:
            ended = self._ended or Failure(Cause.CLOSED, f"{self.endpoint}: the connection is closed")
            raise Failure(ended.cause, ended.evidence)


def _give_up(call: _Call, failure: Failure) -> None:
    if not call.future.done():
        call.future.set_exception(Failure(failure.cause, failure.evidence))


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
        case ValueError() | OverflowError():
            return Failure(Cause.UNREACHABLE, f"{endpoint}: {trouble}")
        case _:
            return trouble
