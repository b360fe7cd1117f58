"""Sends each call to the node that owns its key, for asyncio.

A call is one EVALSHA. It follows at most one redirection, and has one deadline that includes the redirection.
"""

import asyncio
import time
from collections.abc import Sequence

from rlctl.errors import RlctlError
from rlctl.limiter.aio.connection import AsyncConnection
from rlctl.limiter.core.commands import Command, CommandResult
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.internal import defects_as_failures
from rlctl.limiter.core.lookup import Lookup, NodeQuery, NodeReplies, look_up
from rlctl.limiter.core.node_breakers import NodeBreakers
from rlctl.limiter.core.node_directory import NodeDirectory
from rlctl.limiter.core.options import Options
from rlctl.limiter.core.routes import FleetMap, Redirection
from rlctl.limiter.core.settings import Endpoint, FleetSettings
from rlctl.limiter.threads.connection import tls_context
from rlctl.limits.failures import Cause, Failure
from rlctl.limits.resp import ASKING, Reply

# If a wait ends this much too late, other tasks kept the event loop busy.
_LATE_S = 0.001
# If opening a connection takes longer than this, the delay counts against the node, even if the event loop was busy.
_SLOW_OPENING_S = 0.1


class AsyncNode:
    """One server with its breakers and the one connection that all tasks share."""

    def __init__(self, endpoint: Endpoint, breakers: NodeBreakers, fleet: "AsyncBackend") -> None:
        self.endpoint = endpoint
        self.breakers = breakers
        self._fleet = fleet
        self._link: AsyncConnection | None = None
        self._opening: asyncio.Task[AsyncConnection | Failure] | None = None
        self._opening_since_s = 0.0
        self._is_closed = False

    async def exchange(self, message: bytes, deadline_s: float, replies: int) -> Reply:
        """Send a message, read `replies` replies and return the last one. Opens a connection first if none is open."""
        link = self._link
        if link is None or not link.is_open:
            link = await self.opened(deadline_s)
        return await link.exchange(message, deadline_s, replies)

    async def opened(self, deadline_s: float) -> AsyncConnection:
        """Return the connection, opening it if needed; Failure if it is not open at the deadline."""
        if self._is_closed:
            raise Failure(Cause.NO_CONNECTION, f"{self.endpoint}: the limiter is closed")
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening_since_s = time.monotonic()
        opening = self._opening
        began_s, wait_s = time.monotonic(), max(0.0, deadline_s - asyncio.get_running_loop().time())
        await asyncio.wait({opening}, timeout=wait_s)
        if not opening.done() or opening.cancelled():
            raise self._no_connection(began_s + wait_s)
        outcome = opening.result()
        if isinstance(outcome, Failure):
            raise Failure(outcome.cause, outcome.evidence)
        return outcome

    def disconnect(self) -> None:
        """Close the connection; the next call opens a new one."""
        if self._link is not None:
            self._link.close()

    def close(self) -> None:
        """Close the connection; later calls raise Failure."""
        self._is_closed = True
        self.disconnect()
        if self._opening is not None:
            self._opening.cancel()

    def _no_connection(self, due_s: float) -> Failure:
        """Return the failure for a connection that is not open in time.

        Its cause is SATURATED if this event loop caused the delay, else NO_CONNECTION.
        """
        now_s = time.monotonic()
        if now_s - due_s > _LATE_S and now_s - self._opening_since_s < _SLOW_OPENING_S:
            return Failure(Cause.SATURATED, f"{self.endpoint}: this event loop was too busy to connect")
        return Failure(Cause.NO_CONNECTION, f"{self.endpoint}: no connection within the budget")

    async def _open(self) -> AsyncConnection | Failure:
        try:
            with defects_as_failures:
                self._link = await self._fleet.open_connection(self.endpoint)
        except Failure as failure:
            return failure
        else:
            return self._link
        finally:
            self._opening = None


