"""One connection to one server: bounded in time, raw replies, errors that say what kind they are.

The client library's cluster and retry layers are left out on purpose: rlctl must know which node said what.
"""

import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection
from redis.exceptions import AuthenticationError, AuthorizationError, BusyLoadingError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from rlctl.secrets import Secret

Reply = Any  # str, int, None or nested lists of them: what the protocol carries


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How to open a connection; `ca` is the certificate that a fleet with TLS is verified by."""

    username: str | None = None
    password: Secret | None = None
    ca: str | None = None


class LinkFailure(Exception):
    """The server could not be talked to; `reason` is one word, the message the evidence."""

    def __init__(self, reason: str, evidence: str) -> None:
        super().__init__(evidence)
        self.reason = reason


class Closed(LinkFailure):
    """Nothing listens there, or the connection ended."""

    def __init__(self, evidence: str) -> None:
        super().__init__("closed", evidence)


class Silent(LinkFailure):
    """Something listens and does not answer in time."""

    def __init__(self, evidence: str) -> None:
        super().__init__("silent", evidence)


class NotRedis(LinkFailure):
    """What answers does not speak the protocol, or not with our certificate authority."""

    def __init__(self, evidence: str) -> None:
        super().__init__("stranger", evidence)


class Dropped(LinkFailure):
    """It took the connection and hung up in the TLS handshake: a stranger, or a server that is just ending."""

    def __init__(self, evidence: str) -> None:
        super().__init__("dropped", evidence)


class LoginRefused(LinkFailure):
    """The server does not accept our user or password."""

    def __init__(self, evidence: str) -> None:
        super().__init__("denied", evidence)


class CommandFailed(Exception):
    """An error reply; `prefix` is its first word."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.prefix = text.split(" ", 1)[0]


class NodeLink:
    """A connection that is opened at the first call and never retries by itself."""

    def __init__(self, address: str, port: int, login: Login, *, timeout_s: float = 2.0) -> None:
        self.endpoint = f"{address}:{port}"
        self.is_open = False
        options: dict[str, Any] = {
            "host": address,
            "port": port,
            "socket_timeout": timeout_s,
            "socket_connect_timeout": timeout_s,
            "decode_responses": True,
            "encoding_errors": "replace",
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "health_check_interval": 0,
        }
        if login.password is not None:
            options |= {"username": login.username, "password": login.password.reveal()}
        # The library's connection class carries no annotations.
        self._connection: Any
        if login.ca is None:
            self._connection = Connection(**options)  # type: ignore[no-untyped-call]
        else:
            self._connection = SSLConnection(
                ssl_ca_data=login.ca, ssl_cert_reqs="required", ssl_check_hostname=True, **options
            )

    def call(self, *command: object) -> Reply:
        """One command, one reply; an error reply raises CommandFailed."""
        [reply] = self.pipeline([command])
        if isinstance(reply, CommandFailed):
            raise reply
        return reply

    def pipeline(
        self, commands: Sequence[Sequence[object]], *, answer_s: float | None = None
    ) -> list[Reply | CommandFailed]:
        """All commands in one write; error replies come back as values, in order; each within `answer_s`."""
        try:
            self._connection.connect()
            self.is_open = True
            self._connection.send_packed_command(self._connection.pack_commands(commands))
            replies = [self._read(answer_s) for _ in commands]
        except BaseException as failure:
            self.close()
            translated = _translate(failure, self.endpoint)
            if translated is None:
                raise
            raise translated from failure
        if any(isinstance(reply, CommandFailed) and reply.prefix == "LOADING" for reply in replies):
            # The library takes LOADING for a lost connection and leaves the reply unread: it would answer for ever.
            self.close()
        return replies

    def close(self) -> None:
        """Drop the connection; the next call opens a new one."""
        self.is_open = False
        self._connection.disconnect()

    def _read(self, answer_s: float | None) -> Reply | CommandFailed:
        patience = {} if answer_s is None else {"timeout": answer_s}
        try:
            return self._connection.read_response(disconnect_on_error=False, **patience)
        except (AuthenticationError, AuthorizationError) as failure:
            raise LoginRefused(f"{self.endpoint}: {failure}") from failure
        except BusyLoadingError as failure:
            return CommandFailed(f"LOADING {failure}")
        except ResponseError as failure:
            return CommandFailed(_error_text(failure))


def greeting(address: str, port: int, *, timeout_s: float) -> str:
    """What a server answers to a bare PING; told before any password is sent to it."""
    where = f"{address}:{port}"
    try:
        with socket.create_connection((address, port), timeout=timeout_s) as channel:
            channel.settimeout(timeout_s)
            channel.sendall(b"PING\r\n")
            answer = channel.recv(256)
    except TimeoutError as failure:
        raise Silent(f"{where}: no answer to PING within {timeout_s:g} s") from failure
    except OSError as failure:
        raise Closed(f"{where}: {failure.strerror or failure}") from failure
    if not answer:
        raise Closed(f"{where}: closed the connection")
    if answer[:1] not in {b"+", b"-"}:
        raise NotRedis(f"{where}: does not speak the Redis protocol")
    return answer.decode("utf-8", "replace").strip()


def _error_text(failure: ResponseError) -> str:
    """The library cuts known prefixes off the message; its status code attribute keeps them."""
    text = str(failure)
    code = getattr(failure, "status_code", None)
    return f"{code} {text}" if code and not text.startswith(code) else text


# In this order: the library's authentication and time-out errors are kinds of its connection error.
_TRANSLATIONS: tuple[tuple[type[BaseException], Callable[[str], LinkFailure]], ...] = (
    (AuthenticationError, LoginRefused),
    (AuthorizationError, LoginRefused),
    (RedisTimeoutError, Silent),
    (TimeoutError, Silent),
    (ssl.SSLError, NotRedis),
    (RedisConnectionError, Closed),
    (ResponseError, LoginRefused),
    (RedisError, NotRedis),
    (OSError, Closed),
)


def _translate(failure: BaseException, endpoint: str) -> LinkFailure | None:
    """What a failure means for the connection; None for what is no failure of it."""
    if isinstance(failure, LinkFailure):
        return failure
    for kind, meaning in _TRANSLATIONS:
        if isinstance(failure, kind):
            text = str(failure).removesuffix(".")
            told = f"{endpoint}: {text or kind.__name__}"
            if "UNEXPECTED_EOF" in text:
                return Dropped(told)
            of_tls = meaning is Closed and ("SSL" in text or "certificate" in text)
            return (NotRedis if of_tls else meaning)(told)
    return None
