"""Which node is in charge of a key: a slot map, a primary behind sentinels, or the one node there is. Pure."""

import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlctl.limiter.core.settings import Endpoint, FleetKind, Settings
from rlctl.limits.failures import Cause, ErrorReply, Failure, failure_of
from rlctl.limits.resp import Reply

SLOTS = 16384
# What a cluster can be: Redis recommends at most 1000 nodes; a node that claims more is not believed.
_MOST_NODES = 1000
# How many of the nodes that other nodes named one look-up asks; those of the settings come after them.
_MOST_ASKED = 8
_HOST_BYTES = 253


def slot_of(tag: bytes) -> int:
    """The cluster slot of a hash tag."""
    return binascii.crc_hqx(tag, 0) % SLOTS


@dataclass(frozen=True, slots=True)
class Redirection:
    """Where a cluster node sends us; an ASK holds for this one call, a MOVED for good."""

    slot: int
    endpoint: Endpoint
    is_ask: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMap:
    """What a look-up found: each slot's primary (one entry for all where there are no slots), and all nodes."""

    owners: Mapping[int, Endpoint]
    nodes: tuple[Endpoint, ...]


class Routes:
    """The present belief about who is in charge; replaced whole, so that readers need no lock."""

    def __init__(self, settings: Settings) -> None:
        self._is_cluster = settings.kind is FleetKind.CLUSTER
        self._owners: list[Endpoint | None] = []
        self._seeds = settings.nodes
        self._turn = -1
        self._known: tuple[Endpoint, ...] = settings.nodes
        if settings.kind is FleetKind.SINGLE:
            self._owners = [settings.nodes[0]]

    @property
    def is_known(self) -> bool:
        """Whether anything was found yet."""
        return bool(self._owners)

    @property
    def owners(self) -> tuple[Endpoint, ...]:
        """Every node that is in charge of something."""
        return tuple(dict.fromkeys(owner for owner in self._owners if owner is not None))

    def candidates(self) -> tuple[Endpoint, ...]:
        """Nodes that may know more, another one first each time: the first may be the one that is wrong.

        Those of the settings are always among them, so that a node with a false map does no lasting harm.
        """
        nodes = tuple(dict.fromkeys((*self._known, *self._seeds)))
        self._turn = (self._turn + 1) % max(1, len(nodes))
        rotated = nodes[self._turn :] + nodes[: self._turn]
        return tuple(dict.fromkeys((*rotated[:_MOST_ASKED], *self._seeds)))

    def owner(self, tag: bytes) -> Endpoint | None:
        """Who is in charge of a key with this hash tag; None where nobody is known."""
        owners = self._owners
        if self._is_cluster:
            return owners[binascii.crc_hqx(tag, 0) % SLOTS] if owners else None
        return owners[0] if owners else None

    def learn(self, found: FleetMap) -> None:
        """Believe a look-up from now on."""
        size = SLOTS if self._is_cluster else 1
        self._owners = [found.owners.get(slot) for slot in range(size)]
        self._known = found.nodes

    def moved(self, redirection: Redirection) -> None:
        """Believe a node that says who has a slot now."""
        if self._is_cluster and self._owners and not redirection.is_ask:
            self._owners[redirection.slot] = redirection.endpoint

    def forget(self, endpoint: Endpoint) -> None:
        """The primary behind the sentinels is none any more; a cluster's map stays until there is a better one."""
        if not self._is_cluster and self._owners == [endpoint]:
            self._owners = []


def redirection(reply: ErrorReply, asked: Endpoint) -> Redirection | None:
    """A MOVED or ASK as a value; None for every other error."""
    if reply.prefix not in {"MOVED", "ASK"}:
        return None
    try:
        _word, slot, where = reply.text.split(" ")[:3]
        host, _colon, port = where.rpartition(":")
        # An empty host means the one that answered: it does not know its own name.
        there = _endpoint(host or asked.host, int(port))
        return Redirection(_slot(int(slot)), there, is_ask=reply.prefix == "ASK")
    except (ValueError, Failure):
        return None


def read_slots(reply: Reply, asked: Endpoint) -> FleetMap:
    """The answer to CLUSTER SLOTS."""
    owners: dict[int, Endpoint] = {}
    nodes: dict[Endpoint, None] = {}
    for entry in _list(reply):
        first, last, *servers = _list(entry)
        found = [_server(server, asked) for server in servers]
        nodes |= dict.fromkeys(found)
        slots = range(_slot(_int(first)), _slot(_int(last)) + 1)
        if len(nodes) > _MOST_NODES or not owners.keys().isdisjoint(slots):
            raise Failure(Cause.ERROR, f"{asked}: not a slot map: more than {_MOST_NODES} nodes, or a slot given twice")
        owners |= dict.fromkeys(slots, found[0])
    return FleetMap(owners=owners, nodes=tuple(nodes))


def fields(reply: Reply) -> dict[str, str]:
    """A flat list of names and values, as HELLO and SENTINEL MASTER answer; what is not plain is left out."""
    words = _list(reply)
    return {
        _plain(name): _plain(value)
        for name, value in zip(words[::2], words[1::2], strict=False)
        if isinstance(name, bytes | int) and isinstance(value, bytes | int)
    }


def says_primary(hello: Reply, asked: Endpoint) -> bool:
    """Whether the answer to HELLO is that of a server that takes writes; Failure where it refuses us."""
    if isinstance(hello, ErrorReply):
        raise failure_of(hello, asked)
    return fields(hello).get("role") != "replica"


def address(reply: Reply) -> Endpoint | None:
    """The answer to SENTINEL get-master-addr-by-name; None where the name is unknown."""
    if not isinstance(reply, list):
        return None
    host, port = reply
    return _endpoint(_plain(host), int(_plain(port)))


def _server(entry: Reply, asked: Endpoint) -> Endpoint:
    host, port, *_rest = _list(entry)
    # Nil, empty and `?` stand for a host that the node does not know: the one it was asked at.
    name = _plain(host) if host not in {None, b"", b"?"} else asked.host
    return _endpoint(name, _int(port))


def _endpoint(host: str, port: int) -> Endpoint:
    """A server as other servers name it; Failure on what no connection could be opened to."""
    try:
        is_name = 0 < len(host.encode("idna")) <= _HOST_BYTES and host.isprintable() and " " not in host
    except UnicodeError:
        is_name = False
    if not is_name or not 0 < port < 65536:
        raise Failure(Cause.ERROR, f"not a server's address: {host[:_HOST_BYTES]!r}, port {port!r:.20}")
    return Endpoint(host, port)


def _slot(number: int) -> int:
    if 0 <= number < SLOTS:
        return number
    raise Failure(Cause.ERROR, f"not a slot: {number!r:.20}")


def _list(reply: Reply) -> Sequence[Reply]:
    if isinstance(reply, list):
        return reply
    raise Failure(Cause.ERROR, f"a list was expected: {reply!r}")


def _int(reply: Reply) -> int:
    if isinstance(reply, int):
        return reply
    raise Failure(Cause.ERROR, f"a number was expected: {reply!r}")


def _plain(reply: Reply) -> str:
    return reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)
