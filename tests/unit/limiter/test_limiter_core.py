"""Limiter, pool, finder and breakers with collaborators that touch no network."""

import ast
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rlctl.limiter
from rlctl.errors import UsageFault
from rlctl.limiter import (
    AsyncLimiter,
    Cause,
    Concurrent,
    FixedWindow,
    InvalidLimit,
    Limiter,
    LocalPolicy,
    Policy,
    Reason,
    Source,
)
from rlctl.limiter.core.breaker import BreakerSettings
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.deciding import Core
from rlctl.limiter.core.node_breakers import NodeBreakers
from rlctl.limiter.core.options import Options
from rlctl.limiter.threads.connection import Connection
from rlctl.limiter.threads.finder import Finder
from rlctl.limiter.threads.pool import Pool
from rlctl.limits.failures import Failure, before_asking
from rlctl.scripts.release import load_release
from tests.conftest import RunAsync

RELEASE = load_release()
RULE = FixedWindow(10, 1000)
LATER_S = 30.0


class ManualClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 10.0

    def __call__(self) -> float:
        return self.now_s


class FakeBackend:
    """Gives prepared answers, and records its calls."""

    def __init__(self, *outcomes: object) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[bytes] = []

    def execute(self, message: bytes, _tag: bytes, _sha1: str) -> object:
        self.asked.append(message)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def retry_in_ms(self, _tag: bytes, _sha1: str) -> int:
        return 0

    def close(self) -> None:
        self.outcomes.clear()


class FakeAsyncBackend(FakeBackend):
    async def execute(self, message: bytes, tag: bytes, sha1: str) -> object:  # type: ignore[override]
        return super().execute(message, tag, sha1)

    async def close(self) -> None:  # type: ignore[override]
        super().close()


def limiter(*outcomes: object, policy: str | Policy = "open") -> Limiter:
    return Limiter(Core(RELEASE, policy, Counters()), FakeBackend(*outcomes))  # type: ignore[arg-type]


TIMEOUT = Failure(Cause.TIMEOUT, "here:1: no reply in time")
YES, NO = [1, 10, 9, 0, 1000, 0], [0, 10, 0, 500, 500, 1]


def test_replies_become_decisions_and_are_counted() -> None:
    subject = limiter(YES, NO)
    first, second = subject.decide(RULE, "u", rule_id="api"), subject.decide(RULE, "u", peek=True)
    assert (first.allowed, first.remaining, first.quota.name, first.source) == (True, 9, "api", Source.REDIS)
    assert (second.allowed, second.retry_after_ms, second.reason) == (False, 500, Reason.OVER_LIMIT)
    assert subject.stats.decisions == {(Source.REDIS, Reason.OK): 1, (Source.REDIS, Reason.OVER_LIMIT): 1}


def test_failures_become_the_policys_decisions() -> None:
    subject = limiter(TIMEOUT, TIMEOUT, Failure(Cause.BREAKER_OPEN, "here:1"), policy="closed")
    denied = subject.decide(RULE, "u")
    admitted = subject.decide(RULE, "u", policy="open")
    assert (denied.allowed, denied.source, denied.cause) == (False, Source.CLOSED, Cause.TIMEOUT)
    assert (admitted.allowed, admitted.source) == (True, Source.OPEN)
    assert subject.decide(RULE, "u").reason is Reason.BREAKER_OPEN
    stats = subject.stats
    assert stats.errors == {Cause.TIMEOUT: 2}
    assert stats.by_source() == {Source.CLOSED: 2, Source.OPEN: 1}
    assert stats.to_json()["last_errors"] == {"timeout": "here:1: no reply in time"}


@pytest.mark.parametrize("reply", [[1, 2, 3], [1, 10, 9, 0, 0, 77], [b"1"] * 6, []])
def test_a_strange_reply_is_a_failure(reply: list[Any]) -> None:
    decision = limiter(reply).decide(RULE, "u")
    assert (decision.source, decision.cause) == (Source.OPEN, Cause.ERROR)


