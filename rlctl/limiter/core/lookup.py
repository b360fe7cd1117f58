"""The look-up of a fleet's primaries as a generator of queries. Pure.

The caller sends each query to its node. The look-up does no I/O, so the limiters for threads and asyncio share it.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from rlctl.limiter.core.routes import FleetMap, address, fields, read_slots
from rlctl.limiter.core.settings import Endpoint, FleetKind, FleetSettings
from rlctl.limits.failures import Cause, ErrorReply, Failure
from rlctl.limits.resp import Reply, command

_SLOTS = command(b"CLUSTER", b"SLOTS")
_INFO = command(b"CLUSTER", b"INFO")
_HELLO = command(b"HELLO")


@dataclass(frozen=True, slots=True)
class NodeQuery:
    """Commands for one server over a new connection. The answer is one reply for each command, or a Failure."""

    endpoint: Endpoint
    commands: tuple[bytes, ...]
    to_sentinel: bool = False


# Exceptions from parsing a reply with an unexpected shape.
_MALFORMED = (ValueError, IndexError, TypeError)

NodeReplies = list[Reply] | Failure
Lookup = Generator[NodeQuery, NodeReplies, FleetMap]


def look_up(settings: FleetSettings, nodes: Iterable[Endpoint]) -> Lookup:
    """Return the look-up for this kind of fleet. The look-up raises Failure if no node gives a usable answer."""
    match settings.kind:
        case FleetKind.CLUSTER:
            return find_slots(nodes)
        case FleetKind.SENTINEL:
            return find_primary(settings.sentinels, settings.master_name)
        case FleetKind.SINGLE:
            return find_one(settings.nodes[0])


def find_one(node: Endpoint) -> Lookup:
    """Query the only node, to verify that it accepts the login."""
    answer = yield NodeQuery(node, (_HELLO,))
    if isinstance(answer, Failure):
        raise answer
    return FleetMap(owners={0: node}, nodes=(node,))


def find_slots(nodes: Iterable[Endpoint]) -> Lookup:
    """Query the nodes in turn for the slot map.

    If no node reports that the cluster state is ok, returns the first slot map of a node that reports another state.
    """
    second_best: FleetMap | None = None
    failure = Failure(Cause.UNREACHABLE, "no node to query")
    for node in nodes:
        answer = yield NodeQuery(node, (_INFO, _SLOTS))
        try:
            info, slots = _good(answer, node)
            found = read_slots(slots, node)
        except (Failure, *_MALFORMED) as trouble:
            failure = _as_failure(trouble, node)
            continue
        if isinstance(info, bytes) and b"cluster_state:ok" in info:
            return found
        second_best = second_best or (found if found.owners else None)
        failure = Failure(Cause.CLUSTER_DOWN, f"{node}: the cluster is not ok")
    if second_best is None:
        raise failure
    return second_best


def find_primary(sentinels: Iterable[Endpoint], master_name: str) -> Lookup:
    """Query every sentinel, then the primaries that they report, newest epoch first; return the first with role master.

    All sentinels are queried, because during a failover one sentinel knows the new primary seconds before the others.
    """
    named, failure = yield from _named_primaries(sentinels, master_name)
    for primary in sorted(named, key=lambda where: named[where], reverse=True):
        answer = yield NodeQuery(primary, (_HELLO,))
        try:
            [hello] = _good(answer, primary)
            role = fields(hello).get("role")
        except (Failure, *_MALFORMED) as trouble:
            failure = _as_failure(trouble, primary)
            continue
        if role == "master":
            return FleetMap(owners={0: primary}, nodes=tuple(named))
        failure = Failure(Cause.READONLY, f"{primary}: sentinels report it as the primary, but its role is {role}")
    raise failure


def _named_primaries(
    sentinels: Iterable[Endpoint], master_name: str
) -> Generator[NodeQuery, NodeReplies, tuple[dict[Endpoint, int], Failure]]:
    """Return the primaries that sentinels report, with their newest epoch, and the last failure of a sentinel."""
    name = master_name.encode()
    commands = (command(b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name), command(b"SENTINEL", b"MASTER", name))
    named: dict[Endpoint, int] = {}
    failure = Failure(Cause.UNREACHABLE, "no sentinel to query")
    for sentinel in sentinels:
        answer = yield NodeQuery(sentinel, commands, to_sentinel=True)
        try:
            where, about = _good(answer, sentinel)
            primary = address(where)
            epoch = int(fields(about).get("config-epoch", "0"))
        except (Failure, *_MALFORMED) as trouble:
            failure = _as_failure(trouble, sentinel)
            continue
        if primary is None:
            failure = Failure(Cause.ERROR, f"{sentinel}: the sentinel does not know {master_name}")
        else:
            named[primary] = max(epoch, named.get(primary, 0))
    return named, failure


def _good(answer: NodeReplies, endpoint: Endpoint) -> list[Reply]:
    if isinstance(answer, Failure):
        raise answer
    for reply in answer:
        if isinstance(reply, ErrorReply):
            cause = Cause.AUTH if reply.prefix in {"NOPERM", "NOAUTH"} else Cause.ERROR
            raise Failure(cause, f"{endpoint}: {reply.text}")
    return answer


def _as_failure(trouble: Exception, endpoint: Endpoint) -> Failure:
    return trouble if isinstance(trouble, Failure) else Failure(Cause.ERROR, f"{endpoint}: {trouble}")
