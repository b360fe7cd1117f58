"""Finds the node that owns a key: by a cluster's slot map, or the only primary outside a cluster. Pure."""

import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlctl.limiter.core.settings import Endpoint, FleetKind, FleetSettings
from rlctl.limits.failures import Cause, ErrorReply, Failure, failure_of
from rlctl.limits.resp import Reply

SLOTS = 16384
# Redis recommends at most 1000 nodes; the limiter refuses a slot map with more nodes.
_MOST_NODES = 1000
# A look-up queries at most this many known nodes, then the nodes of the settings.
_MOST_ASKED = 8
_HOST_BYTES = 253


def slot_of(tag: bytes) -> int:
    """The cluster slot of a hash tag."""
    return binascii.crc_hqx(tag, 0) % SLOTS


@dataclass(frozen=True, slots=True)
class Redirection:
    """A MOVED or ASK reply. ASK applies to one call; MOVED applies until the slot moves again."""

    slot: int
    endpoint: Endpoint
    is_ask: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMap:
    """The result of a look-up: the primary of each slot, and all nodes. Outside a cluster only slot 0 has an entry."""

    owners: Mapping[int, Endpoint]
    nodes: tuple[Endpoint, ...]


class Routes:
    """The last known owner of each slot. Readers need no lock, because each update is atomic."""

    def __init__(self, settings: FleetSettings) -> None:
        self._is_cluster = settings.kind is FleetKind.CLUSTER
        self._owners: list[Endpoint | None] = []
        self._seeds = settings.nodes
        self._turn = -1
        self._known: tuple[Endpoint, ...] = settings.nodes
        if settings.kind is FleetKind.SINGLE:
            self._owners = [settings.nodes[0]]

    @property
    def is_known(self) -> bool:
        return bool(self._owners)

    @property
    def owners(self) -> tuple[Endpoint, ...]:
        """All nodes that own a slot."""
        return tuple(dict.fromkeys(owner for owner in self._owners if owner is not None))

    def candidates(self) -> tuple[Endpoint, ...]:
        """Return the nodes to query in a look-up.

        Each look-up begins with another node, because a node may have a wrong map.

        The nodes of the settings are always included, so that a node with a wrong map cannot hide the others.
        """
        nodes = tuple(dict.fromkeys((*self._known, *self._seeds)))
        self._turn = (self._turn + 1) % max(1, len(nodes))
        rotated = nodes[self._turn :] + nodes[: self._turn]
        return tuple(dict.fromkeys((*rotated[:_MOST_ASKED], *self._seeds)))

    def owner(self, tag: bytes) -> Endpoint | None:
        """Return the node that owns the keys with this hash tag; None if the owner is not known."""
        owners = self._owners
        if self._is_cluster:
            return owners[binascii.crc_hqx(tag, 0) % SLOTS] if owners else None
        return owners[0] if owners else None

    def learn(self, found: FleetMap) -> None:
        """Replace the map by the result of a look-up."""
        size = SLOTS if self._is_cluster else 1
        self._owners = [found.owners.get(slot) for slot in range(size)]
        self._known = found.nodes

    def moved(self, redirection: Redirection) -> None:
        """Set the owner of a slot by a MOVED reply."""
        if self._is_cluster and self._owners and not redirection.is_ask:
            self._owners[redirection.slot] = redirection.endpoint

    def forget(self, endpoint: Endpoint) -> None:
        """Forget a node that is not a primary; for a cluster, the map stays until the next look-up."""
        if not self._is_cluster and self._owners == [endpoint]:
            self._owners = []


def redirection(reply: ErrorReply, asked: Endpoint) -> Redirection | None:
    """Parse a MOVED or ASK reply; None for all other errors."""
    if reply.prefix not in {"MOVED", "ASK"}:
        return None
    try:
        _word, slot, where = reply.text.split(" ")[:3]
        host, _colon, port = where.rpartition(":")
        # An empty host stands for the node that replied, which does not know its own name.
        there = _endpoint(host or asked.host, int(port))
        return Redirection(_slot(int(slot)), there, is_ask=reply.prefix == "ASK")
    except (ValueError, Failure):
        return None


def read_slots(reply: Reply, asked: Endpoint) -> FleetMap:
    """Parse the reply of CLUSTER SLOTS; Failure if the reply is not a valid slot map."""
    owners: dict[int, Endpoint] = {}
    nodes: dict[Endpoint, None] = {}
    for entry in _list(reply):
        first, last, *servers = _list(entry)
        found = [_server(server, asked) for server in servers]
        nodes |= dict.fromkeys(found)
        slots = range(_slot(_int(first)), _slot(_int(last)) + 1)
        if len(nodes) > _MOST_NODES or not owners.keys().isdisjoint(slots):
            raise Failure(
                Cause.ERROR, f"{asked}: not a slot map: more than {_MOST_NODES} nodes, or a slot listed twice"
            )
        owners |= dict.fromkeys(slots, found[0])
    return FleetMap(owners=owners, nodes=tuple(nodes))


def fields(reply: Reply) -> dict[str, str]:
    """Parse the fields of a HELLO or SENTINEL MASTER reply; fields whose values are lists are omitted."""
    words = _list(reply)
    return {
        _plain(name): _plain(value)
        for name, value in zip(words[::2], words[1::2], strict=False)
        if isinstance(name, bytes | int) and isinstance(value, bytes | int)
    }


def says_primary(hello: Reply, asked: Endpoint) -> bool:
    """Return whether a HELLO reply comes from a primary; Failure if the server refuses the login."""
    if isinstance(hello, ErrorReply):
        raise failure_of(hello, asked)
    return fields(hello).get("role") != "replica"


def address(reply: Reply) -> Endpoint | None:
    """Parse the reply of SENTINEL GET-MASTER-ADDR-BY-NAME; None if the sentinel does not know the name."""
    if not isinstance(reply, list):
        return None
    host, port = reply
    return _endpoint(_plain(host), int(_plain(port)))


def _server(entry: Reply, asked: Endpoint) -> Endpoint:
    host, port, *_rest = _list(entry)
    # Nil, empty and `?` stand for the node that replied, which does not know its own name.
    name = _plain(host) if host not in {None, b"", b"?"} else asked.host
    return _endpoint(name, _int(port))


def _endpoint(host: str, port: int) -> Endpoint:
    """Check an address from a server's reply; Failure if the host or the port is not valid."""
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
