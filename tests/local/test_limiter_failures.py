"""The runtime library while servers die, freeze, move and come back."""

import asyncio
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvloop
from redis import Redis

from rlctl.limiter import AsyncLimiter, Cause, Decision, FixedWindow, Limiter, Source
from tests.conftest import RunAsync
from tests.local.driver import PATIENCE_S, LocalFleet, cluster_document, sentinel_document, wait_for
from tests.local.test_limiter_fleets import load_scripts, nodes_of, owner_of, patiently

# Longer than the delay of a busy machine, and shorter than the second of a call without a budget.
BUDGET_MS = 50.0
RULE = FixedWindow(1_000_000_000, 24 * 3600 * 1000)
# A frozen primary remains the primary, because these tests are about the client.
SLOW_TIMERS = {"cluster": {"shards": 3, "replicas": 1, "node_timeout": "60s"}}
SLOW_SENTINELS = {
    "sentinel": {"replicas": 1, "sentinels": 3, "quorum": 2, "down_after": "60s", "failover_timeout": "60s"}
}


@dataclass(slots=True)
class Caller:
    """Decides continuously in its own thread and records the decisions."""

    limiter: Limiter
    identities: tuple[str, ...]
    seen: list[Decision] = field(default_factory=list)

    def run(self, until: threading.Event) -> None:
        number = 0
        while not until.is_set():
            number += 1
            self.seen.append(self.limiter.decide(RULE, self.identities[number % len(self.identities)]))
            until.wait(0.001)

    def by_redis_since(self, mark: int) -> bool:
        """Whether the last round through all identities was decided by Redis alone."""
        last = self.seen[max(mark, len(self.seen) - len(self.identities)) :]
        return len(last) == len(self.identities) and all(one.source is Source.REDIS for one in last)


@contextmanager
def calling(limiter: Limiter, *identities: str) -> Iterator[Caller]:
    caller, stop = Caller(limiter, identities), threading.Event()
    thread = threading.Thread(target=caller.run, args=(stop,))
    thread.start()
    try:
        yield caller
    finally:
        stop.set()
        thread.join()


def deployed(make_fleet: Callable[[dict[str, Any]], LocalFleet], document: dict[str, Any]) -> LocalFleet:
    fleet = make_fleet(document)
    fleet.deploy()
    load_scripts(fleet.access())
    return fleet


def name_of(fleet: LocalFleet, port: int) -> str:
    return f"node-{port - fleet.base_port}"


def primary_of(access: dict[str, Any]) -> int:
    return next(node for node in nodes_of(access) if node.role()[0] == "master").get_connection_kwargs()["port"]


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("document", [cluster_document, sentinel_document])
def test_a_dead_primary_costs_redis_decisions_but_no_answers(
    make_fleet: Callable[[dict[str, Any]], LocalFleet], document: Callable[[], dict[str, Any]]
) -> None:
    fleet = deployed(make_fleet, document())
    access = fleet.access()
    identities = tuple(f"user-{number}" for number in range(12))
    victim = (
        owner_of(fleet, identities[0]).get_connection_kwargs()["port"]
        if access["kind"] == "cluster"
        else primary_of(access)
    )
    name = name_of(fleet, victim)
    with (
        Limiter.connect(fleet.access("limiter"), policy="open", budget_ms=50) as limiter,
        calling(limiter, *identities) as caller,
    ):
        wait_for(lambda: caller.by_redis_since(0), "decisions by Redis")
        fleet.kill(name)
        wait_for(lambda: caller.seen[-1].source is Source.OPEN, "a decision by the policy")
        mark = len(caller.seen)
        wait_for(lambda: caller.by_redis_since(mark), "decisions by the promoted replica")
        assert all(decision.allowed for decision in caller.seen)
        assert limiter.stats.errors.get(Cause.CLOSED, 0) + limiter.stats.errors.get(Cause.UNREACHABLE, 0) > 0
        assert limiter.stats.fallback_s > 0


