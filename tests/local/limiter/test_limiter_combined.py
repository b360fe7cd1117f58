"""Several rules for one request, on a real server: the charge of the first rule when a later one denies."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rlctl.limiter import AsyncLimiter, Decision, Source
from rlctl.limiter import Limiter as Subject
from rlctl.limiter.aio.backend import AsyncBackend
from rlctl.limiter.core.commands import Command, CommandResult
from rlctl.limiter.core.counters import Counters, Stats
from rlctl.limiter.core.deciding import Core
from rlctl.limiter.core.options import Options
from rlctl.limiter.core.rulebook import RuleBook
from rlctl.limiter.core.settings import read_settings
from rlctl.limiter.threads.backend import Backend
from rlctl.limits.rule import Revision
from rlctl.rules.compile import compile_file
from rlctl.rules.load import load_rules
from tests.local.limiter.server import Limiter

PATIENT = Options(budget_ms=60_000, connect_timeout_ms=60_000)
ALGORITHMS = {
    "token_bucket": "limit: 1000, rate: 1000/24h",
    "gcra": "burst: 1000, rate: 1000, period: 24h",
    "fixed_window": "limit: 1000, window: 24h",
    "rolling_window": "limit: 1000, window: 24h",
    "rolling_ring": "limit: 1000, window: 24h",
    "sliding_counter": "limit: 1000, window: 24h",
}
Who = dict[str, str]
Between = Callable[[int], None]
Decide = Callable[[list[Who]], tuple[list[tuple[Decision, ...]], Stats]]


class StagedBackend(Backend):
    """Runs a callback before each round."""

    between: Between = staticmethod(lambda _round: None)
    rounds = 0

    def execute_all(self, asks: Sequence[Command]) -> list[CommandResult]:
        self.between(self.rounds)
        self.rounds += 1
        return super().execute_all(asks)


class StagedAsyncBackend(AsyncBackend):
    """Runs a callback before each round."""

    between: Between = staticmethod(lambda _round: None)
    rounds = 0

    async def execute_all(self, asks: Sequence[Command]) -> list[CommandResult]:
        self.between(self.rounds)
        self.rounds += 1
        return await super().execute_all(asks)


def core_of(limiter: Limiter, text: str) -> Core:
    rules = compile_file(load_rules(f"version: 1\nrules:\n{text}".encode(), "rules.yaml"), limiter.release)
    stored = Revision(number=1, parent=None, rules=rules, by="ada", at="2026-01-01T00:00:00", why="apply")
    counters = Counters()
    book = RuleBook(counters)
    book.learn(stored.version, stored.to_text().encode())
    return Core(limiter.release, "closed", counters, book)


def with_threads(limiter: Limiter, text: str, between: Between, at_once: int) -> Decide:
    core = core_of(limiter, text)

    def decide(people: list[Who]) -> tuple[list[tuple[Decision, ...]], Stats]:
        backend = StagedBackend(read_settings({"host": "127.0.0.1", "port": limiter.port}), PATIENT, core.counters)
        backend.between = between  # type: ignore[method-assign]
        with Subject(core, backend) as subject, ThreadPoolExecutor(at_once) as threads:
            return list(threads.map(subject.decide_all, people)), subject.stats

    return decide


def with_asyncio(limiter: Limiter, text: str, between: Between, at_once: int) -> Decide:
    core = core_of(limiter, text)

    async def story(people: list[Who]) -> tuple[list[tuple[Decision, ...]], Stats]:
        backend = StagedAsyncBackend(read_settings({"host": "127.0.0.1", "port": limiter.port}), PATIENT, core.counters)
        backend.between = between  # type: ignore[method-assign]
        room = asyncio.Semaphore(at_once)
        async with AsyncLimiter(core, backend) as subject:

            async def one(who: Who) -> tuple[Decision, ...]:
                async with room:
                    return await subject.decide_all(who)

            return list(await asyncio.gather(*map(one, people))), subject.stats

    return lambda people: asyncio.run(story(people))


@pytest.fixture(params=[with_threads, with_asyncio], ids=["threads", "asyncio"])
def make(request: pytest.FixtureRequest, limiter: Limiter) -> Callable[..., Decide]:
    return lambda text, between=lambda _round: None, at_once=1: request.param(limiter, text, between, at_once)


@pytest.fixture
def user(limiter: Limiter) -> Iterator[str]:
    return limiter.fresh_key().partition("=")[2].partition("}")[0] + "-together"


def rule(name: str, algorithm: str, numbers: str, key: str = "{user}", more: str = "") -> str:
    return f"  - {{id: {name}, algorithm: {algorithm}, {numbers}, key: '{key}'{more}}}\n"


def used(make: Callable[..., Decide], text: str, name: str, who: Who) -> int:
    """The count of a rule, read by a peek."""
    [decisions], _stats = make(text, at_once=1)([who])
    found = next(one for one in decisions if one.quota.name == name)
    assert found.limit is not None
    assert found.remaining is not None
    return found.limit - found.remaining - 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_first_rule_is_charged_for_admitted_requests_only(
    make: Callable[..., Decide], user: str, algorithm: str
) -> None:
    """12 requests, of which the second rule admits 5: the first was charged 12 times."""
    first = rule("first", algorithm, ALGORITHMS[algorithm])
    decide = make(first + rule("second", "fixed_window", "limit: 5, window: 24h"))
    found, stats = decide([{"user": user}] * 12)
    assert [all(one.allowed for one in decisions) for decisions in found] == [True] * 5 + [False] * 7
    assert {one.source for decisions in found for one in decisions} == {Source.REDIS}
    assert (stats.refunds, stats.unrefunded) == ({}, {})
    assert used(make, first, "first", {"user": user}) == 5


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_lost_race_is_refunded(make: Callable[..., Decide], limiter: Limiter, user: str, algorithm: str) -> None:
    """Another request takes all of `second` after `first` was charged."""
    first = rule("first", algorithm, ALGORITHMS[algorithm].replace("1000", "7"))
    text = first + rule("second", "fixed_window", "limit: 8, window: 24h")

    def steal(number: int) -> None:
        if number == 2:
            key = f"rl:{{{user}}}:second:fixed_window:1:86400000"
            limiter.call("fixed_window", key, 8, 86_400_000, 8)

    [[one, other]], stats = make(text, steal)([{"user": user}])
    assert (one.allowed, other.allowed) == (True, False)
    assert (stats.refunds, stats.unrefunded) == ({"first": 1}, {})
    assert used(make, first, "first", {"user": user}) == 0


def test_requests_that_race_are_charged_by_all_rules_or_refunded(
    make: Callable[..., Decide], limiter: Limiter, user: str
) -> None:
    """Six users behind one address: the rule with the least left changes from request to request."""
    text = rule("users", "rolling_window", "limit: 10, window: 24h")
    text += rule("address", "rolling_window", "limit: 40, window: 24h", key="{ip}")
    people: list[Who] = [{"user": f"{user}-{number % 6}", "ip": user} for number in range(240)]
    found, stats = make(text, at_once=12)(people)
    admitted = sum(all(one.allowed for one in decisions) for decisions in found)
    counted: Any = [
        limiter.client.zcard(f"rl:{{{user}-{number}}}:users:rolling_window:1:86400000") for number in range(6)
    ]
    addresses = limiter.client.zcard(f"rl:{{{user}}}:address:rolling_window:1:86400000")
    # Each charge of a denied request was refunded, or is counted as unrefunded.
    assert sum(counted) == admitted + stats.unrefunded.get("users", 0)
    assert addresses == admitted + stats.unrefunded.get("address", 0)
    assert max(counted) <= 10
    # A request that races with a refund may be denied although a unit is returned; never more than the limit pass.
    assert 40 - 12 - sum(stats.unrefunded.values()) <= admitted <= 40