class AsyncBackend(NodeDirectory[AsyncNode]):
    """The nodes behind a limiter for asyncio; belongs to one event loop."""

    def __init__(self, settings: FleetSettings, options: Options, counters: Counters) -> None:
        super().__init__(settings, options, counters)
        self._context = tls_context(settings.login)
        self._loop = asyncio.get_running_loop()
        self._finding: asyncio.Task[None] | None = None
        self._not_before_s = 0.0

    async def execute(self, message: bytes, tag: bytes, sha1: str) -> Reply:
        """Send a packed command to the owner of `tag` and return the reply; Failure if no reply arrives in time."""
        deadline_s = self._loop.time() + self._exchange_s
        try:
            with defects_as_failures:
                node = self._node(self._routes.owner(tag) or await self._find_owner(tag, deadline_s))
                reply = await self._ask_node(node, message, sha1, deadline_s, 1)
                return await self._follow(reply, message, sha1, deadline_s) if isinstance(reply, Redirection) else reply
        except Failure as failure:
            if self._needs_lookup(failure):
                self._request_lookup()
            raise

    async def execute_all(self, commands: Sequence[Command]) -> list[CommandResult]:
        """Send several commands within the time of one decision; commands for one node share a packet."""
        results = await asyncio.gather(*(self._result(command) for command in commands))
        return list(results)

    async def _result(self, command: Command) -> CommandResult:
        try:
            return await self.execute(command.message, command.tag, command.sha1)
        except (Failure, RlctlError) as failure:
            return failure

    async def warm(self) -> None:
        """Look up the fleet and connect to each primary; gives up after the connect time-out."""
        deadline_s = self._loop.time() + self._connect_s
        if not self._routes.is_known:
            self._request_lookup()
            await self._found(deadline_s)
        nodes = [self._node(endpoint) for endpoint in self._routes.owners]
        await asyncio.gather(*(node.opened(deadline_s) for node in nodes), return_exceptions=True)

    async def close(self) -> None:
        """Close all connections; later calls raise Failure."""
        self._close_nodes()
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.wait({self._finding})

    async def open_connection(self, endpoint: Endpoint) -> AsyncConnection:
        """Open a connection to a node; Failure if the fleet uses Sentinel and the node is a replica."""
        link = await AsyncConnection.open(
            self._settings.reached(endpoint), self._settings.login, self._context, self._connect_s
        )
        try:
            self._check_role(endpoint, is_primary=link.is_primary)
        except Failure:
            link.close()
            raise
        return link

    async def _ask_node(
        self, node: AsyncNode, message: bytes, sha1: str, deadline_s: float, replies: int
    ) -> Reply | Redirection:
        node.breakers.admit(sha1)
        began_s = time.monotonic()
        try:
            reply = await node.exchange(message, deadline_s, replies)
        except Failure as failure:
            self._failed(failure, node, sha1, began_s)
            raise
        except BaseException:
            node.breakers.abandoned(sha1)
            raise
        return self._classified(reply, node, sha1, began_s)

    async def _follow(self, where: Redirection, message: bytes, sha1: str, deadline_s: float) -> Reply:
        failure = self._accept_redirection(where, deadline_s - self._loop.time())
        words, replies = (ASKING + message, 2) if where.is_ask else (message, 1)
        reply = await self._ask_node(self._node(where.endpoint), words, sha1, deadline_s, replies)
        if isinstance(reply, Redirection):
            raise failure
        return reply

    async def _find_owner(self, tag: bytes, deadline_s: float) -> Endpoint:
        self._begin_lookup()
        await self._found(deadline_s)
        return self._end_lookup(tag)

    async def _found(self, deadline_s: float) -> None:
        if self._finding is not None:
            await asyncio.wait({self._finding}, timeout=max(0.0, deadline_s - self._loop.time()))

    def _request_lookup(self) -> None:
        if self._finding is None and self._loop.time() >= self._not_before_s:
            self._finding = asyncio.create_task(self._find())

    async def _find(self) -> None:
        self._counters.looked_up()
        try:
            with defects_as_failures:
                self._learn(await self._drive(look_up(self._settings, self._routes.candidates())))
        except Failure as failure:
            self._lookup_failed(failure)
        finally:
            self._not_before_s = self._loop.time() + self._options.refresh_ms / 1000
            self._finding = None

    async def _drive(self, lookup: Lookup) -> FleetMap:
        try:
            question = next(lookup)
            while True:
                question = lookup.send(await self._query(question))
        except StopIteration as done:
            found: FleetMap = done.value
            return found

    async def _query(self, question: NodeQuery) -> NodeReplies:
        login = self._settings.sentinel_login if question.to_sentinel else self._settings.login
        try:
            link = await AsyncConnection.open(
                self._settings.reached(question.endpoint), login, self._context, self._connect_s
            )
            try:
                return [await link.exchange(words, self._loop.time() + self._connect_s) for words in question.commands]
            finally:
                link.close()
        except Failure as failure:
            return failure

    def _new_node(self, endpoint: Endpoint, breakers: NodeBreakers) -> AsyncNode:
        return AsyncNode(endpoint, breakers, self)
