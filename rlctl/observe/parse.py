"""Parses replies of servers. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from rlctl.observe.model import Address, Peer, Role, SentinelView, SlotRange
from rlctl.topology.nodes import NodeId

_Value = TypeVar("_Value")

_TABLE_FIELDS = 8
_SLOTS = 16384
_HIGHEST_PORT = 65_535
# Limits far above the replies of a real node. Larger replies would take seconds to parse.
_MOST_CHARS = 4 << 20
_MOST_PEERS = 2_000
_MOST_DIGITS = 19
_SHOWN_CHARS = 80
_NODE_ID = re.compile("[0-9a-f]{40}")


class BadReply(ValueError):
    """A malformed reply. The message shows the start of the reply."""

    def __init__(self, what: str, found: object) -> None:
        super().__init__(f"{what}: {_shown(found)}")


def _shown(found: object) -> str:
    shown = repr(found[:_SHOWN_CHARS] if isinstance(found, str | list) else found)
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}..."


def required(value: _Value | None, name: str) -> _Value:
    """Return a value that every server sends. Raises BadReply if the value is missing."""
    if value is None:
        raise BadReply("a field is missing", name)
    return value


def text(reply: object) -> str:
    """Return a reply that must be text. Raises BadReply for other types and for texts that are too long."""
    if not isinstance(reply, str) or len(reply) > _MOST_CHARS:
        raise BadReply("not a text, or too long", reply)
    return reply


def number(word: object, *, most: int | None = None) -> int:
    """Parse a decimal integer. With `most`, the integer must be from 0 to `most`."""
    if not isinstance(word, str) or not word.removeprefix("-").isdecimal() or not word.isascii():
        raise BadReply("not a number", word)
    if len(word) > _MOST_DIGITS:
        raise BadReply("too large a number", word)
    found = int(word)
    if most is not None and not 0 <= found <= most:
        raise BadReply(f"not a number up to {most}", word)
    return found


def port(word: object) -> int:
    return number(word, most=_HIGHEST_PORT)


def own_id(reply: object) -> NodeId:
    """Parse the reply to CLUSTER MYID or SENTINEL MYID."""
    if not isinstance(reply, str) or _NODE_ID.fullmatch(reply) is None:
        raise BadReply("not a node id", reply)
    return NodeId(reply)


def connection_ages(reply: object) -> tuple[int, ...]:
    """Parse CLIENT LIST into the age of each connection in seconds."""
    fields = (dict(word.partition("=")[::2] for word in line.split()) for line in text(reply).splitlines())
    return tuple(number(own["age"]) for own in fields if "age" in own)


def table(reply: object) -> tuple[Peer, ...]:
    """Parse CLUSTER NODES, or a nodes.conf; malformed lines are skipped."""
    lines = [line.split() for line in text(reply).splitlines()]
    if len(lines) > _MOST_PEERS:
        raise BadReply(f"a table of {len(lines)} nodes", lines[0])
    read = (_peer(fields) for fields in lines if len(fields) >= _TABLE_FIELDS)
    return tuple(peer for peer in read if peer is not None)


def myself(text: str) -> NodeId | None:
    """The id of the node that wrote a cluster table; None if the table has no line for that node."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= _TABLE_FIELDS and "myself" in fields[2].split(","):
            return NodeId(fields[0])
    return None


def _peer(fields: Sequence[str]) -> Peer | None:
    node_id, where, flags, follows, _sent, _received, epoch, state, *owned = fields
    marks = flags.split(",")
    try:
        address, bus_port = _address(where)
        slots, config_epoch = slot_ranges(owned), number(epoch)
    except BadReply:
        return None
    return Peer(
        id=NodeId(node_id),
        address=address,
        port=bus_port,
        role=Role.REPLICA if "slave" in marks else Role.PRIMARY,
        follows=None if follows == "-" else NodeId(follows),
        slots=slots,
        epoch=config_epoch,
        failed="fail" in marks,
        suspected="fail?" in marks,
        handshake="handshake" in marks,
        linked=state == "connected" or "myself" in marks,
    )


def _address(where: str) -> Address:
    """Parse `ip:port@bus[,hostname[,key=value...]]`."""
    endpoint = where.split(",", 1)[0].split("@", 1)[0]
    address, _, digits = endpoint.rpartition(":")
    return address, port(digits) if digits.isdecimal() else 0


