"""How the limiter opens connections, looks up the fleet, and keeps its nodes."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from rlctl.limiter.aio.backend import AsyncBackend, AsyncNode
from rlctl.limiter.aio.connection import AsyncConnection
from rlctl.limiter.core.breaker import BreakerSettings
from rlctl.limiter.core.commands import Command
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.lookup import NodeQuery
from rlctl.limiter.core.node_breakers import NodeBreakers
from rlctl.limiter.core.options import Options
from rlctl.limiter.core.routes import FleetMap, slot_of
from rlctl.limiter.core.settings import Endpoint, FleetKind, FleetSettings, read_settings
from rlctl.limiter.threads.backend import Backend
from rlctl.limiter.threads.connection import Connection
from rlctl.limits.failures import Cause, ErrorReply, Failure
from rlctl.limits.rule import TAG

A, B, C = (Endpoint("10.0.0.1", port) for port in (7000, 7001, 7002))
SHA1 = "aa"
YES = [1, 10, 9, 0, 1000, 0]
SINGLE: dict[str, Any] = {"kind": "single", "host": "10.0.0.1", "port": 7000, "password": "of-the-server"}
CLUSTER: dict[str, Any] = {"kind": "cluster", "nodes": ["10.0.0.1:7000"], "remap": {"10.0.0.1:7001": "127.0.0.1:9"}}
SENTINEL: dict[str, Any] = {
    "kind": "sentinel",
    "sentinels": ["10.0.0.1:8000"],
    "master_name": "limiter",
    "password": "of-the-server",
    "sentinel_password": "of-the-sentinel",
}
OPTIONS = Options(
    budget_ms=30_000,
    connect_timeout_ms=2000,
    refresh_ms=1,
    breaker=BreakerSettings(failures=1, backoff_ms=30_000, max_backoff_ms=30_000),
)
Reply = Any


class Opened:
    """A connection; `reply` is what the server says, or raises."""

    used_at_s = 0.0

    def __init__(self, endpoint: Endpoint, reply: Reply = YES, *, is_primary: bool = True) -> None:
        self.endpoint = endpoint
        self.is_primary = is_primary
        self.reply = reply
        self.is_open = True
        self.asked: list[tuple[bytes, float]] = []

    def exchange(self, message: bytes, deadline_s: float, _replies: int = 1) -> Reply:
        self.asked.append((message, deadline_s))
        return self._query()

    def send(self, message: bytes, deadline_s: float) -> None:
        self.asked.append((message, deadline_s))

    def replies(self, count: int, _deadline_s: float) -> list[Reply]:
        return [self._query()] * count

    def is_stale(self) -> bool:
        return False

    def close(self) -> None:
        self.is_open = False

    def _query(self) -> Reply:
        if isinstance(self.reply, BaseException):
            raise self.reply
        return self.reply


class AsyncOpened(Opened):
    async def exchange(self, message: bytes, deadline_s: float, _replies: int = 1) -> Reply:  # type: ignore[override]
        self.asked.append((message, deadline_s))
        return self._query()


class Openings:
    """The arguments of `Connection.open`, and the connections that it returns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **how: Any) -> None:
        self.how = how
        self.links: list[Opened] = []
        self.asked: list[tuple[Endpoint, str | None, float]] = []
        self.failure: Failure | None = None
        monkeypatch.setattr(Connection, "open", self.open)
        monkeypatch.setattr(AsyncConnection, "open", self.open_async)

    def open(
        self, endpoint: Endpoint, login: Any, context: object, timeout_s: float, kind: type[Opened] = Opened
    ) -> Any:
        assert context is None
        self.asked.append((endpoint, login.password and login.password.reveal(), timeout_s))
        if self.failure is not None:
            raise self.failure
        self.links.append(kind(endpoint, **self.how))
        return self.links[-1]

    async def open_async(self, endpoint: Endpoint, login: Any, context: object, timeout_s: float) -> Any:
        return self.open(endpoint, login, context, timeout_s, AsyncOpened)


