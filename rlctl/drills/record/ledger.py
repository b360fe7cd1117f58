"""The ledger of a drill: its keys, the script that writes it, and its entries. Pure."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from rlctl.limiter.core.routes import slot_of
from rlctl.limits.release import Script

PREFIX = "rlctl:drill:"
ID_DIGITS = 9
COLD_USERS = 64
_PLACE = b"--[[shipped script]]\n"
_ENTRY = re.compile(rb"\r\n(\d{9})([+-])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """A shipped script, changed to append to a ledger too. Releases contain only the unchanged script."""

    sha1: str
    source: bytes = field(repr=False)
    commands: tuple[str, ...]


def wrap(script: Script, frame: bytes) -> Wrapped:
    """Insert the shipped script, without its `#!` line, into the frame."""
    body = b"\n".join(line for line in script.source.splitlines() if not line.startswith(b"#!"))
    source = frame.replace(_PLACE, body + b"\n")
    sha1 = hashlib.sha1(source, usedforsecurity=False).hexdigest()
    return Wrapped(sha1=sha1, source=source, commands=(*script.commands, "rpush"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of one run; the hash tag puts all of them into one shard."""

    run: str
    tag: str

    @property
    def prefix(self) -> str:
        """Prefix of the run's keys. The drill's user may only access keys with this prefix."""
        return f"{PREFIX}{self.run}:"

    @property
    def hot(self) -> str:
        """Key of the user whose demand is far above the limit."""
        return f"{self.prefix}{{{self.tag}}}:hot"

    def cold(self, number: int) -> str:
        """Key of a user that never reaches the limit. A server admits every operation of this user."""
        return f"{self.prefix}{{{self.tag}}}:cold:{number}"

    def ledger(self, client: str) -> str:
        """Key of the list of one client's operation ids, in the order in which the server ran the operations."""
        return f"{self.prefix}{{{self.tag}}}:ledger:{client}"

    def all(self, clients: Iterable[str]) -> tuple[str, ...]:
        """Every key that these clients may have written."""
        return (self.hot, *map(self.cold, range(COLD_USERS)), *map(self.ledger, clients))


def tag_in(slots: Iterable[tuple[int, int]]) -> str:
    """A hash tag whose slot is in one of these ranges."""
    ranges = tuple(slots)
    tags = (f"t{number}" for number in count())
    return next(tag for tag in tags if any(low <= slot_of(tag.encode()) <= high for low, high in ranges))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """One client's ledger on one node: the ids of all operations and of admitted operations, with duplicates."""

    ids: tuple[int, ...]
    admitted: tuple[int, ...]


EMPTY = Ledger(ids=(), admitted=())


def read_list(reply: bytes) -> Ledger | None:
    """Read the raw answer to LRANGE; None for an error or an incomplete answer.

    A regular expression finds the entries, because a loop over hundreds of thousands of entries would be slow. An
    incomplete answer must not pass as a ledger, because its missing entries would count as lost operations.
    """
    entries = _ENTRY.findall(reply)
    if reply.partition(b"\r\n")[0] != b"*%d" % len(entries):
        return None
    return Ledger(
        ids=tuple(int(number) for number, _sign in entries),
        admitted=tuple(int(number) for number, sign in entries if sign == b"+"),
    )


def read_bitmap(reply: bytes) -> Ledger | None:
    """Read the raw answer to GET of a bitmap; None for an error or an incomplete answer.

    The position of each set bit is an id. A bitmap cannot show duplicates.
    """
    head, _, rest = reply.partition(b"\r\n")
    text = rest[:-2]
    if head == b"$-1":
        return EMPTY
    if head != b"$%d" % len(text) or not rest.endswith(b"\r\n"):
        return None
    ids = tuple(place * 8 + bit for place, byte in enumerate(text) if byte for bit in range(8) if byte & (0x80 >> bit))
    return Ledger(ids=ids, admitted=ids)