def slot_ranges(words: Iterable[str]) -> tuple[SlotRange, ...]:
    """Parse slot ranges such as `0-5460 7000`. A slot in migration (`[12->-id]`) still belongs to its owner."""
    ranges = []
    for word in words:
        if word.startswith("["):
            continue
        first, _, last = word.partition("-")
        low, high = number(first, most=_SLOTS - 1), number(last or first, most=_SLOTS - 1)
        if low > high:
            raise BadReply("not a range of slots", word)
        ranges.append((low, high))
    return tuple(sorted(ranges))


def slot_count(ranges: Iterable[SlotRange]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def pairs(reply: object) -> dict[str, str]:
    """Parse a map, which RESP2 sends as a flat list of names and values."""
    if not isinstance(reply, list) or len(reply) % 2 or not all(isinstance(word, str) for word in reply):
        raise BadReply("not a list of names and values", reply)
    return dict(zip(reply[0::2], reply[1::2], strict=True))


def flags(reply: object, count: int) -> tuple[bool, ...]:
    """Parse SCRIPT EXISTS: whether each of `count` scripts is loaded."""
    if not isinstance(reply, list) or len(reply) != count or not all(one in (0, 1) for one in reply):
        raise BadReply(f"not a list of {count} zeros and ones", reply)
    return tuple(bool(one) for one in reply)


def user(reply: object) -> Mapping[str, object] | None:
    """Parse ACL GETUSER into the fields of a user; None for an unknown user."""
    if reply is None:
        return None
    if not isinstance(reply, list) or len(reply) % 2 or not all(isinstance(name, str) for name in reply[0::2]):
        raise BadReply("not the description of a user", reply)
    return dict(zip(reply[0::2], reply[1::2], strict=True))


def passwords(own: Mapping[str, object]) -> tuple[str, ...]:
    """The password hashes of a user."""
    found = own.get("passwords")
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise BadReply("a user without passwords", sorted(own))
    return tuple(found)


def authenticates(reply: object, password_hash: str) -> bool:
    """Whether the user in a reply to ACL GETUSER exists, is on, and has a password with this SHA-256 hash."""
    own = user(reply)
    if own is None:
        return False
    marks = own.get("flags")
    return isinstance(marks, list) and "on" in marks and password_hash in passwords(own)


def sentinel_view(primary: object, replicas: object, peers: object, *, quorum_ok: bool) -> SentinelView:
    """Parse a sentinel's replies to SENTINEL MASTER, REPLICAS and SENTINELS. `quorum_ok` is the result of CKQUORUM."""
    own = pairs(primary)
    marks = own.get("flags", "").split(",")
    followers, others = _entries(replicas), _entries(peers)
    return SentinelView(
        primary=_where(own),
        options={
            name: own[name]
            for name in ("quorum", "down-after-milliseconds", "failover-timeout", "parallel-syncs")
            if name in own
        },
        replicas=tuple(sorted(_where(replica) for replica in followers if _is_reached(replica))),
        peers=tuple(sorted(own_id(peer.get("runid")) for peer in others if _is_reached(peer))),
        silent=tuple(sorted(_where(one) for one in (*followers, *others) if not _is_reached(one))),
        down=not _is_reached(own),
        failed="o_down" in marks,
        usable_quorum=quorum_ok,
        epoch=number(own.get("config-epoch", "0")),
        failing_over="failover_in_progress" in marks,
        silence_ms=number(own.get("last-ok-ping-reply", "0")),
    )


def _entries(reply: object) -> list[dict[str, str]]:
    if not isinstance(reply, list) or len(reply) > _MOST_PEERS:
        raise BadReply("not a list of instances", reply)
    return [pairs(one) for one in reply]


def _is_reached(entry: Mapping[str, str]) -> bool:
    """Whether the sentinel is connected to an instance. Instances without a connection cannot vote or be promoted."""
    return not {"s_down", "o_down", "disconnected"} & set(entry.get("flags", "").split(","))


def _where(entry: Mapping[str, str]) -> Address:
    return text(entry.get("ip")), port(entry.get("port"))
