"""One connection to one server: bounded in time, no retries, nothing hidden.

Plain sockets, because a decision has one deadline over sending, receiving and following a redirection, and because
client libraries retry, translate READONLY, and need twice the time for six integers.
"""

import socket
import ssl
import time
from collections.abc import Callable
from math import ceil

from rlctl.limiter.core.routes import says_primary
from rlctl.limiter.core.settings import Endpoint, Login
from rlctl.limits.failures import Cause, Failure, before_asking
from rlctl.limits.resp import Incomplete, Reply, decision_numbers, parse

_CHUNK = 65536


class Link:
    """An open, logged-in connection; used by one thread at a time and closed after its first failure."""

    __slots__ = ("_limit_ms", "_socket", "endpoint", "is_primary", "used_at_s")

    def __init__(self, channel: socket.socket, endpoint: Endpoint) -> None:
        self._socket = channel
        self._limit_ms = 0
        self.endpoint = endpoint
        self.is_primary = True
        self.used_at_s = 0.0

    @classmethod
    def open(cls, endpoint: Endpoint, login: Login, context: ssl.SSLContext | None, timeout_s: float) -> "Link":
        """Connect, verify, log in; Failure says which of them went wrong."""
        deadline_s = time.monotonic() + timeout_s
        channel = _connect(endpoint, context, deadline_s)
        link = cls(channel, endpoint)
        try:
            link.is_primary = says_primary(link.exchange(login.hello(), deadline_s), endpoint)
        except BaseException as failure:
            link.close()
            if isinstance(failure, Failure):
                raise before_asking(failure) from failure
            raise
        link.used_at_s = time.monotonic()
        return link

    def exchange(self, message: bytes, deadline_s: float, replies: int = 1) -> Reply:
        """Send, and give the last of so many replies; a Failure leaves the connection unusable."""
        channel = self._socket
        try:
            self._limit(deadline_s)
            channel.sendall(message)
            try:
                data = channel.recv(_CHUNK)
            except TimeoutError:
                data = self._at_hand()
            if replies == 1 and (numbers := decision_numbers(data)) is not None:
                return numbers
            return self._read(data, deadline_s, replies)
        except OSError as failure:
            raise self._failure(failure) from None

    def _at_hand(self) -> bytes:
        """What has arrived while this thread, its time over, waited for the interpreter."""
        self._socket.settimeout(0)
        self._limit_ms = 0
        try:
            return self._socket.recv(_CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError):
            raise TimeoutError from None

    def send(self, message: bytes, deadline_s: float) -> None:
        """Send without waiting for the replies; `receive` takes them."""
        try:
            self._limit(deadline_s)
            self._socket.sendall(message)
        except OSError as failure:
            raise self._failure(failure) from None

    def replies(self, count: int, deadline_s: float) -> list[Reply | Failure]:
        """The replies to what was sent before; from the first failure on, that failure."""
        found: list[Reply | Failure] = []
        data, at = b"", 0
        try:
            while len(found) < count:
                try:
                    reply, at = parse(data, at)
                    found.append(reply)
                except Incomplete:
                    data, at = data[at:] + self._more(deadline_s, is_empty=False), 0
        except OSError as failure:
            found += [self._failure(failure)] * (count - len(found))
        except Failure as failure:
            found += [failure] * (count - len(found))
        return found

    def receive(self, is_whole: Callable[[bytes], bool], deadline_s: float) -> bytes:
        """Everything that arrives until it is whole, unparsed."""
        data = b""
        try:
            while not is_whole(data):
                data += self._more(deadline_s, is_empty=False)
        except OSError as failure:
            raise self._failure(failure) from None
        return data

    def listen(self, deadline_s: float) -> None:
        """Wait until the server says something unasked, or until then; what it said is thrown away."""
        try:
            self._limit(deadline_s)
            if not self._socket.recv(_CHUNK):
                raise ConnectionResetError(0, "the server closed the connection")
        except TimeoutError:
            return
        except OSError as failure:
            raise self._failure(failure) from None

    def wake(self) -> None:
        """End whatever another thread waits for here."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def is_stale(self) -> bool:
        """Whether the server hung up, or said something unasked, while nobody looked."""
        try:
            self._socket.settimeout(0)
            self._limit_ms = 0
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        """Hang up."""
        try:
            self._socket.close()
        except OSError:
            return

    def _read(self, data: bytes, deadline_s: float, replies: int) -> Reply:
        at, reply = 0, None
        for _ in range(replies):
            while True:
                try:
                    reply, at = parse(data, at)
                    break
                except Incomplete:
                    data += self._more(deadline_s, is_empty=not data)
        return reply

    def _failure(self, failure: OSError) -> Failure:
        if isinstance(failure, TimeoutError):
            return Failure(Cause.TIMEOUT, f"{self.endpoint}: no reply in time")
        return Failure(Cause.CLOSED, f"{self.endpoint}: {failure.strerror or failure}")

    def _more(self, deadline_s: float, *, is_empty: bool) -> bytes:
        chunk = b""
        if not is_empty:
            self._limit(deadline_s)
            chunk = self._socket.recv(_CHUNK)
        if not chunk:
            raise ConnectionResetError(0, "the server closed the connection")
        return chunk

    def _limit(self, deadline_s: float) -> None:
        """Let the next wait end at the deadline, in the system's whole milliseconds."""
        left_ms = ceil((deadline_s - time.monotonic()) * 1000)
        if left_ms <= 0:
            raise TimeoutError
        if left_ms != self._limit_ms:
            self._socket.settimeout(left_ms / 1000)
            self._limit_ms = left_ms


def tls_context(login: Login) -> ssl.SSLContext | None:
    """How to verify the servers of a fleet with TLS; Failure where its certificate cannot be read."""
    if not login.tls:
        return None
    try:
        return ssl.create_default_context(cafile=login.ca)
    except OSError as failure:
        raise Failure(Cause.TLS, f"{login.ca}: {failure.strerror or failure}") from failure


def _connect(endpoint: Endpoint, context: ssl.SSLContext | None, deadline_s: float) -> socket.socket:
    channel: socket.socket | None = None
    try:
        channel = socket.create_connection(endpoint, timeout=deadline_s - time.monotonic())
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return channel
        channel.settimeout(max(0.001, deadline_s - time.monotonic()))
        return context.wrap_socket(channel, server_hostname=endpoint.host)
    except (OSError, ValueError, OverflowError) as failure:
        # ValueError: a host name that idna or TLS refuses; OverflowError: a port that is none.
        if channel is not None:
            channel.close()
        cause = Cause.TLS if isinstance(failure, ssl.SSLError) else Cause.UNREACHABLE
        raise Failure(cause, f"{endpoint}: {getattr(failure, 'strerror', None) or failure}") from None