def test_asyncio_survives_a_dead_primary_too(
    make_fleet: Callable[[dict[str, Any]], LocalFleet], run_async: RunAsync
) -> None:
    fleet = deployed(make_fleet, sentinel_document())
    name = name_of(fleet, primary_of(fleet.access()))
    settings = fleet.access("limiter")

    async def story() -> None:
        async with await AsyncLimiter.connect(settings, policy="local", budget_ms=50) as subject:
            await decided_by(subject, Source.REDIS)
            await asyncio.to_thread(fleet.kill, name)
            await decided_by(subject, Source.LOCAL)
            await decided_by(subject, Source.REDIS)

    run_async(story())


def test_a_moved_slot_is_followed_and_remembered(make_fleet: Callable[[dict[str, Any]], LocalFleet]) -> None:
    fleet = deployed(make_fleet, cluster_document())
    old = owner_of(fleet, "u")
    with patiently(fleet.access("limiter")) as limiter:
        assert limiter.decide(RULE, "u").source is Source.REDIS
        replica = next(
            node for node in nodes_of(fleet.access()) if node.role()[0] == "slave" and is_replica_of(node.role(), old)
        )
        replica.execute_command("CLUSTER FAILOVER")
        wait_for(lambda: old.role()[0] == "slave", "the end of the failover")
        wait_for(lambda: limiter.decide(RULE, "u").source is Source.REDIS, "a decision by Redis")
        moved = limiter.stats.errors.get(Cause.MOVED, 0)
        assert all(limiter.decide(RULE, "u").source is Source.REDIS for _ in range(20))
        assert limiter.stats.errors.get(Cause.MOVED, 0) == moved
        # Connections may break at the failover. The client then reads the slot map and needs no redirection.
        assert moved or limiter.stats.lookups > 1


def is_replica_of(role: list[Any], primary: Redis) -> bool:
    return int(role[2]) == primary.get_connection_kwargs()["port"]


@pytest.mark.parametrize("run", [None, asyncio.run, uvloop.run], ids=["threads", "asyncio", "uvloop"])
def test_a_frozen_server_costs_the_budget_at_most_and_then_nothing(
    make_fleet: Callable[[dict[str, Any]], LocalFleet], run: RunAsync | None
) -> None:
    fleet = deployed(make_fleet, sentinel_document(**SLOW_SENTINELS))
    pid = fleet.pid(name_of(fleet, primary_of(fleet.access())))
    settings = fleet.access("limiter")
    (run(frozen_asyncio(settings, pid)) if run is not None else frozen_threads(settings, pid))


def frozen_threads(settings: dict[str, Any], pid: int) -> None:
    with Limiter.connect(settings, policy="open", budget_ms=BUDGET_MS) as limiter:
        wait_for(lambda: limiter.decide(RULE, "u").source is Source.REDIS, "a decision by Redis")
        with frozen(pid):
            took_ms, decisions = [], []
            deadline = time.monotonic() + PATIENCE_S
            while len(decisions) < 2000 and time.monotonic() < deadline:
                began = time.perf_counter()
                decisions.append(limiter.decide(RULE, "u"))
                took_ms.append((time.perf_counter() - began) * 1000)
            judge(decisions, took_ms)
            assert limiter.stats.errors[Cause.TIMEOUT] >= 1
        wait_for(lambda: limiter.decide(RULE, "u").source is Source.REDIS, "a decision by Redis again")
        stats = limiter.stats
        assert stats.breakers_opened >= 1
        wait_for(lambda: all_by_redis(limiter), "a closed breaker")


async def decided_by(subject: AsyncLimiter, source: Source) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await subject.decide(RULE, "u")).source is not source:  # noqa: ASYNC110  the servers tell no event
            await asyncio.sleep(0.002)


async def frozen_asyncio(settings: dict[str, Any], pid: int) -> None:
    async with await AsyncLimiter.connect(settings, policy="open", budget_ms=BUDGET_MS) as limiter:
        await decided_by(limiter, Source.REDIS)
        with frozen(pid):
            took_ms, decisions = [], []
            for _ in range(2000):
                began = time.perf_counter()
                decisions.append(await limiter.decide(RULE, "u"))
                took_ms.append((time.perf_counter() - began) * 1000)
            judge(decisions, took_ms)
        await decided_by(limiter, Source.REDIS)


