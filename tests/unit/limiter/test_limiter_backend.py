"""Calls, redirections and time-outs over simulated connections, the same for threads and asyncio."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import uvloop

from rlctl.errors import RlctlError
from rlctl.limiter import BrokenState, Cause
from rlctl.limiter.aio.backend import AsyncBackend
from rlctl.limiter.core.breaker import BreakerSettings
from rlctl.limiter.core.commands import Command
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.lookup import NodeQuery, NodeReplies
from rlctl.limiter.core.options import Options
from rlctl.limiter.core.routes import slot_of
from rlctl.limiter.core.settings import Endpoint, read_settings
from rlctl.limiter.threads.backend import Backend
from rlctl.limiter.threads.connection import Connection
from rlctl.limiter.threads.pool import Pool
from rlctl.limits.failures import ErrorReply, Failure
from rlctl.limits.resp import ASKING
from tests.conftest import RunAsync

A, B = Endpoint("10.0.0.1", 7000), Endpoint("10.0.0.1", 7001)
TAG, SHA1 = b"foo", "aa"
SLOT = slot_of(TAG)
YES = [1, 10, 9, 0, 1000, 0]
CLUSTER = {"kind": "cluster", "nodes": ["10.0.0.1:7000"]}
SENTINEL = {"kind": "sentinel", "sentinels": ["10.0.0.1:8000"], "master_name": "limiter"}
MOVED, ASK = (ErrorReply(f"{word} {SLOT} 10.0.0.1:7001") for word in ("MOVED", "ASK"))
OPTIONS = Options(
    budget_ms=30_000, refresh_ms=1, breaker=BreakerSettings(failures=2, backoff_ms=30_000, max_backoff_ms=30_000)
)


class Play:
    """The replies of each server, in order; the last one repeats."""

    def __init__(self, owner: Endpoint, **answers: list[Any]) -> None:
        self.owner = owner
        self.answers = {Endpoint("10.0.0.1", int(port[1:])): given for port, given in answers.items()}
        self.asked: list[tuple[Endpoint, bytes]] = []

    def reply(self, endpoint: Endpoint, message: bytes) -> Any:
        self.asked.append((endpoint, message))
        answers = self.answers.get(endpoint, [Failure(Cause.UNREACHABLE, "refused")])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def look_up(self, question: NodeQuery) -> NodeReplies:
        where = [self.owner.host.encode(), str(self.owner.port).encode()]
        if question.to_sentinel:
            return [where, [b"config-epoch", b"1"]]
        if len(question.commands) == 1:
            return [[b"role", b"master"]]
        return [b"cluster_state:ok", [[0, 16383, *([where[0], port, b"id"] for port in (self.owner.port, 7000, 7001))]]]


def outcome_of(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Failure as failure:
        return failure


class PlayedLink:
    is_primary = True
    is_open = True
    used_at_s = 0.0

    def __init__(self, play: Play, endpoint: Endpoint) -> None:
        self.play = play
        self.endpoint = endpoint

    def exchange(self, message: bytes, _deadline_s: float, _replies: int = 1) -> Any:
        return self.play.reply(self.endpoint, message)

    def send(self, message: bytes, _deadline_s: float) -> None:
        self.sent = message

    def replies(self, count: int, _deadline_s: float) -> list[Any]:
        """Each command of a packet is one word here."""
        words = self.sent.split(b" ")[:count]
        return [outcome_of(lambda word=word: self.play.reply(self.endpoint, word)) for word in words]

    def is_stale(self) -> bool:
        return False

    def close(self) -> None:
        self.is_open = False


class PlayedAsyncLink(PlayedLink):
    async def exchange(self, message: bytes, _deadline_s: float, _replies: int = 1) -> Any:
        return self.play.reply(self.endpoint, message)


class PlayedBackend(Backend):
    play: Play

    def open_connection(self, endpoint: Endpoint) -> Connection:
        return PlayedLink(self.play, endpoint)  # type: ignore[return-value]

    def _query(self, question: NodeQuery) -> NodeReplies:
        return self.play.look_up(question)


class PlayedAsyncBackend(AsyncBackend):
    play: Play

    async def open_connection(self, endpoint: Endpoint) -> Any:
        return PlayedAsyncLink(self.play, endpoint)

    async def _query(self, question: NodeQuery) -> NodeReplies:
        return self.play.look_up(question)


CommandResult = list[int] | RlctlError | Failure
Run = Callable[[dict[str, Any], Play, int], tuple[list[CommandResult], Counters]]


# Between two calls: longer than `refresh_ms`, within which a look-up is not repeated.
PAUSE_S = 0.005


def with_threads(settings: dict[str, Any], play: Play, times: int) -> tuple[list[CommandResult], Counters]:
    counters = Counters()
    backend = PlayedBackend(read_settings(settings), OPTIONS, counters)
    backend.play = play
    backend.warm(1)
    outcomes: list[CommandResult] = []
    for _ in range(times):
        time.sleep(PAUSE_S)
        try:
            outcomes.append(backend.execute(b"call", TAG, SHA1))
        except (Failure, RlctlError) as failure:
            outcomes.append(failure)
    backend.close()
    return outcomes, counters


def with_asyncio(
    settings: dict[str, Any], play: Play, times: int, run_async: RunAsync = asyncio.run
) -> tuple[list[CommandResult], Counters]:
    async def story() -> tuple[list[CommandResult], Counters]:
        counters = Counters()
        backend = PlayedAsyncBackend(read_settings(settings), OPTIONS, counters)
        backend.play = play
        await backend.warm()
        outcomes: list[CommandResult] = []
        for _ in range(times):
            await asyncio.sleep(PAUSE_S)
            try:
                outcomes.append(await backend.execute(b"call", TAG, SHA1))
            except (Failure, RlctlError) as failure:
                outcomes.append(failure)
        await backend.close()
        return outcomes, counters

    outcome: tuple[list[CommandResult], Counters] = run_async(story())
    return outcome


with_uvloop = partial(with_asyncio, run_async=uvloop.run)


@pytest.fixture(params=[with_threads, with_asyncio, with_uvloop], ids=["threads", "asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    chosen: Run = request.param
    return chosen


def causes(outcomes: list[CommandResult]) -> list[Cause | None]:
    return [outcome.cause if isinstance(outcome, Failure) else None for outcome in outcomes]


def test_the_owner_is_asked(run: Run) -> None:
    play = Play(A, _7000=[YES])
    assert run(CLUSTER, play, 2)[0] == [YES, YES]
    assert play.asked == [(A, b"call")] * 2


def test_moved_is_followed_once_and_the_map_is_asked_for_again(run: Run) -> None:
    play = Play(A, _7000=[MOVED], _7001=[YES])
    outcomes, counters = run(CLUSTER, play, 1)
    assert outcomes == [YES]
    assert [endpoint for endpoint, _message in play.asked] == [A, B]
    stats = counters.snapshot()
    assert (stats.errors, stats.lookups) == ({Cause.MOVED: 1}, 2)


def test_ask_is_followed_with_asking_and_not_believed(run: Run) -> None:
    play = Play(A, _7000=[ASK], _7001=[YES])
    assert run(CLUSTER, play, 2)[0] == [YES, YES]
    assert play.asked == [(A, b"call"), (B, ASKING + b"call")] * 2


def test_a_second_redirection_is_one_too_many(run: Run) -> None:
    outcomes, _counters = run(CLUSTER, Play(A, _7000=[MOVED], _7001=[ASK]), 1)
    assert causes(outcomes) == [Cause.MOVED]


def test_failures_are_the_nodes_that_failed(run: Run) -> None:
    play = Play(A, _7000=[ASK])
    outcomes, counters = run(CLUSTER, play, 4)
    assert causes(outcomes) == [Cause.UNREACHABLE, Cause.UNREACHABLE, Cause.BREAKER_OPEN, Cause.BREAKER_OPEN]
    assert [endpoint for endpoint, _message in play.asked].count(A) == 4
    assert counters.snapshot().breakers_opened == 1


def test_timeouts_open_the_breaker(run: Run) -> None:
    play = Play(A, _7000=[Failure(Cause.TIMEOUT, "late")])
    outcomes, _counters = run(CLUSTER, play, 3)
    assert causes(outcomes) == [Cause.TIMEOUT, Cause.TIMEOUT, Cause.BREAKER_OPEN]


def test_a_missing_script_is_not_asked_for_again_at_once(run: Run) -> None:
    play = Play(A, _7000=[ErrorReply("NOSCRIPT No matching script")])
    outcomes, _counters = run(CLUSTER, play, 2)
    assert causes(outcomes) == [Cause.NO_SCRIPT, Cause.BREAKER_OPEN]
    assert len(play.asked) == 1


def test_a_script_that_breaks_is_not_asked_for_ever(run: Run) -> None:
    play = Play(A, _7000=[ErrorReply("ERR user_script:8: bad argument")])
    outcomes, counters = run(CLUSTER, play, 3)
    assert causes(outcomes) == [Cause.ERROR, Cause.ERROR, Cause.BREAKER_OPEN]
    assert counters.snapshot().breakers_opened == 1


def test_a_readonly_primary_is_looked_up_again(run: Run) -> None:
    play = Play(A, _7000=[ErrorReply("READONLY You can't write")], _7001=[YES])
    look_up, seen = play.look_up, []

    def promoted(question: NodeQuery) -> NodeReplies:
        seen.append(question)
        play.owner = A if len(seen) <= 2 else B
        return look_up(question)

    play.look_up = promoted  # type: ignore[method-assign]
    outcomes, _counters = run(SENTINEL, play, 2)
    assert causes(outcomes) == [Cause.READONLY, None]
    assert [endpoint for endpoint, _message in play.asked] == [A, B]


def test_a_broken_key_opens_nothing(run: Run) -> None:
    play = Play(A, _7000=[ErrorReply("WRONGTYPE Operation against a key")])
    outcomes, _counters = run(CLUSTER, play, 5)
    assert all(isinstance(outcome, BrokenState) for outcome in outcomes)


@pytest.mark.parametrize("reply", [b"OK", 5, None])
def test_what_is_no_reply_of_a_script(run: Run, reply: object) -> None:
    outcomes, _counters = run(CLUSTER, Play(A, _7000=[reply]), 1)
    assert causes(outcomes) == [Cause.ERROR]


def test_no_node_knows_the_owner(run: Run) -> None:
    play = Play(A)
    play.look_up = lambda _question: Failure(Cause.AUTH, "WRONGPASS")  # type: ignore[method-assign]
    outcomes, _counters = run(CLUSTER, play, 4)
    assert causes(outcomes) == [Cause.AUTH, Cause.AUTH, Cause.BREAKER_OPEN, Cause.BREAKER_OPEN]


def test_a_slot_without_an_owner(run: Run) -> None:
    play = Play(A)
    play.look_up = lambda _question: [b"cluster_state:ok", [[SLOT + 1, SLOT + 1, [b"10.0.0.1", 7000]]]]  # type: ignore[method-assign]
    assert causes(run(CLUSTER, play, 1)[0]) == [Cause.CLUSTER_DOWN]


@pytest.mark.parametrize("settings", [{"host": "10.0.0.1", "port": 7000}, SENTINEL], ids=["single", "sentinel"])
@pytest.mark.parametrize("word", ["MOVED", "ASK"])
def test_a_cluster_node_under_another_kind_is_told_by_the_kind(
    run: Run, settings: dict[str, Any], word: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A redirection wrote past the only owner: an IndexError in the service."""
    play = Play(A, _7000=[ErrorReply(f"{word} {SLOT} 10.0.0.1:7001")])
    kind = settings.get("kind", "single")
    outcomes, _counters = run(settings, play, 3)
    assert causes(outcomes) == [Cause.MOVED] * 3
    assert f"kind is cluster, not {kind}" in str(outcomes[0])
    assert {endpoint for endpoint, _message in play.asked} == {A}
    told = [record.getMessage() for record in caplog.records if "kind" in record.getMessage()]
    assert told == [f"a cluster node redirects to {B}, but the limiter settings say kind {kind}"]


