"""From a server's replies to facts. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from rlctl.observe.model import Address, Peer, Role, SentinelView, SlotRange
from rlctl.topology.nodes import NodeId

_TABLE_FIELDS = 8
_EPOCH_FIELD = 6


def info(text: str) -> dict[str, str]:
    """INFO and CLUSTER INFO: key:value lines."""
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))
    return {key: value.strip() for key, value in pairs}


def table(text: str) -> tuple[Peer, ...]:
    """CLUSTER NODES, or a nodes.conf; lines of another shape are passed over."""
    lines = (line.split() for line in text.splitlines())
    return tuple(_peer(fields) for fields in lines if len(fields) >= _TABLE_FIELDS and fields[_EPOCH_FIELD].isdigit())


def myself(text: str) -> NodeId | None:
    """The id of the node whose table this is."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= _TABLE_FIELDS and "myself" in fields[2].split(","):
            return NodeId(fields[0])
    return None


def _peer(fields: Sequence[str]) -> Peer:
    node_id, where, flags, follows, _sent, _received, epoch, state, *owned = fields
    marks = flags.split(",")
    address, port = _address(where)
    return Peer(
        id=NodeId(node_id),
        address=address,
        port=port,
        role=Role.REPLICA if "slave" in marks else Role.PRIMARY,
        follows=None if follows == "-" else NodeId(follows),
        slots=slot_ranges(owned),
        epoch=int(epoch),
        failed="fail" in marks,
        suspected="fail?" in marks,
        handshake="handshake" in marks,
        linked=state == "connected" or "myself" in marks,
    )


def _address(where: str) -> Address:
    """`ip:port@bus[,hostname[,key=value...]]`."""
    endpoint = where.split(",", 1)[0].split("@", 1)[0]
    address, _, port = endpoint.rpartition(":")
    return address, int(port) if port.isdigit() else 0


def slot_ranges(words: Iterable[str]) -> tuple[SlotRange, ...]:
    """`0-5460 7000`; slots on the move (`[12->-id]`) still belong to their owner."""
    ranges = []
    for word in words:
        if word.startswith("["):
            continue
        first, _, last = word.partition("-")
        ranges.append((int(first), int(last or first)))
    return tuple(sorted(ranges))


def slot_count(ranges: Iterable[SlotRange]) -> int:
    """How many slots the ranges hold."""
    return sum(last - first + 1 for first, last in ranges)


def pairs(reply: Sequence[str]) -> dict[str, str]:
    """A flat list of names and values, as RESP2 gives maps."""
    names, values = reply[0::2], reply[1::2]
    return dict(zip(names, values, strict=True))


def lets_in(user: Sequence[object] | None, password_hash: str) -> bool:
    """ACL GETUSER: whether this user exists, is on, and has this password, given as the server keeps it."""
    if user is None:
        return False
    own = dict(zip(user[0::2], user[1::2], strict=True))
    flags, passwords = own.get("flags"), own.get("passwords")
    return isinstance(flags, list) and "on" in flags and isinstance(passwords, list) and password_hash in passwords


def sentinel_view(
    primary: Sequence[str], replicas: Sequence[Sequence[str]], peers: Sequence[Sequence[str]], *, quorum_ok: bool
) -> SentinelView:
    """SENTINEL MASTER, REPLICAS, SENTINELS and CKQUORUM of one sentinel."""
    own = pairs(primary)
    flags = own.get("flags", "").split(",")
    return SentinelView(
        primary=(own["ip"], int(own["port"])),
        options={
            name: own[name]
            for name in ("quorum", "down-after-milliseconds", "failover-timeout", "parallel-syncs")
            if name in own
        },
        replicas=tuple(sorted(_where(replica) for replica in map(pairs, replicas) if _is_reached(replica))),
        peers=tuple(sorted(NodeId(peer["runid"]) for peer in map(pairs, peers) if _is_reached(peer))),
        silent=tuple(sorted(_where(one) for one in map(pairs, (*replicas, *peers)) if not _is_reached(one))),
        down=not _is_reached(own),
        failed="o_down" in flags,
        usable_quorum=quorum_ok,
        epoch=int(own.get("config-epoch", "0")),
        failing_over="failover_in_progress" in flags,
        silence_ms=int(own.get("last-ok-ping-reply", "0")),
    )


def _is_reached(entry: Mapping[str, str]) -> bool:
    """Whether the sentinel talks to this instance; one it only knows by name cannot vote or be promoted."""
    return not {"s_down", "o_down", "disconnected"} & set(entry.get("flags", "").split(","))


def _where(entry: Mapping[str, str]) -> Address:
    return entry["ip"], int(entry["port"])


def server_family(server: Mapping[str, str]) -> tuple[str, str]:
    """Flavor and version; Valkey also reports the Redis version it is compatible with."""
    if "valkey_version" in server:
        return "valkey", server["valkey_version"]
    return "redis", server.get("redis_version", "")


def key_count(keyspace: Mapping[str, str]) -> int:
    """Keys in all databases."""
    counts = (value.split(",", 1)[0] for name, value in keyspace.items() if name.startswith("db"))
    return sum(int(count.removeprefix("keys=")) for count in counts)
