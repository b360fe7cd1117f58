"""Defects of the library itself: counted as such, logged once with their traceback, and answered by the policy."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rlctl.limiter import AsyncLimiter, Cause, Decision, FixedWindow, Limiter, Source
from rlctl.limiter.aio.backend import AsyncBackend
from rlctl.limiter.aio.connection import AsyncConnection
from rlctl.limiter.aio.watch import AsyncRuleWatch
from rlctl.limiter.core import internal as module
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.deciding import Core
from rlctl.limiter.core.internal import internal
from rlctl.limiter.core.node_breakers import NodeBreakers
from rlctl.limiter.core.options import Options
from rlctl.limiter.core.rulebook import RuleBook
from rlctl.limiter.core.settings import Endpoint, read_settings
from rlctl.limiter.threads.backend import Backend
from rlctl.limiter.threads.pool import Pool
from rlctl.limiter.threads.watch import RuleWatch
from rlctl.limits.failures import Failure
from rlctl.scripts.release import load_release
from tests.conftest import RunAsync

PATIENCE_S = 60.0
HERE = Endpoint("here.example", 1)
RULE = FixedWindow(10, 60_000)
SINGLE = read_settings({"kind": "single", "host": "here.example", "port": 1})
CLUSTER = read_settings({"kind": "cluster", "nodes": ["here.example:1"]})
OPTIONS = Options(budget_ms=PATIENCE_S * 1000, connect_timeout_ms=PATIENCE_S * 1000, refresh_ms=1)


def defect(*_words: object, **_more: object) -> Any:
    raise ZeroDivisionError("secret")


async def async_defect(*_words: object) -> Any:
    defect()


@pytest.fixture(autouse=True)
def _nothing_logged_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_logged", set())


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What was logged about internal errors so far."""
    found: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = found.append  # type: ignore[method-assign]
    logging.getLogger("rlctl.internal").addHandler(handler)
    yield found
    logging.getLogger("rlctl.internal").removeHandler(handler)


def test_each_kind_is_logged_once_with_its_traceback(logged: list[logging.LogRecord]) -> None:
    def raised(cause: Callable[[], object]) -> Failure:
        try:
            cause()
        except Exception as error:  # noqa: BLE001  any
            return internal(error)
        raise AssertionError

    failures = [raised(defect), raised(defect), raised(lambda: int("x"))]
    assert {failure.cause for failure in failures} == {Cause.INTERNAL}
    assert failures[0].evidence.startswith("ZeroDivisionError at test_limiter_internal.py:")
    assert [record.levelno for record in logged] == [logging.ERROR, logging.ERROR]
    assert all(record.exc_info is not None for record in logged)
    assert internal(ValueError()).evidence == "ValueError at unknown place"


def test_an_internal_error_reaches_stderr_where_logging_is_not_configured() -> None:
    logger: logging.Logger | None = logging.getLogger("rlctl.internal")
    while logger is not None and logger.name != "root":
        assert not logger.handlers
        logger = logger.parent


class Wire(asyncio.Transport):
    """Answers every write."""

    def __init__(self) -> None:
        super().__init__()
        self.link: AsyncConnection | None = None
        self.is_aborted = False

    def write(self, _data: Any) -> None:
        assert self.link is not None
        asyncio.get_running_loop().call_soon(self.link.data_received, b":1\r\n")

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize("where", ["_hand_out", "_send", "_take_apart"])
def test_a_defect_in_a_callback_fails_the_calls_under_way(
    where: str, monkeypatch: pytest.MonkeyPatch, run_async: RunAsync
) -> None:
    async def story() -> None:
        link, wire = AsyncConnection(HERE), Wire()
        wire.link = link
        link.connection_made(wire)
        if where == "_send":
            monkeypatch.setattr(wire, "write", defect)
        else:
            monkeypatch.setattr(link, where, defect)
        deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
        for _ in range(2):
            with pytest.raises(Failure) as failure:
                await link.exchange(b"PING", deadline_s)
            assert failure.value.cause is Cause.INTERNAL
        assert wire.is_aborted

    run_async(story())


def test_a_defect_while_connecting_is_no_unreachable_server(
    monkeypatch: pytest.MonkeyPatch, run_async: RunAsync, logged: list[logging.LogRecord]
) -> None:
    monkeypatch.setattr("rlctl.limiter.aio.connection.cast", defect)

    async def story() -> Decision:
        async def create_connection(factory: Callable[[], AsyncConnection], *_where: object, **_how: object) -> None:
            factory().connection_made(Wire())

        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create_connection)
        counters = Counters()
        core = Core(load_release(), "closed", counters)
        async with AsyncLimiter(core, AsyncBackend(SINGLE, OPTIONS, counters)) as subject:
            decisions = [await subject.decide(RULE, "u") for _ in range(20)]
            assert {decision.cause for decision in decisions} == {Cause.INTERNAL}
            assert (subject.stats.errors, subject.stats.breakers_opened) == ({Cause.INTERNAL: 20}, 0)
            return decisions[0]

    decision: Decision = run_async(story())
    assert (decision.allowed, decision.source) == (False, Source.CLOSED)
    assert len(logged) == 1


