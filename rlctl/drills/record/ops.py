"""The outcome of every operation of a drill, as its client saw it. Pure."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum


class OpOutcome(IntEnum):
    """Outcomes of an operation. A denied decision counts as acknowledged too."""

    NOT_SENT = 0
    ADMITTED = 1
    DENIED = 2
    REFUSED = 3
    INDETERMINATE = 4
    # The client's failure policy made the decision. No server acknowledged the operation.
    LOCAL_ADMITTED = 5
    LOCAL_DENIED = 6


OUTCOME_BITS = 0x07
HOT = 0x08
# Flag of an operation that enough replicas confirmed to a WAIT on the same connection.
WAITED = 0x10
ACKED = frozenset({OpOutcome.ADMITTED, OpOutcome.DENIED})

# Errors that a server returns before it changes anything. They prove that the operation had no effect.
_NO_EFFECT = frozenset(
    {
        *("MOVED", "ASK", "CLUSTERDOWN", "READONLY", "NOREPLICAS", "MISCONF", "LOADING", "MASTERDOWN", "TRYAGAIN"),
        *("NOSCRIPT", "BUSY", "OOM", "NOAUTH", "NOPERM", "WRONGPASS", "CROSSSLOT", "RLCTL_ARG", "RLCTL_STATE"),
    }
)
# Part of an error that was raised while a script ran.
_INSIDE = " on @user_script"
_HEAD = struct.Struct("<BBHIdd")
NOWHERE = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Operations that one connection sent to one node in one go, numbered from `first`. Times are monotonic."""

    node: int
    connection: int
    first: int
    sent_s: float
    done_s: float
    codes: bytes

    @property
    def size(self) -> int:
        """Bytes in the history file."""
        return _HEAD.size + len(self.codes)

    def pack(self) -> bytes:
        """The bytes for the history file."""
        head = _HEAD.pack(self.node, self.connection, len(self.codes), self.first, self.sent_s, self.done_s)
        return head + self.codes


def unpack(data: bytes) -> Iterator[Batch]:
    """The batches of a history file. A last batch that is incomplete after a kill is left out."""
    at = 0
    while at + _HEAD.size <= len(data):
        node, connection, count, first, sent_s, done_s = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if at + count > len(data):
            return
        codes = data[at : at + count]
        yield Batch(node=node, connection=connection, first=first, sent_s=sent_s, done_s=done_s, codes=codes)
        at += count


def outcome(code: int) -> OpOutcome:
    """The outcome in an operation's code."""
    return OpOutcome(code & OUTCOME_BITS)


def outcome_of_error(text: str) -> OpOutcome:
    """Outcome of an error reply. Indeterminate for an error inside a script, which may come after a write."""
    is_sure = text.split(" ", 1)[0] in _NO_EFFECT and _INSIDE not in text
    return OpOutcome.REFUSED if is_sure else OpOutcome.INDETERMINATE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHistory:
    """All operations of one client. Batches are in the order in which they ended."""

    name: str
    side: str
    batches: tuple[Batch, ...]
    refusals: dict[str, int]
    hops: int = 0
