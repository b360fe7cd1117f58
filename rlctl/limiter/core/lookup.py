"""How to find out who is in charge, as questions: whoever drives them does the talking. Pure.

The same questions serve threads and asyncio.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from rlctl.limiter.core.routes import FleetMap, address, fields, read_slots
from rlctl.limiter.core.settings import Endpoint, FleetKind, Settings
from rlctl.limits.failures import Cause, ErrorReply, Failure
from rlctl.limits.resp import Reply, command

_SLOTS = command(b"CLUSTER", b"SLOTS")
_INFO = command(b"CLUSTER", b"INFO")
_HELLO = command(b"HELLO")


@dataclass(frozen=True, slots=True)
class Question:
    """Commands for one server, on a connection of their own; as many replies are the answer, or the failure."""

    endpoint: Endpoint
    commands: tuple[bytes, ...]
    to_sentinel: bool = False


# What a reply of another shape than expected raises while it is taken apart.
_MALFORMED = (ValueError, IndexError, TypeError)

Answer = list[Reply] | Failure
Lookup = Generator[Question, Answer, FleetMap]


def look_up(settings: Settings, nodes: Iterable[Endpoint]) -> Lookup:
    """The questions for this kind of fleet; Failure where nobody could say."""
    match settings.kind:
        case FleetKind.CLUSTER:
            return find_slots(nodes)
        case FleetKind.SENTINEL:
            return find_primary(settings.sentinels, settings.master_name)
        case FleetKind.SINGLE:
            return find_one(settings.nodes[0])


def find_one(node: Endpoint) -> Lookup:
    """The only node; asked so that a failure to log in shows."""
    answer = yield Question(node, (_HELLO,))
    if isinstance(answer, Failure):
        raise answer
    return FleetMap(owners={0: node}, nodes=(node,))


def find_slots(nodes: Iterable[Endpoint]) -> Lookup:
    """Ask one node after the other for the slot map; the map of a node without quorum is the last resort."""
    second_best: FleetMap | None = None
    failure = Failure(Cause.UNREACHABLE, "no node to ask")
    for node in nodes:
        answer = yield Question(node, (_INFO, _SLOTS))
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
    """Ask every sentinel, then the servers they name, newest epoch first: the first that says it is a primary is it.

    During a failover one sentinel knows seconds before the others do.
    """
    named, failure = yield from _named_primaries(sentinels, master_name)
    for primary in sorted(named, key=lambda where: named[where], reverse=True):
        answer = yield Question(primary, (_HELLO,))
        try:
            [hello] = _good(answer, primary)
            role = fields(hello).get("role")
        except (Failure, *_MALFORMED) as trouble:
            failure = _as_failure(trouble, primary)
            continue
        if role == "master":
            return FleetMap(owners={0: primary}, nodes=tuple(named))
        failure = Failure(Cause.READONLY, f"{primary}: sentinels call it the primary, itself says {role}")
    raise failure


def _named_primaries(
    sentinels: Iterable[Endpoint], master_name: str
) -> Generator[Question, Answer, tuple[dict[Endpoint, int], Failure]]:
    """Whom the sentinels name, with the newest epoch in which they do; and the last failure to ask one."""
    name = master_name.encode()
    commands = (command(b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name), command(b"SENTINEL", b"MASTER", name))
    named: dict[Endpoint, int] = {}
    failure = Failure(Cause.UNREACHABLE, "no sentinel to ask")
    for sentinel in sentinels:
        answer = yield Question(sentinel, commands, to_sentinel=True)
        try:
            where, about = _good(answer, sentinel)
            primary = address(where)
            epoch = int(fields(about).get("config-epoch", "0"))
        except (Failure, *_MALFORMED) as trouble:
            failure = _as_failure(trouble, sentinel)
            continue
        if primary is None:
            failure = Failure(Cause.ERROR, f"{sentinel}: knows no {master_name}")
        else:
            named[primary] = max(epoch, named.get(primary, 0))
    return named, failure


def _good(answer: Answer, endpoint: Endpoint) -> list[Reply]:
    if isinstance(answer, Failure):
        raise answer
    for reply in answer:
        if isinstance(reply, ErrorReply):
            cause = Cause.AUTH if reply.prefix in {"NOPERM", "NOAUTH"} else Cause.ERROR
            raise Failure(cause, f"{endpoint}: {reply.text}")
    return answer


def _as_failure(trouble: Exception, endpoint: Endpoint) -> Failure:
    return trouble if isinstance(trouble, Failure) else Failure(Cause.ERROR, f"{endpoint}: {trouble}")