def test_a_defect_in_a_decision_is_answered_by_the_policy(monkeypatch: pytest.MonkeyPatch, run_async: RunAsync) -> None:
    monkeypatch.setattr(Backend, "_ask_node", defect)
    monkeypatch.setattr(AsyncBackend, "_ask_node", async_defect)
    counters = Counters()
    with Limiter(Core(load_release(), "open", counters), Backend(SINGLE, OPTIONS, counters)) as subject:
        assert subject.decide(RULE, "u").cause is Cause.INTERNAL

    async def story() -> None:
        core = Core(load_release(), "open", counters)
        async with AsyncLimiter(core, AsyncBackend(SINGLE, OPTIONS, counters)) as subject:
            assert (await subject.decide(RULE, "u")).cause is Cause.INTERNAL

    run_async(story())
    assert counters.snapshot().errors == {Cause.INTERNAL: 2}


def test_a_defect_while_a_connection_is_opened(monkeypatch: pytest.MonkeyPatch, run_async: RunAsync) -> None:
    with pytest.raises(Failure) as failure:
        Pool("here:1", defect, limit=1).take(0.0, time.monotonic() + PATIENCE_S)
    assert failure.value.cause is Cause.INTERNAL
    monkeypatch.setattr(AsyncBackend, "open_connection", async_defect)

    async def story() -> None:
        backend = AsyncBackend(SINGLE, OPTIONS, Counters())
        with pytest.raises(Failure) as failure:
            await backend.execute(b"call", b"u", "aa")
        assert failure.value.cause is Cause.INTERNAL

    run_async(story())


def test_a_defect_in_a_look_up(monkeypatch: pytest.MonkeyPatch, run_async: RunAsync) -> None:
    monkeypatch.setattr("rlctl.limiter.threads.backend.look_up", defect)
    monkeypatch.setattr("rlctl.limiter.aio.backend.look_up", defect)
    counters = Counters()
    with pytest.raises(Failure) as failure:
        Backend(CLUSTER, OPTIONS, counters).execute(b"call", b"u", "aa")
    assert failure.value.cause is Cause.INTERNAL

    async def story() -> None:
        with pytest.raises(Failure) as failure:
            await AsyncBackend(CLUSTER, OPTIONS, counters).execute(b"call", b"u", "aa")
        assert failure.value.cause is Cause.INTERNAL

    run_async(story())
    assert counters.snapshot().errors == {Cause.INTERNAL: 2}


class Keeper:
    """A backend whose rules cannot be read because of a defect."""

    rules_node = staticmethod(defect)

    def __init__(self) -> None:
        self.searches = 0

    def refresh_routes(self) -> None:
        self.searches += 1


def test_a_defect_does_not_end_the_watch(monkeypatch: pytest.MonkeyPatch, run_async: RunAsync) -> None:
    monkeypatch.setattr("rlctl.limiter.threads.watch.RETRY_S", 0.001)
    monkeypatch.setattr("rlctl.limiter.aio.watch.RETRY_S", 0.001)
    counters, keeper = Counters(), Keeper()
    watch = RuleWatch(RuleBook(counters), keeper, 1.0)  # type: ignore[arg-type]
    watch.start(0)
    deadline_s = time.monotonic() + PATIENCE_S
    while keeper.searches < 2 and time.monotonic() < deadline_s:
        threading.Event().wait(0.001)
    watch.close()
    assert keeper.searches >= 2
    assert counters.snapshot().errors[Cause.INTERNAL] >= 2

    async def story() -> None:
        keeper = Keeper()
        watch = AsyncRuleWatch(RuleBook(Counters()), keeper, 1.0)  # type: ignore[arg-type]
        await watch.start(0)
        async with asyncio.timeout(PATIENCE_S):
            while keeper.searches < 2:  # noqa: ASYNC110  the watch tells no event
                await asyncio.sleep(0.001)
        await watch.close()

    run_async(story())


def refuses(self: threading.Thread) -> None:
    raise RuntimeError(f"can't start new thread {self.name}")


def test_a_process_without_threads_left_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the pool nor the look-up waits for a thread that never started."""
    counters = Counters()
    backend = Backend(CLUSTER, OPTIONS, counters)
    pool = Pool("here:1", Linked, limit=1)  # type: ignore[arg-type,return-value]
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuses)
        for ask in (
            lambda: backend.execute(b"call", b"u", "aa"),
            lambda: pool.take(0.0, time.monotonic() + PATIENCE_S),
        ):
            with pytest.raises(Failure):
                ask()
    assert counters.snapshot().errors[Cause.INTERNAL] >= 1
    assert isinstance(pool.take(0.0, time.monotonic() + PATIENCE_S), Linked)
    found = threading.Event()
    monkeypatch.setattr(backend._finder, "_find", found.set)
    backend.refresh_routes()
    assert found.wait(PATIENCE_S)


class Linked:
    """A connection that is never used."""


def test_no_node_is_blamed() -> None:
    breakers = NodeBreakers("here:1", OPTIONS.breaker, Counters())
    for _ in range(100):
        breakers.failed(Failure(Cause.INTERNAL, "x"), "aa")
        breakers.failed(Failure(Cause.SATURATED, "x"), "aa")
    breakers.admit("aa")
