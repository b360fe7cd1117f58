"""Asks the node in charge, with threads: one EVALSHA, at most one redirection, one deadline."""

import time

from rlctl.errors import RlctlError
from rlctl.limiter.counters import Counters
from rlctl.limiter.failures import Cause, Failure
from rlctl.limiter.finder import Finder
from rlctl.limiter.fleet import Fleet, judge
from rlctl.limiter.guards import Guards
from rlctl.limiter.link import Link, tls_context
from rlctl.limiter.lookup import Answer, Lookup, Question, look_up
from rlctl.limiter.options import Options
from rlctl.limiter.pool import Opener, Pool
from rlctl.limiter.resp import ASKING, Numbers, Reply
from rlctl.limiter.routes import FleetMap, Redirection
from rlctl.limiter.settings import Endpoint, Settings


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
            reply = link.exchange(message, deadline_s, replies)
        except BaseException as failure:
            self.pool.drop(link)
            if isinstance(failure, Failure) and failure.cause is Cause.CLOSED:
                self.pool.clear()
            raise
        self.pool.give(link, now_s)
        return reply


class Backend(Fleet[Node]):
    """The fleet behind a limiter for threads."""

    def __init__(self, settings: Settings, options: Options, counters: Counters) -> None:
        super().__init__(settings, options, counters)
        self._context = tls_context(settings.login)
        self._finder = Finder(self._find, options.refresh_ms / 1000)

    def ask(self, message: bytes, tag: bytes, sha1: str) -> Numbers:
        """What the script replied; Failure says why it did not."""
        now_s = time.monotonic()
        deadline_s = now_s + self._exchange_s
        try:
            node = self._node(self._routes.owner(tag) or self._search(tag, deadline_s))
            reply = self._ask_node(node, message, sha1, now_s, deadline_s, 1)
            return self._follow(reply, message, sha1, deadline_s) if isinstance(reply, Redirection) else reply
        except Failure as failure:
            if self._needs_search(failure):
                self._finder.request()
            raise

    def warm(self, count: int) -> None:
        """Find the fleet and open connections to every node in charge, as far as a connection's time-out allows."""
        deadline_s = time.monotonic() + self._connect_s
        if not self._routes.is_known:
            self._finder.request()
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
    ) -> Numbers | Redirection:
        node.guards.admit(sha1)
        try:
            reply = node.exchange(message, now_s, deadline_s, replies)
            answer = reply if type(reply) is list else judge(reply, node.endpoint)
        except Failure as failure:
            self._failed(failure, node, sha1, now_s)
            raise
        except RlctlError:
            node.guards.answered(sha1)
            raise
        except BaseException:
            node.guards.forfeited(sha1)
            raise
        node.guards.answered(sha1)
        return answer

    def _follow(self, where: Redirection, message: bytes, sha1: str, deadline_s: float) -> Numbers:
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
        self._finder.request()

    def _find(self) -> None:
        self._counters.looked_up()
        try:
            self._learn(self._drive(look_up(self._settings, self._routes.candidates())))
        except Failure as failure:
            self._trouble = failure

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