def judge(decisions: list[Decision], took_ms: list[float]) -> None:
    """The limiter always answers. Decisions that waited took the budget, all others almost no time."""
    assert all(decision.allowed and decision.source is Source.OPEN for decision in decisions)
    waited = [took for took, one in zip(took_ms, decisions, strict=True) if one.cause is not Cause.BREAKER_OPEN]
    kept_back = [took for took, one in zip(took_ms, decisions, strict=True) if one.cause is Cause.BREAKER_OPEN]
    # The machine may delay single decisions, so most of them are checked.
    assert statistics.median(waited) <= 2 * BUDGET_MS
    assert statistics.median(kept_back) < 1
    assert len(kept_back) > len(waited)


def all_by_redis(limiter: Limiter) -> bool:
    return all(limiter.decide(RULE, "u").source is Source.REDIS for _ in range(5))


def test_one_frozen_shard_leaves_the_others_alone(make_fleet: Callable[[dict[str, Any]], LocalFleet]) -> None:
    fleet = deployed(make_fleet, cluster_document(**SLOW_TIMERS))
    victim = owner_of(fleet, "u").get_connection_kwargs()["port"]
    elsewhere = next(
        name
        for name in (f"other-{number}" for number in range(100))
        if owner_of(fleet, name).get_connection_kwargs()["port"] != victim
    )
    with Limiter.connect(fleet.access("limiter"), policy="closed", budget_ms=20) as limiter:
        with frozen(fleet.pid(name_of(fleet, victim))):
            wait_for(lambda: limiter.decide(RULE, "u").cause is Cause.BREAKER_OPEN, "an open breaker")
            denied = limiter.decide(RULE, "u")
            assert (denied.allowed, denied.headers()["Retry-After"]) == (False, "1")
            wait_for(lambda: limiter.decide(RULE, elsewhere).source is Source.REDIS, "a decision by another shard")
        wait_for(lambda: limiter.decide(RULE, "u").source is Source.REDIS, "a decision by Redis again")


@pytest.mark.parametrize("document", [cluster_document, sentinel_document])
def test_tls(make_fleet: Callable[[dict[str, Any]], LocalFleet], document: Callable[..., dict[str, Any]]) -> None:
    fleet = deployed(make_fleet, document(security={"acl": True, "tls": True}))
    settings = fleet.access("limiter")
    with patiently(settings) as limiter:
        decisions = [limiter.decide(RULE, f"user-{number}") for number in range(30)]
        assert {decision.source for decision in decisions} == {Source.REDIS}
    with patiently({**settings, "ca": None}, policy="closed") as stranger:
        decision = stranger.decide(RULE, "u")
        assert (decision.allowed, decision.cause) == (False, Cause.TLS)

    async def story() -> None:
        async with await AsyncLimiter.connect(settings, budget_ms=5000) as subject:
            assert (await subject.decide(RULE, "u")).source is Source.REDIS

    for run in (asyncio.run, uvloop.run):
        run(story())


def test_a_full_server_is_a_refusal_for_the_policy(make_fleet: Callable[[dict[str, Any]], LocalFleet]) -> None:
    fleet = deployed(make_fleet, sentinel_document())
    server = next(node for node in nodes_of(fleet.access()) if node.role()[0] == "master")
    with patiently(fleet.access("limiter"), policy="closed") as limiter:
        assert limiter.decide(RULE, "u").source is Source.REDIS
        server.config_set("maxmemory", "1mb")
        assert limiter.decide(RULE, "u").cause is Cause.OOM
        server.config_set("maxmemory", "64mb")
        wait_for(lambda: limiter.decide(RULE, "u").source is Source.REDIS, "a decision by Redis")


def test_a_forked_child_does_not_share_connections(shared_sentinel: LocalFleet) -> None:
    load_scripts(shared_sentinel.access())
    with patiently(shared_sentinel.access("limiter")) as limiter:
        assert limiter.decide(RULE, "parent", cost=7).remaining == RULE.limit - 7
        child = os.fork()
        if child == 0:
            good = all(limiter.decide(RULE, "child", cost=1).source is Source.REDIS for _ in range(200))
            os._exit(0 if good else 1)
        answers = [limiter.decide(RULE, "parent", peek=True) for _ in range(200)]
        assert os.waitpid(child, 0)[1] == 0
        assert {answer.remaining for answer in answers} == {RULE.limit - 7}
