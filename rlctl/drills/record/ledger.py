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
    """A shipped script that also appends to a ledger; no release contains it."""

    sha1: str
    source: bytes = field(repr=False)
    commands: tuple[str, ...]


def wrap(script: Script, frame: bytes) -> Wrapped:
    """Put the shipped script into the frame, without its `#!` line."""
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
        """Prefix of the run's keys; the drill's user has no right to other keys."""
        return f"{PREFIX}{self.run}:"

    @property
    def hot(self) -> str:
        """Key of the user whose demand is far above the limit."""
        return f"{self.prefix}{{{self.tag}}}:hot"

    def cold(self, number: int) -> str:
        """Key of a user that never reaches the limit, so that each missing operation is a lost one."""
        return f"{self.prefix}{{{self.tag}}}:cold:{number}"

    def ledger(self, client: str) -> str:
        """Key of the ids of one client's operations, in the order of the server."""
        return f"{self.prefix}{{{self.tag}}}:ledger:{client}"

    def all(self, clients: Iterable[str]) -> tuple[str, ...]:
        """Every key that a run can have written."""
        return (self.hot, *map(self.cold, range(COLD_USERS)), *map(self.ledger, clients))


def tag_in(slots: Iterable[tuple[int, int]]) -> str:
    """A hash tag in one of these slots."""
    ranges = tuple(slots)
    tags = (f"t{number}" for number in count())
    return next(tag for tag in tags if any(low <= slot_of(tag.encode()) <= high for low, high in ranges))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """One client's ledger on one node: all ids in order, and the admitted ones, with duplicates."""

    ids: tuple[int, ...]
    admitted: tuple[int, ...]


EMPTY = Ledger(ids=(), admitted=())


def read_list(reply: bytes) -> Ledger | None:
    """Read the raw answer to LRANGE. It may have hundreds of thousands of entries, so a pattern finds them.

    None for an error or an incomplete answer, which as a ledger would mean that everything was lost.
    """
    entries = _ENTRY.findall(reply)
    if reply.partition(b"\r\n")[0] != b"*%d" % len(entries):
        return None
    return Ledger(
        ids=tuple(int(number) for number, _sign in entries),
        admitted=tuple(int(number) for number, sign in entries if sign == b"+"),
    )


def read_bitmap(reply: bytes) -> Ledger | None:
    """Read the raw answer to GET of a bitmap: each bit is an id, and duplicates cannot be seen.

    None for an error or an incomplete answer.
    """
    head, _, rest = reply.partition(b"\r\n")
    text = rest[:-2]
    if head == b"$-1":
        return EMPTY
    if head != b"$%d" % len(text) or not rest.endswith(b"\r\n"):
        return None
    ids = tuple(place * 8 + bit for place, byte in enumerate(text) if byte for bit in range(8) if byte & (0x80 >> bit))
    return Ledger(ids=ids, admitted=ids)
