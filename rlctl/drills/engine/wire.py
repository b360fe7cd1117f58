"""Plain sockets to a fleet's nodes, for clients, probes and copies of ledgers."""

import secrets
import socket
import ssl
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from rlctl.drills.engine.client_spec import NodeAddress
from rlctl.lab.partition import ANYWHERE, ClientSource
from rlctl.limits.resp import command

CHUNK = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Login of a connection. `authority` is the CA certificate of a fleet with TLS."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    authority: str | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Credentials":
        return cls(**data)


def open_channel(
    place: NodeAddress, credentials: Credentials, *, timeout_s: float, source: ClientSource = ANYWHERE
) -> socket.socket:
    """Connect and log in. Raises OSError."""
    channel = _connected(place, source, timeout_s)
    try:
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if credentials.authority is not None:
            channel = _context(credentials.authority).wrap_socket(channel, server_hostname=place.host)
        if credentials.password is not None:
            _log_in(channel, credentials)
    except OSError:
        channel.close()
        raise
    return channel


def call_raw(channel: socket.socket, *words: bytes, entry_bytes: int) -> bytes:
    """Send a command and return the bytes of its answer. Each entry of a list must have `entry_bytes` bytes."""
    channel.sendall(command(*words))
    data = bytearray()
    while (wanted := _length(data, entry_bytes)) is None or len(data) < wanted:
        chunk = channel.recv(CHUNK)
        if not chunk:
            raise ConnectionResetError(0, "the server closed the connection")
        data += chunk
    return bytes(data)


def _length(data: bytearray, entry_bytes: int) -> int | None:
    """Length of the whole answer in bytes; None until its first line is complete."""
    end = data.find(b"\r\n")
    if end < 0:
        return None
    head, after = bytes(data[:end]), end + 2
    match head[:1]:
        case b"$":
            return after + max(0, int(head[1:]) + 2) if head != b"$-1" else after
        case b"*":
            return after + max(0, int(head[1:])) * entry_bytes
        case _:
            return after


def _connected(place: NodeAddress, source: ClientSource, timeout_s: float) -> socket.socket:
    first, last = source.ports or (0, 0)
    channel = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        channel.settimeout(timeout_s)
        # Allow a port whose last connection is still in TIME_WAIT.
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if source != ANYWHERE:
            channel.bind((source.address, first + secrets.randbelow(last - first + 1)))
        channel.connect((place.host, place.port))
    except OSError:
        channel.close()
        raise
    return channel


def _log_in(channel: socket.socket, credentials: Credentials) -> None:
    password = credentials.password or ""
    words = [b"AUTH", *([credentials.username.encode()] if credentials.username else []), password.encode()]
    channel.sendall(command(*words))
    answer = channel.recv(CHUNK)
    if not answer.startswith(b"+"):
        raise ConnectionRefusedError(answer.decode("utf-8", "replace").strip("-\r\n") or "connection closed at login")


@lru_cache(maxsize=4)
def _context(authority: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority)
