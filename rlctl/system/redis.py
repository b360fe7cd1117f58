"""A connection to one server that limits the time and the size of replies, and has a class for each kind of error.

It uses no Redis client library. Such a library may not show which node sent a reply, and limits only the time of each
read from the socket. Here, the node is always known, and the limit is for a whole reply.
"""

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rlctl.limits.failures import ErrorReply, Failure
from rlctl.limits.resp import Incomplete, command, parse
from rlctl.secrets import Secret
from rlctl.system.open_files import limit_reached

Reply = Any  # str, int, None or nested lists of them

_CHUNK = 1 << 16
_LARGEST_REPLY = 32 << 20
_SHOWN_CHARS = 120
# Sent before the process is known to be Redis. An inline command does the least harm to any other server.
_GREETING = b"PING\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """User and password of a connection; `ca` is the PEM certificate with which TLS verifies the server."""

    username: str | None = None
    password: Secret | None = None
    ca: str | None = None


class LinkFailure(Exception):
    """The server could not be reached or used; `reason` names the kind of failure, the message has the evidence."""

    def __init__(self, reason: str, evidence: str) -> None:
        super().__init__(evidence)
        self.reason = reason


class Closed(LinkFailure):
    """No process listens at the address, or the connection was closed."""

    def __init__(self, evidence: str) -> None:
        super().__init__("closed", evidence)


class Silent(LinkFailure):
    """A process listens at the address and does not answer in time."""

    def __init__(self, evidence: str) -> None:
        super().__init__("silent", evidence)


class NotRedis(LinkFailure):
    """The process is not a Redis server with a password, or has no certificate of the fleet's authority."""

    def __init__(self, evidence: str) -> None:
        super().__init__("stranger", evidence)


class InvalidReply(LinkFailure):
    """A server that accepted the login, or needs none, sent a reply that is not valid Redis protocol."""

    def __init__(self, evidence: str) -> None:
        super().__init__("nonsense", evidence)


class Unproven(LinkFailure):
    """The process at the address is not proven to be the node, so rlctl sends it no password."""

    def __init__(self, evidence: str) -> None:
        super().__init__("unproven", evidence)


class HandshakeDropped(LinkFailure):
    """The peer closed the connection during the TLS handshake.

    The peer is then a process that is not the node, or a server that is shutting down.
    """

    def __init__(self, evidence: str) -> None:
        super().__init__("dropped", evidence)


class Full(LinkFailure):
    """The server is at `maxclients` and closes every new connection."""

    # How the error text begins: `max number of clients reached`, or `max number of clients + cluster connections ...`.
    says = "max number of clients"

    def __init__(self, evidence: str) -> None:
        super().__init__("full", evidence)


class LoginRefused(LinkFailure):
    """The server does not accept the user or password."""

    def __init__(self, evidence: str) -> None:
        super().__init__("denied", evidence)


