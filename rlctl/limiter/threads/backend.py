"""Asks the node in charge, with threads: one EVALSHA, at most one redirection, one deadline."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rlctl.errors import RlctlError
from rlctl.limiter.core.commands import Ask, Outcome
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.internal import defects_as_failures, internal
from rlctl.limiter.core.lookup import Answer, Lookup, Question, look_up
from rlctl.limiter.core.node_breakers import Guards
from rlctl.limiter.core.node_directory import NodeDirectory
from rlctl.limiter.core.options import LEAST_EXCHANGE_S, Options
from rlctl.limiter.core.routes import FleetMap, Redirection
from rlctl.limiter.core.settings import Endpoint, Settings
from rlctl.limiter.threads.connection import Link, tls_context
from rlctl.limiter.threads.finder import Finder
from rlctl.limiter.threads.pool import Opener, Pool
from rlctl.limits.failures import Cause, Failure
from rlctl.limits.resp import ASKING, Reply


class Node:
    """One server: its breakers and its pool of connections."""

    def __init__(self, endpoint: Endpoint, guards: Guards, opener: Opener, *, limit: int) -> None:
        self.endpoint = endpoint
        self.guards = guards
        self.pool = Pool(str(endpoint), opener, limit=limit)
        self.hang_up = self.pool.clear
        self.close = self.pool.close

    def exchange(self, message: bytes, now_s: float, deadline_s: float, replies: int) -> Reply:
        """One exchange on a connection of the pool; a connection that failed is dropped."""
        link = self.pool.take(now_s, deadline_s)
        try:
            # The node has its whole time from here on: what this thread has lost, waiting for the interpreter or for
            # a connection that other threads used, is no delay of the node.
            reply = link.exchange(message, time.monotonic() + deadline_s - now_s, replies)
        except BaseException as failure:
            self.pool.drop(link)
            if isinstance(failure, Failure) and failure.cause is Cause.CLOSED:
                self.pool.clear()
            raise
        self.pool.give(link, now_s)
        return reply

    def send(self, message: bytes, now_s: float, deadline_s: float) -> Link:
        """Send on a connection of the pool, for `receive`."""
        link = self.pool.take(now_s, deadline_s)
        try:
            link.send(message, deadline_s)
        except BaseException:
            self.pool.drop(link)
            raise
        return link

    def receive(self, link: Link, count: int, now_s: float, deadline_s: float) -> list[Reply | Failure]:
        """The replies on a connection, which goes back to the pool; where one is missing it is dropped."""
        replies = link.replies(count, deadline_s)
        if isinstance(replies[-1], Failure):
            self.pool.drop(link)
        else:
            self.pool.give(link, now_s)
        return replies


@dataclass(frozen=True, slots=True)
class _Sent:
    """What one node was sent in one packet, and the connection that the replies come on."""

    node: Node
    asks: list[Ask]
    link: Link


class Backend(NodeDirectory[Node]):
    """The fleet behind a limiter for threads."""

    def __init__(self, settings: Settings, options: Options, counters: Counters) -> None:
        super().__init__(settings, options, counters)
        self._context = tls_context(settings.login)
        self._finder = Finder(self._find, options.refresh_ms / 1000)

    def ask(self, message: bytes, tag: bytes, sha1: str) -> Reply:
        """What the script replied; Failure says why it did not."""
        now_s = time.monotonic()
        deadline_s = now_s + self._exchange_s
        try:
            with defects_as_failures:
                node = self._node(self._routes.owner(tag) or self._search(tag, deadline_s))
                reply = self._ask_node(node, message, sha1, now_s, deadline_s, 1)
                return self._follow(reply, message, sha1, deadline_s) if isinstance(reply, Redirection) else reply
        except Failure as failure:
            if self._needs_search(failure):
                self._request_search()
            raise

    def ask_all(self, asks: Sequence[Ask]) -> list[Outcome]:
        """Ask for several within the time of one: one packet to each node, and then the replies of all."""
        now_s = time.monotonic()
        deadline_s = now_s + self._exchange_s
        outcomes: dict[Ask, Outcome] = {}
        sent: list[_Sent] = []
        try:
            for node, own in self._by_node(asks, deadline_s, outcomes).items():
                sent += self._send(node, own, now_s, deadline_s, outcomes)
            while sent:
                self._receive(sent[-1], now_s, deadline_s, outcomes)
                sent.pop()
        except BaseException:
            for one in sent:
                one.node.pool.drop(one.link)
                for ask in one.asks:
                    one.node.guards.forfeited(ask.sha1)
            raise
        return [outcomes[ask] for ask in asks]

    def _by_node(
        self, asks: Sequence[Ask], deadline_s: float, outcomes: dict[Ask, Outcome]
    ) -> dict[Node, dict[Ask, None]]:
        """Who is asked what; an ask whose node is not known, or may not be asked now, has its outcome already."""
        found: dict[Node, dict[Ask, None]] = {}
        for ask in asks:
            try:
                node = self._node(self._routes.owner(ask.tag) or self._search(ask.tag, deadline_s))
                node.guards.admit(ask.sha1)
                found.setdefault(node, {})[ask] = None
            except Failure as failure:
                outcomes[ask] = self._failure(failure)
        return found

    def _send(
        self, node: Node, asks: dict[Ask, None], now_s: float, deadline_s: float, outcomes: dict[Ask, Outcome]
    ) -> list[_Sent]:
        try:
            link = node.send(b"".join(ask.message for ask in asks), now_s, deadline_s)
        except Failure as failure:
            for ask in asks:
                self._failed(failure, node, ask.sha1, now_s)
                outcomes[ask] = self._failure(failure)
            return []
        return [_Sent(node, list(asks), link)]

    def _receive(self, sent: _Sent, now_s: float, deadline_s: float, outcomes: dict[Ask, Outcome]) -> None:
        # A node that let all the time pass takes none from the next, whose replies may lie there already.
        until_s = max(deadline_s, time.monotonic() + LEAST_EXCHANGE_S)
        replies = sent.node.receive(sent.link, len(sent.asks), now_s, until_s)
        for ask, reply in zip(sent.asks, replies, strict=True):
            try:
                outcomes[ask] = self._outcome(sent.node, ask, reply, now_s, until_s)
            except RlctlError as wrong:
                outcomes[ask] = wrong
            except Failure as failure:
                outcomes[ask] = self._failure(failure)

    def _outcome(self, node: Node, ask: Ask, reply: Reply | Failure, now_s: float, deadline_s: float) -> Outcome:
        if isinstance(reply, Failure):
            self._failed(reply, node, ask.sha1, now_s)
            raise reply
        answer = self._judged(reply, node, ask.sha1, now_s)
        return self._follow(answer, ask.message, ask.sha1, deadline_s) if isinstance(answer, Redirection) else answer

    def _failure(self, failure: Failure) -> Failure:
        if self._needs_search(failure):
            self._finder.request()
        return failure

    def warm(self, count: int) -> None:
        """Find the fleet and open connections to every node in charge, as far as a connection's time-out allows."""
        deadline_s = time.monotonic() + self._connect_s
        if not self._routes.is_known:
            self._request_search()
            self._finder.wait(self._connect_s)
        nodes = [self._node(endpoint) for endpoint in self._routes.owners]
        for node in nodes:
            node.pool.warm(count)
        for node in nodes:
            node.pool.wait_until_warm(deadline_s)

    def close(self) -> None:
        """Hang up everywhere; what is asked later is not answered."""
        self._close_nodes()

    def _ask_node(
        self, node: Node, message: bytes, sha1: str, now_s: float, deadline_s: float, replies: int
    ) -> Reply | Redirection:
        node.guards.admit(sha1)
        try:
            reply = node.exchange(message, now_s, deadline_s, replies)
        except Failure as failure:
            self._failed(failure, node, sha1, now_s)
            raise
        except BaseException:
            node.guards.forfeited(sha1)
            raise
        return self._judged(reply, node, sha1, now_s)

    def _follow(self, where: Redirection, message: bytes, sha1: str, deadline_s: float) -> Reply:
        now_s = time.monotonic()
        failure = self._redirected(where, deadline_s - now_s)
        words, replies = (ASKING + message, 2) if where.is_ask else (message, 1)
        reply = self._ask_node(self._node(where.endpoint), words, sha1, now_s, deadline_s, replies)
        if isinstance(reply, Redirection):
            raise failure
        return reply

    def _search(self, tag: bytes, deadline_s: float) -> Endpoint:
        self._begin_search()
        self._finder.wait(deadline_s - time.monotonic())
        return self._end_search(tag)

    def _request_search(self) -> None:
        try:
            self._finder.request()
        except RuntimeError as error:
            self._not_found(internal(error))

    def _find(self) -> None:
        self._counters.looked_up()
        try:
            with defects_as_failures:
                self._learn(self._drive(look_up(self._settings, self._routes.candidates())))
        except Failure as failure:
            self._not_found(failure)

    def _drive(self, lookup: Lookup) -> FleetMap:
        try:
            question = next(lookup)
            while True:
                question = lookup.send(self._answer(question))
        except StopIteration as done:
            found: FleetMap = done.value
            return found

    def _answer(self, question: Question) -> Answer:
        login = self._settings.sentinel_login if question.to_sentinel else self._settings.login
        try:
            link = Link.open(self._settings.reached(question.endpoint), login, self._context, self._connect_s)
            try:
                return [link.exchange(words, time.monotonic() + self._connect_s) for words in question.commands]
            finally:
                link.close()
        except Failure as failure:
            return failure

    def _new_node(self, endpoint: Endpoint, guards: Guards) -> Node:
        return Node(endpoint, guards, lambda: self.open_link(endpoint), limit=self._options.connections)

    def open_link(self, endpoint: Endpoint) -> Link:
        """A connection to a node that may decide."""
        link = Link.open(self._settings.reached(endpoint), self._settings.login, self._context, self._connect_s)
        try:
            self._check_role(endpoint, is_primary=link.is_primary)
        except Failure:
            link.close()
            raise
        return link