def test_a_named_local_policy_remembers() -> None:
    subject = limiter(*[TIMEOUT] * 4)
    rule = FixedWindow(2, 60_000)
    assert [subject.decide(rule, "u", policy="local").allowed for _ in range(3)] == [True, True, False]


def test_a_lease_is_given_back_where_it_was_taken() -> None:
    rule = Concurrent(1, 60_000)
    subject = limiter(TIMEOUT, YES, TIMEOUT, policy=LocalPolicy())
    with subject.hold(rule, "u") as held:
        assert held.source is Source.LOCAL
    assert subject.acquire(rule, "u", "next").allowed


def test_a_lease_that_was_not_given_is_not_given_back() -> None:
    subject = limiter(NO)
    with subject.hold(Concurrent(1, 1000), "u") as held:
        assert not held.allowed


def test_leases_and_costs_are_not_mixed_up() -> None:
    subject = limiter()
    with pytest.raises(InvalidLimit):
        subject.decide(Concurrent(1, 1), "u")  # type: ignore[arg-type]
    with pytest.raises(InvalidLimit):
        subject.acquire(RULE, "u", "r")  # type: ignore[arg-type]


def test_the_asyncio_limiter_decides_alike(run_async: RunAsync) -> None:
    rule = Concurrent(1, 1000)

    async def story() -> None:
        backend = FakeAsyncBackend(YES, TIMEOUT, YES, YES, YES, YES)
        async with AsyncLimiter(Core(RELEASE, "open", Counters()), backend) as subject:  # type: ignore[arg-type]
            assert (await subject.decide(RULE, "u")).source is Source.REDIS
            assert (await subject.decide(RULE, "u")).source is Source.OPEN
            async with subject.hold(rule, "u") as held:
                assert held.allowed
            assert (await subject.renew(rule, "u", "r")).allowed
            assert (await subject.peek(rule, "u")).remaining == 9
            assert subject.stats.by_source() == {Source.REDIS: 5, Source.OPEN: 1}

    run_async(story())


def test_old_rules_are_not_kept_for_ever() -> None:
    core = Core(RELEASE, "open", Counters())
    for limit in range(5000):
        core.costed(FixedWindow(limit, 1000), "api")
    assert len(core._costed) <= 4096


@pytest.mark.parametrize(
    "changes", [{"budget_ms": 1.9}, {"connections": 0}, {"connect_timeout_ms": 0}, {"refresh_ms": 0}]
)
def test_options_that_cannot_be_kept(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageFault):
        Options(**changes)


@pytest.mark.parametrize(("budget_ms", "exchange_s"), [(5.0, 0.004), (2, 0.001), (20.5, 0.019)])
def test_the_exchange_leaves_time_for_us(budget_ms: float, exchange_s: float) -> None:
    assert Options(budget_ms=budget_ms).exchange_s == exchange_s


class FakeLink:
    def __init__(self, *, stale: bool = False) -> None:
        self.used_at_s = time.monotonic()
        self.stale = stale
        self.closed = False

    def is_stale(self) -> bool:
        return self.stale

    def close(self) -> None:
        self.closed = True


def pool(opener: Callable[[], Any], limit: int = 4) -> Pool:
    return Pool("here:1", opener, limit=limit)


def take(subject: Pool, patience_s: float = LATER_S) -> Connection:
    now_s = time.monotonic()
    return subject.take(now_s, now_s + patience_s)


def test_a_pool_opens_once_and_gives_again() -> None:
    subject = pool(FakeLink)
    first = take(subject)
    subject.give(first, time.monotonic())
    assert take(subject) is first


def test_a_connection_that_came_back_before_a_thread_stands_in_line_is_its_own() -> None:
    subject = pool(FakeLink, limit=1)
    first = take(subject)
    subject.give(first, time.monotonic())
    now_s = time.monotonic()
    assert subject._wait(now_s, now_s + 0.05) is first