# Slots 0 to 10000 are A's, the others B's.
HALVES = [b"cluster_state:ok", [[0, 10000, [b"10.0.0.1", 7000]], [10001, 16383, [b"10.0.0.1", 7001]]]]
AT_A, AT_B = Command(b"one ", b"bar", SHA1), Command(b"two ", TAG, SHA1)


def together_with_threads(play: Play, asks: list[Command]) -> list[Any]:
    backend = PlayedBackend(read_settings(CLUSTER), OPTIONS, Counters())
    backend.play = play
    backend.warm(1)
    found: list[Any] = backend.execute_all(asks)
    backend.close()
    return found


def together_with_asyncio(play: Play, asks: list[Command]) -> list[Any]:
    async def story() -> list[Any]:
        backend = PlayedAsyncBackend(read_settings(CLUSTER), OPTIONS, Counters())
        backend.play = play
        await backend.warm()
        found: list[Any] = await backend.execute_all(asks)
        await backend.close()
        return found

    return asyncio.run(story())


@pytest.mark.parametrize("together", [together_with_threads, together_with_asyncio], ids=["threads", "asyncio"])
@pytest.mark.parametrize(
    ("at_b", "expected"),
    [
        (YES, YES),
        (Failure(Cause.TIMEOUT, "late"), Cause.TIMEOUT),
        (ErrorReply("NOSCRIPT No matching script"), Cause.NO_SCRIPT),
        (ErrorReply(f"MOVED {SLOT} 10.0.0.1:7000"), YES),
        (ErrorReply("WRONGTYPE Operation against a key"), BrokenState),
        (5, Cause.ERROR),
    ],
    ids=["answers", "late", "noscript", "moved", "broken", "no-decision"],
)
def test_asks_of_two_nodes_have_outcomes_of_their_own(
    together: Callable[[Play, list[Command]], list[Any]], at_b: Any, expected: Any
) -> None:
    play = Play(A, _7000=[YES], _7001=[at_b])
    play.look_up = lambda _question: HALVES  # type: ignore[method-assign]
    first, second, third = together(play, [AT_A, AT_B, Command(b"three ", b"bar", SHA1)])
    assert first == third == YES
    told = second.cause if isinstance(second, Failure) else type(second) if isinstance(second, BrokenState) else second
    assert told == expected


@pytest.mark.parametrize("together", [together_with_threads, together_with_asyncio], ids=["threads", "asyncio"])
def test_a_plain_command_takes_any_reply_but_an_error(together: Callable[[Play, list[Command]], list[Any]]) -> None:
    play = Play(A, _7000=[5, None, ErrorReply("NOPERM no")])
    found = together(play, [Command(word, TAG) for word in (b"a ", b"b ", b"c ")])
    assert found[:2] == [5, None]
    assert found[2].cause is Cause.AUTH


def test_warming_waits_for_no_longer_than_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines_s: list[float] = []
    monkeypatch.setattr(Pool, "wait_until_warm", lambda _pool, deadline_s: deadlines_s.append(deadline_s))
    backend = PlayedBackend(read_settings(CLUSTER), OPTIONS, Counters())
    backend.play = Play(A)
    before_s = time.monotonic()
    backend.warm(1)
    backend.close()
    wait_s = OPTIONS.connect_timeout_ms / 1000
    assert deadlines_s
    assert all(before_s + wait_s <= deadline_s <= time.monotonic() + wait_s for deadline_s in deadlines_s)