class CommandFailed(Exception):
    """The server sent an error reply; `prefix` is its first word."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.prefix = text.split(" ", 1)[0]


def no_proof() -> str | None:
    """A `why_unproven` callback that never returns a reason, for servers that the caller started itself."""
    return None


class NodeLink:
    """A connection to a node. It opens at the first call, and never retries a command.

    Before the link sends a password without TLS, it calls `why_unproven`. If that returns a reason to doubt that the
    process at the address is the node, the link raises Unproven and sends no password.
    """

    def __init__(
        self,
        address: str,
        port: int,
        credentials: Credentials,
        *,
        timeout_s: float = 2.0,
        why_unproven: Callable[[], str | None] = no_proof,
    ) -> None:
        self.endpoint = f"{address}:{port}"
        self._address = (address, port)
        self._credentials = credentials
        self._timeout_s = timeout_s
        self._why_unproven = why_unproven
        self._channel: _Channel | None = None

    @property
    def is_open(self) -> bool:
        """Whether the next call uses an existing connection."""
        return self._channel is not None

    def call(self, *words: object) -> Reply:
        """Send one command and return its reply. Raises CommandFailed for an error reply."""
        [reply] = self.pipeline([words])
        if isinstance(reply, CommandFailed):
            raise reply
        return reply

    def pipeline(
        self, commands: Sequence[Sequence[object]], *, answer_s: float | None = None
    ) -> list[Reply | CommandFailed]:
        """Send all commands in one write and return their replies in order; error replies are CommandFailed values.

        `answer_s` limits the time for connecting, logging in and all replies together; the default is the link's
        time-out. The time that `why_unproven` takes does not count.
        """
        limit_s = self._timeout_s if answer_s is None else answer_s
        deadline_s = time.monotonic() + limit_s
        try:
            channel = self._channel
            if channel is None:
                channel, deadline_s = self._open(deadline_s)
            channel.send(commands, deadline_s)
            replies = [channel.read(deadline_s) for _ in commands]
        except BaseException as failure:
            self.close()
            raise limit_reached(failure) or _translated(failure, self.endpoint, limit_s) from failure
        _check_login(replies, self.endpoint)
        return replies

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def abort(self) -> None:
        """End the call that another thread is making on this link; that call raises Closed."""
        channel = self._channel
        if channel is not None:
            channel.abort()

    def _open(self, deadline_s: float) -> tuple["_Channel", float]:
        """Connect and log in. Returns the channel, and the deadline extended by the time that `why_unproven` took."""
        self._channel = channel = _Channel.connect(self._address, self._credentials.ca, deadline_s)
        if self._credentials.password is not None:
            if self._credentials.ca is None:
                deadline_s += self._check_before_password(channel, deadline_s)
            self._log_in(channel, self._credentials.password, deadline_s)
        return channel, deadline_s

    def _check_before_password(self, channel: "_Channel", deadline_s: float) -> float:
        """Raise NotRedis or Unproven if the server must not get the password.

        Returns the seconds that `why_unproven` took.
        """
        channel.send_bytes(_GREETING, deadline_s)
        try:
            answer = channel.read(deadline_s)
        except Failure as failure:
            raise NotRedis(f"{self.endpoint}: does not speak the Redis protocol") from failure
        if not isinstance(answer, CommandFailed) or answer.prefix != "NOAUTH":
            raise NotRedis(f"{self.endpoint}: does not require a password")
        asked_s = time.monotonic()
        reason = self._why_unproven()
        if reason is not None:
            raise Unproven(f"{self.endpoint}: {reason}")
        return time.monotonic() - asked_s

    def _log_in(self, channel: "_Channel", password: Secret, deadline_s: float) -> None:
        user = () if self._credentials.username is None else (self._credentials.username,)
        channel.send([("AUTH", *user, password.reveal())], deadline_s)
        answer = channel.read(deadline_s)
        if isinstance(answer, CommandFailed):
            raise LoginRefused(f"{self.endpoint}: {answer}")


class _Channel:
    """An open socket and its unread data."""

    def __init__(self, channel: socket.socket) -> None:
        self._socket = channel
        self._data = b""

    @classmethod
    def connect(cls, address: tuple[str, int], ca: str | None, deadline_s: float) -> "_Channel":
        channel = socket.create_connection(address, timeout=_left_s(deadline_s))
        try:
            channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if ca is not None:
                import ssl  # noqa: PLC0415  costs start-up time that only TLS pays

                channel.settimeout(_left_s(deadline_s))
                context = ssl.create_default_context(cadata=ca)
                channel = context.wrap_socket(channel, server_hostname=address[0])
        except BaseException:
            channel.close()
            raise
        return cls(channel)

    def send(self, commands: Sequence[Sequence[object]], deadline_s: float) -> None:
        self.send_bytes(b"".join(command(*map(_encoded, words)) for words in commands), deadline_s)

    def send_bytes(self, data: bytes, deadline_s: float) -> None:
        self._socket.settimeout(_left_s(deadline_s))
        self._socket.sendall(data)

    def read(self, deadline_s: float) -> Reply | CommandFailed:
        while True:
            try:
                reply, end = parse(self._data)
            except Incomplete:
                self._data += self._more(deadline_s)
                continue
            self._data = self._data[end:]
            answer = _decoded(reply)
            if isinstance(answer, CommandFailed) and str(answer).startswith(f"ERR {Full.says}"):
                raise Full(str(answer))
            return answer

    def close(self) -> None:
        self._socket.close()

    def abort(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _more(self, deadline_s: float) -> bytes:
        if len(self._data) > _LARGEST_REPLY:
            raise InvalidReply(f"a reply of more than {_LARGEST_REPLY >> 20} MiB")
        self._socket.settimeout(_left_s(deadline_s))
        chunk = self._socket.recv(_CHUNK)
        if not chunk:
            raise ConnectionResetError(0, "the server closed the connection")
        return chunk


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _encoded(word: object) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogatepass")


def _decoded(reply: object) -> Reply | CommandFailed:
    match reply:
        case bytes():
            return reply.decode("utf-8", "replace")
        case ErrorReply():
            return CommandFailed(reply.text)
        case list():
            return [_decoded(item) for item in reply]
        case _:
            return reply


def _check_login(replies: Sequence[Reply | CommandFailed], endpoint: str) -> None:
    # If a server's users change while a connection is logged in, the server answers every later command on that
    # connection with these errors.
    for reply in replies:
        if isinstance(reply, CommandFailed) and reply.prefix in {"NOAUTH", "WRONGPASS"}:
            raise LoginRefused(f"{endpoint}: {reply}")


def _translated(failure: BaseException, endpoint: str, limit_s: float) -> BaseException:
    """The LinkFailure for a failure of the connection; any other exception unchanged."""
    import ssl  # noqa: PLC0415  as above

    match failure:
        case InvalidReply() | Full() if not str(failure).startswith(endpoint):
            return type(failure)(f"{endpoint}: {failure}")
        case LinkFailure():
            return failure
        case Failure():
            return InvalidReply(f"{endpoint}: {failure.evidence[:_SHOWN_CHARS]}")
        case TimeoutError():
            return Silent(f"{endpoint}: no answer within {limit_s:g} s")
        case ssl.SSLEOFError():
            return HandshakeDropped(f"{endpoint}: the TLS handshake was cut off")
        case ssl.SSLError():
            return NotRedis(f"{endpoint}: {failure.reason or failure}")
        case OSError():
            return Closed(f"{endpoint}: {failure.strerror or failure}")
        case _:
            return failure