def test_a_failure_to_open_reaches_who_waits_at_once() -> None:
    def refuse() -> Connection:
        raise Failure(Cause.UNREACHABLE, "refused")

    with pytest.raises(Failure) as failure:
        take(pool(refuse))
    assert failure.value.cause is Cause.UNREACHABLE


def test_what_opens_too_late_serves_the_next() -> None:
    gate = threading.Event()

    def slow() -> FakeLink:
        gate.wait(LATER_S)
        return FakeLink()

    subject = pool(slow)
    with pytest.raises(Failure) as failure:
        take(subject, 0.001)
    assert failure.value.cause is Cause.NO_CONNECTION
    gate.set()
    assert isinstance(take(subject), FakeLink)


def test_a_pool_never_opens_more_than_its_limit_and_hands_over() -> None:
    opened: list[FakeLink] = []

    def opener() -> FakeLink:
        opened.append(FakeLink())
        return opened[-1]

    subject = pool(opener, limit=2)
    first, second = take(subject), take(subject)
    with pytest.raises(Failure):
        take(subject, 0.001)
    found: list[Any] = []
    waiter = threading.Thread(target=lambda: found.append(take(subject)))
    waiter.start()
    subject.give(first, time.monotonic())
    waiter.join(LATER_S)
    assert found == [first]
    subject.drop(second)
    assert second.closed
    assert take(subject) is opened[2]


def test_a_stale_connection_is_replaced() -> None:
    stale, fresh = FakeLink(stale=True), FakeLink()
    links = [stale, fresh]
    subject = pool(lambda: links.pop(0), limit=1)  # type: ignore[arg-type,return-value]
    first = take(subject)
    subject.give(first, time.monotonic() - 60)
    assert take(subject) is fresh
    assert stale.closed


def test_a_connection_that_was_idle_and_still_answers_is_kept() -> None:
    links = [FakeLink(), FakeLink()]
    subject = pool(lambda: links.pop(0), limit=1)  # type: ignore[arg-type,return-value]
    first = take(subject)
    subject.give(first, time.monotonic() - 60)
    assert take(subject) is first


def test_a_connection_that_was_just_used_is_not_looked_at() -> None:
    subject = pool(lambda: FakeLink(stale=True), limit=1)
    first = take(subject)
    subject.give(first, time.monotonic())
    assert take(subject) is first


class Gate:
    """Openers that wait until the test lets them continue."""

    def __init__(self) -> None:
        self.opened: list[FakeLink] = []
        self.begun = threading.Semaphore(0)
        self.free = threading.Event()

    def __call__(self) -> FakeLink:
        self.begun.release()
        assert self.free.wait(LATER_S)
        self.opened.append(FakeLink())
        return self.opened[-1]

    def begins(self, count: int) -> None:
        for _ in range(count):
            assert self.begun.acquire(timeout=LATER_S)


def wait_until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LATER_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.001)


def test_who_warms_a_pool_waits_for_its_first_connection() -> None:
    gate = Gate()
    subject = pool(gate)
    subject.warm(1)
    before_s = time.monotonic()
    subject.wait_until_warm(before_s + 0.05)
    assert time.monotonic() - before_s >= 0.05
    threading.Timer(0.05, gate.free.set).start()
    subject.wait_until_warm(time.monotonic() + LATER_S)
    assert list(subject._idle) == gate.opened
    assert len(gate.opened) == 1
    subject.wait_until_warm(time.monotonic() - 1)


def test_who_warms_a_pool_that_cannot_open_does_not_wait() -> None:
    def refuse() -> Connection:
        raise Failure(Cause.UNREACHABLE, "refused")

    subject = pool(refuse)
    subject.warm(1)
    subject.wait_until_warm(time.monotonic() + LATER_S)
    assert (subject._opening, subject._open, len(subject._idle)) == (0, 0, 0)