def threads(document: dict[str, Any], act: Callable[[Any], Any]) -> Any:
    backend = Backend(read_settings(document), OPTIONS, Counters())
    try:
        return act(backend)
    finally:
        backend.close()


def with_asyncio(document: dict[str, Any], act: Callable[[Any], Any]) -> Any:
    async def story() -> Any:
        backend = AsyncBackend(read_settings(document), OPTIONS, Counters())
        try:
            return await act(backend)
        finally:
            await backend.close()

    return asyncio.run(story())


RUNS = pytest.mark.parametrize("run", [threads, with_asyncio], ids=["threads", "asyncio"])


@RUNS
@pytest.mark.parametrize(
    ("document", "is_primary", "is_taken"),
    [(SENTINEL, True, True), (SENTINEL, False, False), (CLUSTER, False, True), (SINGLE, False, True)],
)
def test_only_behind_sentinels_a_replica_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, run: Any, document: dict[str, Any], *, is_primary: bool, is_taken: bool
) -> None:
    openings = Openings(monkeypatch, is_primary=is_primary)
    if is_taken:
        assert run(document, lambda backend: backend.open_connection(A)) is openings.links[0]
    else:
        with pytest.raises(Failure, match="is a replica") as failure:
            run(document, lambda backend: backend.open_connection(A))
        assert failure.value.cause is Cause.READONLY
    assert openings.links[0].is_open is is_taken
    assert openings.asked == [(A, document.get("password"), 2.0)]


