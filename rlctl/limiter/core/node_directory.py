"""What both ways of asking know of the fleet: who is in charge, the nodes in use, and what went wrong last."""

import logging
import threading
from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from rlctl.errors import RlctlError
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.forks import renew_after_fork
from rlctl.limiter.core.node_breakers import Guards
from rlctl.limiter.core.options import LEAST_EXCHANGE_S, Options
from rlctl.limiter.core.routes import FleetMap, Redirection, Routes, redirection
from rlctl.limiter.core.rulebook import usable
from rlctl.limiter.core.settings import Endpoint, FleetKind, Settings
from rlctl.limits.failures import Cause, ErrorReply, Failure, before_asking, failure_of
from rlctl.limits.resp import Reply
from rlctl.limits.rule import TAG


class AnyNode(Protocol):
    """One server, with its breakers and its connections."""

    endpoint: Endpoint
    guards: Guards

    def hang_up(self) -> None:
        """Close what is open; the node may be asked again."""

    def close(self) -> None:
        """Close what is open, for good."""


_log = logging.getLogger("rlctl.limiter")
_Node = TypeVar("_Node", bound=AnyNode)


class NodeDirectory(ABC, Generic[_Node]):
    """The servers behind a limiter, as far as they are known."""

    def __init__(self, settings: Settings, options: Options, counters: Counters) -> None:
        self._settings = settings
        self._options = options
        self._counters = counters
        self._routes = Routes(settings)
        self._nodes: dict[Endpoint, _Node] = {}
        self._lock = threading.Lock()
        self._search_guards = Guards("look-up", options.breaker, counters)
        self._trouble = Failure(Cause.UNREACHABLE, "nobody has answered yet")
        self._exchange_s = options.exchange_s
        self._connect_s = options.connect_timeout_ms / 1000
        self._told_of_kind = False
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Connections and threads are renewed where they are used next."""
        self._lock = threading.Lock()

    @abstractmethod
    def _new_node(self, endpoint: Endpoint, guards: Guards) -> _Node:
        """A node without connections."""

    @abstractmethod
    def _request_search(self) -> None:
        """Have the fleet looked up beside the decisions."""

    def retry_in_ms(self, tag: bytes, sha1: str) -> int:
        """How long until a breaker lets a call for this key pass."""
        endpoint = self._routes.owner(tag)
        node = self._nodes.get(endpoint) if endpoint is not None else None
        return (node.guards if node is not None else self._search_guards).retry_in_ms(sha1)

    def rules_keeper(self) -> Endpoint:
        """Who is in charge of the rules; Failure where nobody is known."""
        endpoint = self._routes.owner(TAG)
        if endpoint is None:
            raise Failure(Cause.UNREACHABLE, "nobody is known who keeps the rules")
        return endpoint

    def judge_rules(self, reply: Reply, asked: Endpoint) -> Reply:
        """A reply about rules; Failure where it is an error, and a redirection is believed."""
        where = redirection(reply, asked) if isinstance(reply, ErrorReply) else None
        if where is not None:
            self._routes.moved(where)
        return usable(reply, asked)

    def search(self) -> None:
        """Have the fleet looked up, where that can help."""
        if self._settings.kind is not FleetKind.SINGLE:
            self._request_search()

    def _node(self, endpoint: Endpoint) -> _Node:
        node = self._nodes.get(endpoint)
        if node is not None:
            return node
        with self._lock:
            node = self._nodes.get(endpoint)
            if node is None:
                guards = Guards(str(endpoint), self._options.breaker, self._counters)
                node = self._nodes[endpoint] = self._new_node(endpoint, guards)
            return node

    def _failed(self, failure: Failure, node: _Node, sha1: str, began_s: float) -> None:
        node.guards.failed(failure, sha1, began_s)
        if failure.cause is Cause.READONLY:
            self._routes.forget(node.endpoint)
            node.hang_up()

    def _judged(self, reply: Reply, node: _Node, sha1: str, began_s: float) -> Reply | Redirection:
        """A reply that a limiter can use, after the breakers heard of it; without `sha1` any but an error is one."""
        is_plain = type(reply) is list or (not sha1 and not isinstance(reply, ErrorReply))
        try:
            answer = reply if is_plain else judge(reply, node.endpoint)
        except Failure as failure:
            self._failed(failure, node, sha1, began_s)
            raise
        except RlctlError:
            node.guards.answered(sha1)
            raise
        node.guards.answered(sha1)
        return answer

    def _needs_search(self, failure: Failure) -> bool:
        return failure.cause.blames_route and self._settings.kind is not FleetKind.SINGLE

    def _redirected(self, where: Redirection, left_s: float) -> Failure:
        """Believe a redirection; what it would be as a failure, raised where it cannot be followed."""
        if self._settings.kind is not FleetKind.CLUSTER:
            raise self._wrong_kind(where)
        failure = Failure(Cause.ASK if where.is_ask else Cause.MOVED, f"slot {where.slot} is at {where.endpoint}")
        self._routes.moved(where)
        if left_s < LEAST_EXCHANGE_S:
            raise failure
        self._counters.failed(failure)
        if not where.is_ask:
            self._request_search()
        return failure

    def _not_found(self, failure: Failure) -> None:
        """A look-up failed; a defect is counted here, as decisions count it only while no map is known."""
        self._trouble = failure
        if failure.cause is Cause.INTERNAL:
            self._counters.failed(failure)

    def _wrong_kind(self, where: Redirection) -> Failure:
        """Only a cluster redirects: the settings describe another kind of fleet than the servers are."""
        kind = self._settings.kind
        if not self._told_of_kind:
            self._told_of_kind = True
            _log.error("a cluster node redirects to %s, but the limiter settings say kind %s", where.endpoint, kind)
        return Failure(Cause.MOVED, f"slot {where.slot} is at {where.endpoint}: kind is cluster, not {kind}")

    def _begin_search(self) -> None:
        """Raise where a look-up is of no use; begin one otherwise."""
        if self._routes.is_known:
            raise Failure(Cause.CLUSTER_DOWN, "no node serves the slot of this key")
        self._request_search()
        self._search_guards.admit("")

    def _end_search(self, tag: bytes) -> Endpoint:
        endpoint = self._routes.owner(tag)
        if endpoint is None:
            failure = before_asking(self._trouble)
            self._search_guards.failed(failure, "")
            raise failure
        return endpoint

    def _learn(self, found: FleetMap) -> None:
        self._routes.learn(found)
        self._search_guards.answered("")
        with self._lock:
            gone = [self._nodes.pop(endpoint) for endpoint in list(self._nodes) if endpoint not in found.nodes]
        for node in gone:
            node.guards.retire()
            node.close()

    def _close_nodes(self) -> None:
        with self._lock:
            nodes = list(self._nodes.values())
        for node in nodes:
            node.guards.retire()
            node.close()

    def _check_role(self, endpoint: Endpoint, *, is_primary: bool) -> None:
        """Sentinel only: a cluster's replica redirects by itself, and a single node is what it is."""
        if self._settings.kind is FleetKind.SENTINEL and not is_primary:
            raise Failure(Cause.READONLY, f"{endpoint}: is a replica")


def judge(reply: Reply, asked: Endpoint) -> Redirection:
    """What is not the usual reply: a redirection, or a failure that is raised."""
    if not isinstance(reply, ErrorReply):
        raise Failure(Cause.ERROR, f"{asked}: not the reply of a limiter script: {reply!r:.200}")
    where = redirection(reply, asked)
    if where is None:
        raise failure_of(reply, asked)
    return where