@pytest.mark.parametrize(("limit", "wanted", "count"), [(20, 20, 8), (3, 20, 3), (20, 2, 2), (20, 0, 0)])
def test_connections_that_are_opened_at_once(limit: int, wanted: int, count: int) -> None:
    gate = Gate()
    subject = pool(gate, limit=limit)
    for _ in range(2):
        subject.warm(wanted)
    gate.begins(count)
    assert subject._opening == count
    assert not gate.begun.acquire(blocking=False)
    gate.free.set()
    wait_until(lambda: len(subject._idle) == count)
    assert (subject._opening, subject._open) == (0, count)


def test_the_last_idle_connection_is_not_taken_without_opening_another() -> None:
    gate = Gate()
    gate.free.set()
    subject = pool(gate)
    first = take(subject)
    now_s = time.monotonic()

    def give_and_take(at_s: float) -> None:
        subject.give(first, at_s)
        assert subject.take(at_s, at_s + LATER_S) is first

    give_and_take(now_s)
    wait_until(lambda: len(subject._idle) == 1)
    assert [first, *subject._idle] == gate.opened
    subject._idle.clear()
    give_and_take(now_s + 0.09)
    assert (subject._opening, len(subject._idle)) == (0, 0), "not again within a tenth of a second"
    give_and_take(now_s + 0.11)
    wait_until(lambda: len(subject._idle) == 1)


def test_a_connection_that_opens_after_the_pool_was_closed_is_closed() -> None:
    gate = Gate()
    subject = pool(gate)
    subject.warm(1)
    gate.begins(1)
    subject.close()
    gate.free.set()
    wait_until(lambda: bool(gate.opened) and gate.opened[0].closed)
    assert subject._open == 0


def test_closing_a_pool_ends_what_waits_for_it() -> None:
    gate = Gate()
    subject = pool(gate)
    found: list[str] = []

    def wait() -> None:
        with pytest.raises(Failure) as failure:
            take(subject)
        found.append(failure.value.evidence)

    waiter = threading.Thread(target=wait)
    waiter.start()
    wait_until(lambda: bool(subject._line))
    subject.close()
    waiter.join(LATER_S)
    gate.free.set()
    assert found == ["here:1: the limiter is closed"]


def test_a_thread_that_cannot_be_started_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    subject = pool(FakeLink)
    with pytest.raises(Failure, match="internal: RuntimeError"):
        take(subject)
    assert subject._opening == 0


def test_a_fork_shares_no_connection_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = pool(FakeLink)
    first = take(subject)
    subject.give(first, time.monotonic())
    monkeypatch.setattr("rlctl.limiter.threads.pool.os.getpid", lambda: -1)
    assert take(subject) is not first


def test_a_closed_pool_keeps_nothing() -> None:
    subject = pool(FakeLink)
    link = take(subject)
    subject.close()
    subject.give(link, time.monotonic())
    assert link.closed
    with pytest.raises(Failure):
        take(subject)


def test_a_finder_runs_once_at_a_time_and_not_too_often() -> None:
    gate, runs = threading.Event(), []

    def find() -> None:
        runs.append(1)
        gate.wait(LATER_S)

    finder = Finder(find, least_s=1000.0)
    finder.request()
    finder.request()
    finder.wait(0.001)
    gate.set()
    finder.wait(LATER_S)
    finder.request()
    assert len(runs) == 1


def breakers(clock: ManualClock) -> tuple[NodeBreakers, Counters]:
    counters = Counters(clock)
    return NodeBreakers("here:1", BreakerSettings(failures=2, jitter=0), counters, clock), counters


