"""Sends each call to the node that owns its key, for threads.

A call is one EVALSHA. It follows at most one redirection, and has one deadline that includes the redirection.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rlctl.errors import RlctlError
from rlctl.limiter.core.commands import Command, CommandResult
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.internal import defects_as_failures, internal
from rlctl.limiter.core.lookup import Lookup, NodeQuery, NodeReplies, look_up
from rlctl.limiter.core.node_breakers import NodeBreakers
from rlctl.limiter.core.node_directory import NodeDirectory
from rlctl.limiter.core.options import LEAST_EXCHANGE_S, Options
from rlctl.limiter.core.routes import FleetMap, Redirection
from rlctl.limiter.core.settings import Endpoint, FleetSettings
from rlctl.limiter.threads.connection import Connection, tls_context
from rlctl.limiter.threads.finder import Finder
from rlctl.limiter.threads.pool import Opener, Pool
from rlctl.limits.failures import Cause, Failure
from rlctl.limits.resp import ASKING, Reply


class Node:
    """One server with its breakers and its pool of connections."""

    def __init__(self, endpoint: Endpoint, breakers: NodeBreakers, opener: Opener, *, limit: int) -> None:
        self.endpoint = endpoint
        self.breakers = breakers
        self.pool = Pool(str(endpoint), opener, limit=limit)
        self.disconnect = self.pool.clear
        self.close = self.pool.close

    def exchange(self, message: bytes, now_s: float, deadline_s: float, replies: int) -> Reply:
        """Send a message on a pooled connection, read `replies` replies and return the last one."""
        link = self.pool.take(now_s, deadline_s)
        try:
            # The node's time starts here. This thread's wait for the interpreter lock, or for a connection that other
            # threads used, does not count as a delay of the node.
            reply = link.exchange(message, time.monotonic() + deadline_s - now_s, replies)
        except BaseException as failure:
            self.pool.drop(link)
            if isinstance(failure, Failure) and failure.cause is Cause.CLOSED:
                self.pool.clear()
            raise
        self.pool.give(link, now_s)
        return reply

    def send(self, message: bytes, now_s: float, deadline_s: float) -> Connection:
        """Send a message on a pooled connection, and return the connection for `receive`."""
        link = self.pool.take(now_s, deadline_s)
        try:
            link.send(message, deadline_s)
        except BaseException:
            self.pool.drop(link)
            raise
        return link

    def receive(self, link: Connection, count: int, now_s: float, deadline_s: float) -> list[Reply | Failure]:
        """Receive `count` replies; return the connection to the pool, or drop the connection if a reply is missing."""
        replies = link.replies(count, deadline_s)
        if isinstance(replies[-1], Failure):
            self.pool.drop(link)
        else:
            self.pool.give(link, now_s)
        return replies


@dataclass(frozen=True, slots=True)
class _Sent:
    """Commands that were sent to one node in one packet, and the connection that receives the replies."""

    node: Node
    commands: list[Command]
    link: Connection


class Backend(NodeDirectory[Node]):
    """The nodes behind a limiter for threads."""

    def __init__(self, settings: FleetSettings, options: Options, counters: Counters) -> None:
        super().__init__(settings, options, counters)
        self._context = tls_context(settings.login)
        self._finder = Finder(self._find, options.refresh_ms / 1000)

    def execute(self, message: bytes, tag: bytes, sha1: str) -> Reply:
        """Send a packed command to the owner of `tag` and return the reply; Failure if no reply arrives in time."""
        now_s = time.monotonic()
        deadline_s = now_s + self._exchange_s
        try:
            with defects_as_failures:
                node = self._node(self._routes.owner(tag) or self._find_owner(tag, deadline_s))
                reply = self._ask_node(node, message, sha1, now_s, deadline_s, 1)
                return self._follow(reply, message, sha1, deadline_s) if isinstance(reply, Redirection) else reply
        except Failure as failure:
            if self._needs_lookup(failure):
                self._request_lookup()
            raise

    def execute_all(self, commands: Sequence[Command]) -> list[CommandResult]:
        """Send several commands within the time of one decision.

        Sends one packet to each node, then reads all replies.
        """
        now_s = time.monotonic()
        deadline_s = now_s + self._exchange_s
        results: dict[Command, CommandResult] = {}
        sent: list[_Sent] = []
        try:
            for node, own in self._by_node(commands, deadline_s, results).items():
                sent += self._send(node, own, now_s, deadline_s, results)
            while sent:
                self._receive(sent[-1], now_s, deadline_s, results)
                sent.pop()
        except BaseException:
            for one in sent:
                one.node.pool.drop(one.link)
                for command in one.commands:
                    one.node.breakers.abandoned(command.sha1)
            raise
        return [results[command] for command in commands]

    def _by_node(
        self, commands: Sequence[Command], deadline_s: float, results: dict[Command, CommandResult]
    ) -> dict[Node, dict[Command, None]]:
        """Group the commands by node. A command that cannot be sent to its node gets a Failure in `results`."""
        found: dict[Node, dict[Command, None]] = {}
        for command in commands:
            try:
                node = self._node(self._routes.owner(command.tag) or self._find_owner(command.tag, deadline_s))
                node.breakers.admit(command.sha1)
                found.setdefault(node, {})[command] = None
            except Failure as failure:
                results[command] = self._failure(failure)
        return found

    def _send(
        self,
        node: Node,
        commands: dict[Command, None],
        now_s: float,
        deadline_s: float,
        results: dict[Command, CommandResult],
    ) -> list[_Sent]:
        try:
            link = node.send(b"".join(command.message for command in commands), now_s, deadline_s)
        except Failure as failure:
            for command in commands:
                self._failed(failure, node, command.sha1, now_s)
                results[command] = self._failure(failure)
            return []
        return [_Sent(node, list(commands), link)]

    def _receive(self, sent: _Sent, now_s: float, deadline_s: float, results: dict[Command, CommandResult]) -> None:
        # Even if an earlier node used up the time, read briefly: the replies of this node may have arrived already.
        until_s = max(deadline_s, time.monotonic() + LEAST_EXCHANGE_S)
        replies = sent.node.receive(sent.link, len(sent.commands), now_s, until_s)
        for command, reply in zip(sent.commands, replies, strict=True):
            try:
                results[command] = self._result(sent.node, command, reply, now_s, until_s)
            except RlctlError as error:
                results[command] = error
            except Failure as failure:
                results[command] = self._failure(failure)

    def _result(
        self, node: Node, command: Command, reply: Reply | Failure, now_s: float, deadline_s: float
    ) -> CommandResult:
        if isinstance(reply, Failure):
            self._failed(reply, node, command.sha1, now_s)
            raise reply
        answer = self._classified(reply, node, command.sha1, now_s)
        return (
            self._follow(answer, command.message, command.sha1, deadline_s)
            if isinstance(answer, Redirection)
            else answer
        )

    def _failure(self, failure: Failure) -> Failure:
        if self._needs_lookup(failure):
            self._finder.request()
        return failure

    def warm(self, count: int) -> None:
        """Look up the fleet and open `count` connections to each primary; gives up after the connect time-out."""
        deadline_s = time.monotonic() + self._connect_s
        if not self._routes.is_known:
            self._request_lookup()
            self._finder.wait(self._connect_s)
        nodes = [self._node(endpoint) for endpoint in self._routes.owners]
        for node in nodes:
            node.pool.warm(count)
        for node in nodes:
            node.pool.wait_until_warm(deadline_s)

    def close(self) -> None:
        """Close all connections; later calls raise Failure."""
        self._close_nodes()

    def _ask_node(
        self, node: Node, message: bytes, sha1: str, now_s: float, deadline_s: float, replies: int
    ) -> Reply | Redirection:
        node.breakers.admit(sha1)
        try:
            reply = node.exchange(message, now_s, deadline_s, replies)
        except Failure as failure:
            self._failed(failure, node, sha1, now_s)
            raise
        except BaseException:
            node.breakers.abandoned(sha1)
            raise
        return self._classified(reply, node, sha1, now_s)

    def _follow(self, where: Redirection, message: bytes, sha1: str, deadline_s: float) -> Reply:
        now_s = time.monotonic()
        failure = self._accept_redirection(where, deadline_s - now_s)
        words, replies = (ASKING + message, 2) if where.is_ask else (message, 1)
        reply = self._ask_node(self._node(where.endpoint), words, sha1, now_s, deadline_s, replies)
        if isinstance(reply, Redirection):
            raise failure
        return reply

    def _find_owner(self, tag: bytes, deadline_s: float) -> Endpoint:
        self._begin_lookup()
        self._finder.wait(deadline_s - time.monotonic())
        return self._end_lookup(tag)

    def _request_lookup(self) -> None:
        try:
            self._finder.request()
        except RuntimeError as error:
            self._lookup_failed(internal(error))

    def _find(self) -> None:
        self._counters.looked_up()
        try:
            with defects_as_failures:
                self._learn(self._drive(look_up(self._settings, self._routes.candidates())))
        except Failure as failure:
            self._lookup_failed(failure)

    def _drive(self, lookup: Lookup) -> FleetMap:
        try:
            question = next(lookup)
            while True:
                question = lookup.send(self._query(question))
        except StopIteration as done:
            found: FleetMap = done.value
            return found

    def _query(self, question: NodeQuery) -> NodeReplies:
        login = self._settings.sentinel_login if question.to_sentinel else self._settings.login
        try:
            link = Connection.open(self._settings.reached(question.endpoint), login, self._context, self._connect_s)
            try:
                return [link.exchange(words, time.monotonic() + self._connect_s) for words in question.commands]
            finally:
                link.close()
        except Failure as failure:
            return failure

    def _new_node(self, endpoint: Endpoint, breakers: NodeBreakers) -> Node:
        return Node(endpoint, breakers, lambda: self.open_connection(endpoint), limit=self._options.connections)

    def open_connection(self, endpoint: Endpoint) -> Connection:
        """Open a connection to a node; Failure if the fleet uses Sentinel and the node is a replica."""
        link = Connection.open(self._settings.reached(endpoint), self._settings.login, self._context, self._connect_s)
        try:
            self._check_role(endpoint, is_primary=link.is_primary)
        except Failure:
            link.close()
            raise
        return link
