"""What became of every operation of a drill, as the client that sent it saw it. Pure."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum


class Outcome(IntEnum):
    """The classes of an operation; a denied decision is acknowledged too."""

    NOT_SENT = 0
    ADMITTED = 1
    DENIED = 2
    REFUSED = 3
    INDETERMINATE = 4
    # Decided by the client itself, by its failure policy: no server has acknowledged these.
    LOCAL_ADMITTED = 5
    LOCAL_DENIED = 6


OUTCOME_BITS = 0x07
HOT = 0x08
# WAIT on the same connection was answered by enough replicas.
WAITED = 0x10
ACKED = frozenset({Outcome.ADMITTED, Outcome.DENIED})

# A server says these before it touches anything: the operation surely had no effect.
_NO_EFFECT = frozenset(
    {
        *("MOVED", "ASK", "CLUSTERDOWN", "READONLY", "NOREPLICAS", "MISCONF", "LOADING", "MASTERDOWN", "TRYAGAIN"),
        *("NOSCRIPT", "BUSY", "OOM", "NOAUTH", "NOPERM", "WRONGPASS", "CROSSSLOT", "RLCTL_ARG", "RLCTL_STATE"),
    }
)
# How a server marks an error that came up while a script ran.
_INSIDE = " on @user_script"
_HEAD = struct.Struct("<BBHIdd")
NOWHERE = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Operations that one connection sent to one node in one go, numbered from `first`; times are monotonic."""

    node: int
    connection: int
    first: int
    sent_s: float
    done_s: float
    codes: bytes

    @property
    def size(self) -> int:
        """How many bytes the history file spends on it."""
        return _HEAD.size + len(self.codes)

    def pack(self) -> bytes:
        """As the history file keeps it."""
        head = _HEAD.pack(self.node, self.connection, len(self.codes), self.first, self.sent_s, self.done_s)
        return head + self.codes


def unpack(data: bytes) -> Iterator[Batch]:
    """The batches of a history file; a writer that was killed leaves its last one cut off."""
    at = 0
    while at + _HEAD.size <= len(data):
        node, connection, count, first, sent_s, done_s = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if at + count > len(data):
            return
        codes = data[at : at + count]
        yield Batch(node=node, connection=connection, first=first, sent_s=sent_s, done_s=done_s, codes=codes)
        at += count


def outcome(code: int) -> Outcome:
    """The class in an operation's code."""
    return Outcome(code & OUTCOME_BITS)


def of_error(text: str) -> Outcome:
    """The class of an error reply; one raised inside a script may have come after a write, whatever it says."""
    is_sure = text.split(" ", 1)[0] in _NO_EFFECT and _INSIDE not in text
    return Outcome.REFUSED if is_sure else Outcome.INDETERMINATE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHistory:
    """Everything one client did, in the order in which its batches ended."""

    name: str
    side: str
    batches: tuple[Batch, ...]
    refusals: dict[str, int]
    hops: int = 0
