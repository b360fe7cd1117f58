"""One connection to one server, with a deadline for each exchange and no retries.

This module uses plain sockets, so that one deadline covers sending, receiving and a redirection. Client libraries
retry, hide READONLY errors, and need twice as long to parse the reply of a script.
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


class Connection:
    """An open, logged-in connection. One thread at a time may use it; close it after its first failure."""

    __slots__ = ("_limit_ms", "_socket", "endpoint", "is_primary", "used_at_s")

    def __init__(self, channel: socket.socket, endpoint: Endpoint) -> None:
        self._socket = channel
        self._limit_ms = 0
        self.endpoint = endpoint
        self.is_primary = True
        self.used_at_s = 0.0

    @classmethod
    def open(cls, endpoint: Endpoint, login: Login, context: ssl.SSLContext | None, timeout_s: float) -> "Connection":
        """Connect, verify the certificate and log in; the cause of a Failure shows which of the three failed."""
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
        """Send a message, read `replies` replies and return the last. After a Failure, the connection is unusable."""
        channel = self._socket
        try:
            self._limit(deadline_s)
            channel.sendall(message)
            try:
                data = channel.recv(_CHUNK)
            except TimeoutError:
                data = self._already_received()
            if replies == 1 and (numbers := decision_numbers(data)) is not None:
                return numbers
            return self._read(data, deadline_s, replies)
        except OSError as failure:
            raise self._failure(failure) from None

    def _already_received(self) -> bytes:
        """Return data that arrived while this thread waited for the interpreter lock; TimeoutError if none arrived."""
        self._socket.settimeout(0)
        self._limit_ms = 0
        try:
            return self._socket.recv(_CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError):
            raise TimeoutError from None

    def send(self, message: bytes, deadline_s: float) -> None:
        """Send without waiting for replies; `replies` or `receive` read them."""
        try:
            self._limit(deadline_s)
            self._socket.sendall(message)
        except OSError as failure:
            raise self._failure(failure) from None

    def replies(self, count: int, deadline_s: float) -> list[Reply | Failure]:
        """Read `count` replies to earlier messages. If reading fails, the Failure replaces each missing reply."""
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
        """Read unparsed data until `is_whole` accepts it."""
        data = b""
        try:
            while not is_whole(data):
                data += self._more(deadline_s, is_empty=False)
        except OSError as failure:
            raise self._failure(failure) from None
        return data

    def listen(self, deadline_s: float) -> None:
        """Wait until the server pushes a message, or until the deadline; the message is discarded."""
        try:
            self._limit(deadline_s)
            if not self._socket.recv(_CHUNK):
                raise ConnectionResetError(0, "the server closed the connection")
        except TimeoutError:
            return
        except OSError as failure:
            raise self._failure(failure) from None

    def wake(self) -> None:
        """End the `listen` of another thread."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def is_stale(self) -> bool:
        """Return whether the server closed the connection, or sent data that no call waits for."""
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
        """Set the socket's time-out to the deadline; TimeoutError if it has passed."""
        left_ms = ceil((deadline_s - time.monotonic()) * 1000)
        if left_ms <= 0:
            raise TimeoutError
        if left_ms != self._limit_ms:
            self._socket.settimeout(left_ms / 1000)
            self._limit_ms = left_ms


def tls_context(login: Login) -> ssl.SSLContext | None:
    """Return the TLS context that verifies servers; None without TLS. Raises Failure if the CA cannot be read."""
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
        # ValueError: idna or TLS refuses the host name. OverflowError: the port is out of range.
        if channel is not None:
            channel.close()
        cause = Cause.TLS if isinstance(failure, ssl.SSLError) else Cause.UNREACHABLE
        raise Failure(cause, f"{endpoint}: {getattr(failure, 'strerror', None) or failure}") from None