@RUNS
def test_a_connection_goes_where_a_node_is_reached(monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    openings = Openings(monkeypatch)
    run(CLUSTER, lambda backend: backend.open_connection(B))
    assert openings.asked[0][0] == Endpoint("127.0.0.1", 9)


@RUNS
@pytest.mark.parametrize(("to_sentinel", "password"), [(True, "of-the-sentinel"), (False, "of-the-server")])
def test_each_question_has_a_connection_of_its_own(
    monkeypatch: pytest.MonkeyPatch, run: Any, password: str, *, to_sentinel: bool
) -> None:
    openings = Openings(monkeypatch, reply=b"OK")
    question = NodeQuery(A, (b"one", b"two"), to_sentinel=to_sentinel)
    before_s = time.monotonic()
    assert run(SENTINEL, lambda backend: backend._query(question)) == [b"OK", b"OK"]
    [link] = openings.links
    assert openings.asked == [(A, password, 2.0)]
    assert [message for message, _deadline_s in link.asked] == [b"one", b"two"]
    assert all(before_s + 2 <= deadline_s <= time.monotonic() + 2 for _message, deadline_s in link.asked)
    assert not link.is_open


@RUNS
@pytest.mark.parametrize("is_opened", [False, True])
def test_a_question_that_fails_has_the_failure_as_its_answer(
    monkeypatch: pytest.MonkeyPatch, run: Any, *, is_opened: bool
) -> None:
    failure = Failure(Cause.UNREACHABLE, "refused")
    openings = Openings(monkeypatch, reply=failure)
    openings.failure = None if is_opened else failure
    assert run(CLUSTER, lambda backend: backend._query(NodeQuery(A, (b"one",)))) is failure
    assert [link.is_open for link in openings.links] == [False] * is_opened


def backend_of(document: dict[str, Any], monkeypatch: pytest.MonkeyPatch, **how: Any) -> tuple[Backend, Openings]:
    openings = Openings(monkeypatch, **how)
    backend = Backend(read_settings(document), OPTIONS, Counters())
    size = 16384 if backend._settings.kind is FleetKind.CLUSTER else 1
    backend._learn(FleetMap(owners=dict.fromkeys(range(size), A), nodes=(A, B)))
    return backend, openings


class Interrupted(BaseException):
    """As Ctrl-C."""


@pytest.mark.parametrize(
    "act",
    [
        lambda backend: backend.execute(b"call", b"u", SHA1),
        lambda backend: backend.execute_all([Command(b"call", b"u", SHA1), Command(b"other", b"v", SHA1)]),
    ],
    ids=["ask", "execute_all"],
)
def test_a_connection_that_was_interrupted_is_not_used_again(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Its reply would be taken for that of the next call."""
    backend, openings = backend_of(CLUSTER, monkeypatch, reply=Interrupted())
    with pytest.raises(Interrupted):
        act(backend)
    node = backend._nodes[A]
    assert not openings.links[0].is_open
    assert node.pool._open - len(node.pool._idle) == 0
    openings.how = {"reply": YES}
    for link in openings.links:
        link.reply = YES
    assert backend.execute(b"call", b"u", SHA1) == YES
    backend.close()


def test_a_server_that_closed_a_connection_loses_all_idle_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, _openings = backend_of(CLUSTER, monkeypatch)
    pool = backend._node(A).pool
    idle = [cast("Connection", Opened(A)), cast("Connection", Opened(A, Failure(Cause.CLOSED, "reset")))]
    pool._idle.extend(idle)
    pool._open = 2
    with pytest.raises(Failure):
        backend.execute(b"call", b"u", SHA1)
    assert [link.is_open for link in cast("list[Opened]", idle)] == [False, False]


def test_after_another_failure_the_idle_connections_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, _openings = backend_of(CLUSTER, monkeypatch)
    pool = backend._node(A).pool
    idle = [cast("Connection", Opened(A)), cast("Connection", Opened(A, Failure(Cause.TIMEOUT, "late")))]
    pool._idle.extend(idle)
    pool._open = 2
    with pytest.raises(Failure):
        backend.execute(b"call", b"u", SHA1)
    assert [link.is_open for link in cast("list[Opened]", idle)] == [True, False]


@pytest.mark.parametrize("is_sent", [True, False])
def test_asks_whose_connection_fails_all_fail(monkeypatch: pytest.MonkeyPatch, *, is_sent: bool) -> None:
    backend, _openings = backend_of(CLUSTER, monkeypatch)
    late = Failure(Cause.TIMEOUT, "late")
    link = Opened(A, late)
    link.replies = lambda count, _deadline_s: [late] * count  # type: ignore[method-assign]
    if not is_sent:

        def refuse(_message: bytes, _deadline_s: float) -> None:
            raise late

        link.send = refuse  # type: ignore[method-assign]
    pool = backend._node(A).pool
    pool._idle.append(cast("Connection", link))
    pool._open = 1
    outcomes = backend.execute_all([Command(b"one", b"u", SHA1), Command(b"two", b"v", SHA1)])
    assert [cast("Failure", outcome).cause for outcome in outcomes] == [Cause.TIMEOUT] * 2
    assert not link.is_open
    assert [cast("Failure", one).cause for one in backend.execute_all([Command(b"a", b"u", SHA1)])] == [
        Cause.BREAKER_OPEN
    ]


def test_the_same_ask_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, openings = backend_of(CLUSTER, monkeypatch)
    ask = Command(b"one", b"u", SHA1)
    assert backend.execute_all([ask, ask]) == [YES, YES]
    assert [message for link in openings.links for message, _deadline_s in link.asked] == [b"one"]


def test_nodes_that_left_the_fleet_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, openings = backend_of(CLUSTER, monkeypatch)
    backend.execute(b"call", b"u", SHA1)
    old = backend._nodes[A]
    backend._node(B)
    backend._learn(FleetMap(owners=dict.fromkeys(range(16384), B), nodes=(B, C)))
    assert set(backend._nodes) == {B}
    assert not openings.links[0].is_open
    with pytest.raises(Failure, match="the limiter is closed"):
        old.pool.take(time.monotonic(), time.monotonic())


def test_a_node_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, _openings = backend_of(CLUSTER, monkeypatch)
    assert backend._node(A) is backend._node(A)


def test_the_keeper_of_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, _openings = backend_of(CLUSTER, monkeypatch)
    assert backend.rules_node() == A
    moved = ErrorReply(f"MOVED {slot_of(TAG)} 10.0.0.1:7001")
    with pytest.raises(Failure):
        backend.check_rules_reply(moved, A)
    assert backend.rules_node() == B
    with pytest.raises(Failure):
        backend.check_rules_reply(ErrorReply("NOPERM no"), B)
    assert backend.check_rules_reply([b"3", b"d"], B) == [b"3", b"d"]
    assert backend.rules_node() == B


def test_without_a_map_no_keeper_of_the_rules_is_known() -> None:
    backend = Backend(read_settings(CLUSTER), OPTIONS, Counters())
    with pytest.raises(Failure, match="the node that stores the rules is not known"):
        backend.rules_node()


@pytest.mark.parametrize(("document", "searches"), [(SINGLE, 0), (CLUSTER, 1), (SENTINEL, 1)])
def test_a_single_server_is_not_looked_up_again(
    monkeypatch: pytest.MonkeyPatch, document: dict[str, Any], searches: int
) -> None:
    backend, _openings = backend_of(document, monkeypatch)
    requests: list[int] = []
    monkeypatch.setattr(backend, "_request_lookup", lambda: requests.append(1))
    backend.refresh_routes()
    assert len(requests) == searches
    unreachable = Failure(Cause.UNREACHABLE, "refused")
    assert backend._needs_lookup(unreachable) is bool(searches)
    assert not backend._needs_lookup(Failure(Cause.OOM, "full"))


def test_how_long_a_breaker_holds_a_call_back(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, _openings = backend_of(CLUSTER, monkeypatch, reply=Failure(Cause.TIMEOUT, "late"))
    assert backend.retry_in_ms(b"u", SHA1) == 0
    with pytest.raises(Failure):
        backend.execute(b"call", b"u", SHA1)
    assert 0 < backend.retry_in_ms(b"u", SHA1) <= 60_000
    unknown = Backend(read_settings(CLUSTER), OPTIONS, Counters())
    assert unknown.retry_in_ms(b"u", SHA1) == 0
    unknown._lookup_breakers.failed(Failure(Cause.UNREACHABLE, "refused"), "")
    assert unknown.retry_in_ms(b"u", SHA1) > 0


def test_a_primary_that_was_demoted_is_asked_for_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, openings = backend_of(SENTINEL, monkeypatch, reply=ErrorReply("READONLY You can't write"))
    monkeypatch.setattr(backend, "_request_lookup", lambda: None)
    with pytest.raises(Failure):
        backend.execute(b"call", b"u", SHA1)
    assert not backend._routes.is_known
    assert not openings.links[0].is_open


def test_a_cluster_keeps_its_map_when_a_node_is_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, _openings = backend_of(CLUSTER, monkeypatch, reply=ErrorReply("READONLY You can't write"))
    monkeypatch.setattr(backend, "_request_lookup", lambda: None)
    with pytest.raises(Failure):
        backend.execute(b"call", b"u", SHA1)
    assert backend._routes.is_known


def test_a_redirection_that_comes_too_late_is_believed_and_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, _openings = backend_of(CLUSTER, monkeypatch)
    slot = slot_of(b"u")
    where = backend._classified(ErrorReply(f"MOVED {slot} 10.0.0.1:7001"), backend._node(A), SHA1, 0.0)
    with pytest.raises(Failure) as failure:
        backend._accept_redirection(cast("Any", where), 0.0009)
    assert (failure.value.cause, backend._routes.owner(b"u")) == (Cause.MOVED, B)
    assert backend._counters.snapshot().errors == {}


def test_a_defect_in_a_look_up_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, _openings = backend_of(CLUSTER, monkeypatch)
    backend._lookup_failed(Failure(Cause.UNREACHABLE, "refused"))
    assert backend._counters.snapshot().errors == {}
    backend._lookup_failed(Failure(Cause.INTERNAL, "bug"))
    assert backend._counters.snapshot().errors == {Cause.INTERNAL: 1}


def test_settings_name_the_kind() -> None:
    kinds: list[FleetSettings] = [read_settings(one) for one in (SINGLE, CLUSTER, SENTINEL)]
    assert [one.kind for one in kinds] == [FleetKind.SINGLE, FleetKind.CLUSTER, FleetKind.SENTINEL]


class Slow:
    """A fleet that opens a connection when the test lets it."""

    def __init__(self, outcome: Opened | Failure | None = None) -> None:
        self.outcome = outcome or AsyncOpened(A)
        self.free = asyncio.Event()
        self.count = 0

    async def open_connection(self, _endpoint: Endpoint) -> Any:
        self.count += 1
        await self.free.wait()
        if isinstance(self.outcome, Failure):
            raise self.outcome
        return self.outcome


def node_of(fleet: Slow) -> AsyncNode:
    return AsyncNode(A, NodeBreakers(str(A), OPTIONS.breaker, Counters()), cast("Any", fleet))


async def started(node: AsyncNode, *, wait_s: float = 60.0) -> "asyncio.Task[Any]":
    task = asyncio.create_task(node.exchange(b"call", asyncio.get_running_loop().time() + wait_s, 1))
    await asyncio.sleep(0)
    return task


def test_tasks_share_one_connection() -> None:
    async def story() -> None:
        fleet = Slow()
        node = node_of(fleet)
        tasks = [await started(node) for _ in range(3)]
        fleet.free.set()
        assert await asyncio.gather(*tasks) == [YES] * 3
        assert await (await started(node)) == YES
        assert fleet.count == 1
        cast("Opened", fleet.outcome).is_open = False
        fleet.outcome = AsyncOpened(A)
        await (await started(node))
        assert fleet.count == 2

    asyncio.run(story())


def test_a_connection_that_opens_too_late_serves_the_next_task() -> None:
    async def story() -> None:
        fleet = Slow()
        node = node_of(fleet)
        with pytest.raises(Failure, match="no connection within the budget") as failure:
            await (await started(node, wait_s=0.2))
        assert failure.value.cause is Cause.NO_CONNECTION
        fleet.free.set()
        assert await (await started(node)) == YES
        assert fleet.count == 1

    asyncio.run(story())


def test_a_connection_that_cannot_be_opened_fails_all_tasks_and_is_tried_again() -> None:
    async def story() -> None:
        fleet = Slow(Failure(Cause.AUTH, "WRONGPASS"))
        node = node_of(fleet)
        tasks = [await started(node) for _ in range(2)]
        fleet.free.set()
        failures = await asyncio.gather(*tasks, return_exceptions=True)
        assert [cast("Failure", failure).cause for failure in failures] == [Cause.AUTH] * 2
        assert failures[0] is not failures[1]
        fleet.outcome = AsyncOpened(A)
        assert await (await started(node)) == YES

    asyncio.run(story())


def test_closing_a_node_ends_what_waits_for_its_connection() -> None:
    async def story() -> None:
        node = node_of(Slow())
        task = await started(node)
        node.close()
        with pytest.raises(Failure) as failure:
            await task
        assert failure.value.cause in {Cause.NO_CONNECTION, Cause.SATURATED}
        with pytest.raises(Failure, match="the limiter is closed"):
            await (await started(node))

    asyncio.run(story())


def test_hanging_up_closes_the_connection_and_the_next_call_opens_another() -> None:
    async def story() -> None:
        fleet = Slow()
        fleet.free.set()
        node = node_of(fleet)
        node.disconnect()
        await (await started(node))
        node.disconnect()
        assert not cast("Opened", fleet.outcome).is_open
        fleet.outcome = AsyncOpened(A)
        assert await (await started(node)) == YES

    asyncio.run(story())
