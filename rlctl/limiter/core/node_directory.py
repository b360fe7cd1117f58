"""The nodes of a fleet that a limiter knows, with their routes, connections, breakers and the last failed look-up."""

import logging
import threading
from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from rlctl.errors import RlctlError
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.forks import renew_after_fork
from rlctl.limiter.core.node_breakers import NodeBreakers
from rlctl.limiter.core.options import LEAST_EXCHANGE_S, Options
from rlctl.limiter.core.routes import FleetMap, Redirection, Routes, redirection
from rlctl.limiter.core.rulebook import require_success
from rlctl.limiter.core.settings import Endpoint, FleetKind, FleetSettings
from rlctl.limits.failures import Cause, ErrorReply, Failure, before_asking, failure_of
from rlctl.limits.resp import Reply
from rlctl.limits.rule import TAG


class AnyNode(Protocol):
    """One server with its breakers and connections."""

    endpoint: Endpoint
    breakers: NodeBreakers

    def disconnect(self) -> None:
        """Close all connections; later calls open new ones."""

    def close(self) -> None:
        """Close all connections; later calls raise Failure."""


_log = logging.getLogger("rlctl.limiter")
_Node = TypeVar("_Node", bound=AnyNode)


class NodeDirectory(ABC, Generic[_Node]):
    """The servers behind a limiter. Changes the routes after replies and failures."""

    def __init__(self, settings: FleetSettings, options: Options, counters: Counters) -> None:
        self._settings = settings
        self._options = options
        self._counters = counters
        self._routes = Routes(settings)
        self._nodes: dict[Endpoint, _Node] = {}
        self._lock = threading.Lock()
        self._lookup_breakers = NodeBreakers("look-up", options.breaker, counters)
        self._last_failure = Failure(Cause.UNREACHABLE, "no node has answered yet")
        self._exchange_s = options.exchange_s
        self._connect_s = options.connect_timeout_ms / 1000
        self._logged_kind = False
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Renew the lock; pools and look-up threads renew themselves on their next use."""
        self._lock = threading.Lock()

    @abstractmethod
    def _new_node(self, endpoint: Endpoint, breakers: NodeBreakers) -> _Node:
        """Create a node without connections."""

    @abstractmethod
    def _request_lookup(self) -> None:
        """Start a look-up in the background."""

    def retry_in_ms(self, tag: bytes, sha1: str) -> int:
        """Return the milliseconds until the breakers let a call for this hash tag pass."""
        endpoint = self._routes.owner(tag)
        node = self._nodes.get(endpoint) if endpoint is not None else None
        return (node.breakers if node is not None else self._lookup_breakers).retry_in_ms(sha1)

    def rules_node(self) -> Endpoint:
        """Return the node that stores the rules; Failure if the node is not known yet."""
        endpoint = self._routes.owner(TAG)
        if endpoint is None:
            raise Failure(Cause.UNREACHABLE, "the node that stores the rules is not known")
        return endpoint

    def check_rules_reply(self, reply: Reply, asked: Endpoint) -> Reply:
        """Return the reply of the node with the rules; raise Failure on an error. A MOVED reply updates the routes."""
        where = redirection(reply, asked) if isinstance(reply, ErrorReply) else None
        if where is not None:
            self._routes.moved(where)
        return require_success(reply, asked)

    def refresh_routes(self) -> None:
        """Start a look-up, unless the fleet is a single node."""
        if self._settings.kind is not FleetKind.SINGLE:
            self._request_lookup()

    def _node(self, endpoint: Endpoint) -> _Node:
        node = self._nodes.get(endpoint)
        if node is not None:
            return node
        with self._lock:
            node = self._nodes.get(endpoint)
            if node is None:
                breakers = NodeBreakers(str(endpoint), self._options.breaker, self._counters)
                node = self._nodes[endpoint] = self._new_node(endpoint, breakers)
            return node

    def _failed(self, failure: Failure, node: _Node, sha1: str, began_s: float) -> None:
        node.breakers.failed(failure, sha1, began_s)
        if failure.cause is Cause.READONLY:
            self._routes.forget(node.endpoint)
            node.disconnect()

    def _classified(self, reply: Reply, node: _Node, sha1: str, began_s: float) -> Reply | Redirection:
        """Report a reply to the breakers; return the reply, or the redirection in it.

        A script (`sha1` is not empty) must return a list. Other commands may return any reply but an error.
        """
        is_plain = type(reply) is list or (not sha1 and not isinstance(reply, ErrorReply))
        try:
            answer = reply if is_plain else classify_reply(reply, node.endpoint)
        except Failure as failure:
            self._failed(failure, node, sha1, began_s)
            raise
        except RlctlError:
            node.breakers.answered(sha1)
            raise
        node.breakers.answered(sha1)
        return answer

    def _needs_lookup(self, failure: Failure) -> bool:
        return failure.cause.blames_route and self._settings.kind is not FleetKind.SINGLE

    def _accept_redirection(self, where: Redirection, left_s: float) -> Failure:
        """Update the routes from a redirection and return the Failure that describes it.

        Raises this Failure if too little time is left to follow the redirection.
        """
        if self._settings.kind is not FleetKind.CLUSTER:
            raise self._wrong_kind(where)
        failure = Failure(Cause.ASK if where.is_ask else Cause.MOVED, f"slot {where.slot} is at {where.endpoint}")
        self._routes.moved(where)
        if left_s < LEAST_EXCHANGE_S:
            raise failure
        self._counters.failed(failure)
        if not where.is_ask:
            self._request_lookup()
        return failure

    def _lookup_failed(self, failure: Failure) -> None:
        """Store why a look-up failed.

        An internal error is also counted here: decisions that already have a route succeed and do not report it.
        """
        self._last_failure = failure
        if failure.cause is Cause.INTERNAL:
            self._counters.failed(failure)

    def _wrong_kind(self, where: Redirection) -> Failure:
        """Return the failure for a redirection if `kind` in the settings is not cluster.

        Only a cluster node redirects, so `kind` is wrong.
        """
        kind = self._settings.kind
        if not self._logged_kind:
            self._logged_kind = True
            _log.error("a cluster node redirects to %s, but the limiter settings say kind %s", where.endpoint, kind)
        return Failure(Cause.MOVED, f"slot {where.slot} is at {where.endpoint}: kind is cluster, not {kind}")

    def _begin_lookup(self) -> None:
        """Start a look-up for a key whose owner is not known.

        Raises Failure if the limiter has a slot map but the map has no owner for the key, or if the breaker of the
        look-up is open.
        """
        if self._routes.is_known:
            raise Failure(Cause.CLUSTER_DOWN, "no node serves the slot of this key")
        self._request_lookup()
        self._lookup_breakers.admit("")

    def _end_lookup(self, tag: bytes) -> Endpoint:
        endpoint = self._routes.owner(tag)
        if endpoint is None:
            failure = before_asking(self._last_failure)
            self._lookup_breakers.failed(failure, "")
            raise failure
        return endpoint

    def _learn(self, found: FleetMap) -> None:
        self._routes.learn(found)
        self._lookup_breakers.answered("")
        with self._lock:
            gone = [self._nodes.pop(endpoint) for endpoint in list(self._nodes) if endpoint not in found.nodes]
        for node in gone:
            node.breakers.retire()
            node.close()

    def _close_nodes(self) -> None:
        with self._lock:
            nodes = list(self._nodes.values())
        for node in nodes:
            node.breakers.retire()
            node.close()

    def _check_role(self, endpoint: Endpoint, *, is_primary: bool) -> None:
        """Raise Failure for a replica of a Sentinel fleet, because the replica would refuse writes.

        Other replicas are accepted: a replica of a cluster redirects calls to its primary, and if the fleet is a single
        node, the limiter has no other node to use.
        """
        if self._settings.kind is FleetKind.SENTINEL and not is_primary:
            raise Failure(Cause.READONLY, f"{endpoint}: is a replica")


def classify_reply(reply: Reply, asked: Endpoint) -> Redirection:
    """Return the redirection in a reply; raise Failure if the reply is another error or a value."""
    if not isinstance(reply, ErrorReply):
        raise Failure(Cause.ERROR, f"{asked}: not the reply of a limiter script: {reply!r:.200}")
    where = redirection(reply, asked)
    if where is None:
        raise failure_of(reply, asked)
    return where
