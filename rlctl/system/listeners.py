"""Listening TCP sockets of this machine, read from the Linux kernel without privileges."""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlctl.system.open_files import raise_at_limit

# rlctl prefers sock_diag(7), for which the kernel visits only the listening sockets. For a read of /proc/net/tcp the
# kernel walks its table of all connections, which takes 10 ms on a machine with 24 GB of memory even if the table is
# empty.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY, _ERROR, _DONE = 20, 2, 3
_REQUEST_DUMP = 0x301
_LISTEN = 10
_HEADER, _REQUEST = struct.Struct("=IHHII"), struct.Struct("=BBBxI48x")
# The fields of struct inet_diag_msg: family, state, timer, retrans; port, peer's port, address, peer's address,
# interface, cookie; expires, queues; user, inode.
_SOCKET = struct.Struct("=4x H2x 4s12x 16x 4x 8x 12x II")
_BUFFER = 65_536
_TABLE = Path("/proc/net/tcp")
_TABLE_LISTENS = "0A"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningSocket:
    """A listening socket: the user id of its process, and the inode number that /proc/PID/fd shows."""

    uid: int
    inode: int


def listening_socket(address: str, port: int) -> ListeningSocket | None:
    """The socket that accepts connections to this address; None if the system shows no such socket."""
    try:
        found = dict(_dumped())
    except OSError as failure:
        raise_at_limit(failure)
        found = dict(_tabled())
    # As the kernel does, prefer a socket bound to this address over one bound to all addresses.
    return found.get((socket.inet_aton(address), port)) or found.get((bytes(4), port))


_Found = Iterator[tuple[tuple[bytes, int], ListeningSocket]]


def _dumped() -> _Found:
    """Listening sockets, read with sock_diag. Raises OSError if this kernel has no sock_diag for TCP."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as channel:
        request = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 1 << _LISTEN)
        channel.send(_HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + request)
        while True:
            for kind, body in _messages(channel.recv(_BUFFER)):
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", body)[0], "sock_diag")
                port, packed, uid, inode = _SOCKET.unpack_from(body)
                yield (packed, socket.ntohs(port)), ListeningSocket(uid=uid, inode=inode)


def _messages(answer: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(answer):
        length, kind, *_ = _HEADER.unpack_from(answer, at)
        yield kind, answer[at + _HEADER.size : at + length]
        at += -(-length // 4) * 4


def _tabled() -> _Found:
    try:
        table = _TABLE.read_text(encoding="ascii")
    except OSError as failure:
        raise_at_limit(failure)
        return
    for row in (row.split() for row in table.splitlines() if f" {_TABLE_LISTENS} " in row):
        packed, port = row[1].split(":")
        yield (bytes.fromhex(packed)[::-1], int(port, 16)), ListeningSocket(uid=int(row[7]), inode=int(row[9]))