def test_a_missing_script_does_not_keep_the_others_back() -> None:
    clock = ManualClock()
    subject, counters = breakers(clock)
    subject.failed(Failure(Cause.NO_SCRIPT, "here:1"), "aa")
    subject.admit("bb")
    with pytest.raises(Failure) as failure:
        subject.admit("aa")
    assert failure.value.cause is Cause.BREAKER_OPEN
    assert subject.retry_in_ms("aa") == 100
    clock.now_s += 0.2
    subject.admit("aa")
    subject.answered("aa")
    subject.admit("aa")
    assert counters.snapshot().fallback_s == pytest.approx(0.2)


def test_a_good_answer_forgets_the_failures_before_it() -> None:
    clock = ManualClock()
    subject, counters = breakers(clock)
    late = Failure(Cause.TIMEOUT, "here:1: late")
    for _ in range(4):
        subject.admit("aa")
        subject.failed(late, "aa")
        subject.admit("aa")
        subject.answered("aa")
    for _ in range(2):
        subject.admit("aa")
        subject.failed(late, "aa")
    with pytest.raises(Failure):
        subject.admit("aa")
    clock.now_s += 10
    subject.admit("aa")
    subject.answered("aa")
    for _ in range(3):
        subject.admit("aa")
    assert (counters.snapshot().breakers_opened, counters.snapshot().fallback_s) == (1, 10)


def test_a_broken_script_does_not_keep_the_others_back() -> None:
    subject, _counters = breakers(ManualClock())
    for _ in range(2):
        subject.admit("aa")
        subject.failed(Failure(Cause.ERROR, "here:1: ERR user_script:8"), "aa")
    with pytest.raises(Failure):
        subject.admit("aa")
    subject.admit("bb")


@pytest.mark.parametrize("cause", [Cause.TIMEOUT, Cause.CLOSED, Cause.ERROR, Cause.AUTH, Cause.TLS])
def test_before_anything_was_sent_nothing_is_uncertain(cause: Cause) -> None:
    failure = before_asking(Failure(cause, "here:1"))
    assert not failure.cause.is_indeterminate
    assert (failure.cause is cause) is (cause in {Cause.AUTH, Cause.TLS})


def test_time_in_fallback_is_counted_while_any_breaker_is_open() -> None:
    clock = ManualClock()
    subject, counters = breakers(clock)
    for _ in range(2):
        subject.admit("aa")
        subject.failed(TIMEOUT, "aa")
    clock.now_s += 3
    assert counters.snapshot().fallback_s == 3
    subject.retire()
    clock.now_s += 5
    stats = counters.snapshot()
    assert (stats.fallback_s, stats.breakers_opened) == (3, 1)


def test_a_probe_for_a_missing_script_does_not_use_up_the_nodes() -> None:
    clock = ManualClock()
    subject, _counters = breakers(clock)
    subject.failed(Failure(Cause.NO_SCRIPT, "here:1"), "aa")
    for _ in range(2):
        subject.failed(TIMEOUT, "bb")
    clock.now_s += 0.15
    subject.failed(Failure(Cause.NO_SCRIPT, "here:1"), "aa")
    subject.abandoned("aa")
    clock.now_s += 5
    subject.admit("bb")


def test_the_library_imports_nothing_heavy() -> None:
    heavy = {"click", "rich", "psutil", "cryptography", "docker", "redis", "yaml"}
    for module in Path(rlctl.limiter.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not {name.split(".")[0] for name in names} & heavy, module.name


def test_a_concurrent_limit_has_no_cost_and_others_have_no_leases() -> None:
    core = Core(RELEASE, "open", Counters())
    with pytest.raises(InvalidLimit, match="a concurrent limit needs `acquire`, not `decide`"):
        core.costed(Concurrent(5, 1000), "r")  # type: ignore[arg-type]
    with pytest.raises(InvalidLimit, match="fixed_window has no leases: call `decide`"):
        core.concurrent(RULE, "r")  # type: ignore[arg-type]


def test_without_a_release_the_shipped_one_is_used() -> None:
    core = Core(None, "open", Counters())
    assert core.release == load_release()
    older = load_release(wanted="1.0.0")
    assert Core(older, "open", Counters()).release is older
