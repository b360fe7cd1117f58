"""Services decide by the fleet's rules: updated by messages, by polling, and with old rules during an outage."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rlctl.limiter import AsyncLimiter, Cause, Limiter, Reason, Source
from rlctl.limiter.aio import watch as async_watch
from rlctl.limiter.threads import watch
from tests.conftest import RunAsync
from tests.local.driver import LocalFleet, wait_for
from tests.local.rules.files import apply, rule

# The budget is large: on a busy machine these tests must not fall back.
PATIENT_MS = 5000.0
PATIENT = {"budget_ms": PATIENT_MS, "connect_timeout_ms": PATIENT_MS}


@pytest.fixture
def deployed(cluster: LocalFleet) -> LocalFleet:
    cluster.deploy()
    return cluster


@pytest.fixture
def limiter(deployed: LocalFleet) -> Iterator[Limiter]:
    apply(deployed, rule(limit=5))
    with Limiter.connect(deployed.access("limiter"), **PATIENT, rules=True) as subject:
        yield subject


def limit_of(subject: Limiter) -> int | None:
    return subject.decide("api-per-key", "ada", peek=True).limit


def calls(fleet: LocalFleet, access: dict[str, Any]) -> dict[str, int]:
    """Counts of the commands that services send, over three primaries and their replicas."""
    total: dict[str, int] = {}
    for node in range(6):
        with fleet.connect(f"node-{node}", access=access) as admin:
            for name, figures in admin.info("commandstats").items():
                total[name] = total.get(name, 0) + figures["calls"]
    return {name: total.get(f"cmdstat_{name}", 0) for name in ("evalsha", "hmget", "get")}


def test_a_warm_decision_is_one_command(deployed: LocalFleet, limiter: Limiter) -> None:
    access = deployed.access()
    limiter.decide("api-per-key", "warm")
    before = calls(deployed, access)
    began = time.monotonic()
    for number in range(500):
        assert limiter.decide("api-per-key", f"user-{number}").source is Source.REDIS
    looks = (time.monotonic() - began) / 0.7 + 3
    after = calls(deployed, access)
    spent = {name: after[name] - before[name] for name in after}
    assert spent["evalsha"] == 500
    # The reads of the scripts are counted as GET, one for each decision.
    assert spent["hmget"] <= looks
    assert spent["get"] <= 500 + looks


def test_a_running_service_sees_a_new_revision(deployed: LocalFleet, limiter: Limiter) -> None:
    assert limit_of(limiter) == 5
    apply(deployed, rule(limit=6))
    wait_for(lambda: limit_of(limiter) == 6, "the new limit is decided by")
    assert limiter.stats.rules_revision == 2
    deployed.run("rules", "rollback", "--yes")
    wait_for(lambda: limit_of(limiter) == 5, "the old limit is decided by")


@pytest.fixture
def unlooking(deployed: LocalFleet, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Services poll once an hour: only the message can bring a new revision."""
    for module in (watch, async_watch):
        monkeypatch.setattr(module, "POLL_EVERY_S", 3600.0)
    apply(deployed, rule(limit=5))
    return deployed.access("limiter")


def test_news_arrive_without_looking(deployed: LocalFleet, unlooking: dict[str, Any]) -> None:
    with Limiter.connect(unlooking, **PATIENT, rules=True) as subject:
        assert limit_of(subject) == 5
        for limit in (6, 7):
            apply(deployed, rule(limit=limit))
            wait_for(lambda wanted=limit: limit_of(subject) == wanted, "the message was heard", timeout_s=30)


def test_asyncio_hears_news_without_looking(
    deployed: LocalFleet, unlooking: dict[str, Any], run_async: RunAsync
) -> None:
    async def story() -> None:
        async with await AsyncLimiter.connect(unlooking, **PATIENT, rules=True) as subject:
            assert (await subject.decide("api-per-key", "ada", peek=True)).limit == 5
            for limit in (6, 7):
                await asyncio.to_thread(apply, deployed, rule(limit=limit))
                deadline = time.monotonic() + 30
                while (await subject.decide("api-per-key", "ada", peek=True)).limit != limit:
                    assert time.monotonic() < deadline
                    await asyncio.sleep(0.01)

    run_async(story())


def test_a_lost_invalidation_is_caught_by_looking(deployed: LocalFleet, limiter: Limiter) -> None:
    """The pointer moves as by `apply`, but without a message on the channel."""
    apply(deployed, rule(limit=6))
    wait_for(lambda: limit_of(limiter) == 6, "the new limit is decided by")
    with deployed.connect("node-2") as admin:
        digest = admin.execute_command("GET", "rlctl:{rules}:revision:1").partition('"digest":"')[2][:16]
        admin.hset("rlctl:{rules}", mapping={"revision": 1, "digest": digest})
    moved = time.monotonic()
    wait_for(lambda: limit_of(limiter) == 5, "the poll has found it")
    assert time.monotonic() - moved < 10


def test_connections_that_are_cut_are_made_again(deployed: LocalFleet, limiter: Limiter) -> None:
    with deployed.connect("node-2") as admin:
        for client in admin.client_list():
            if client["user"] == "limiter":
                admin.client_kill_filter(_id=client["id"])
    apply(deployed, rule(limit=7))
    wait_for(lambda: limit_of(limiter) == 7, "the new limit is decided by")


def test_asyncio_sees_a_new_revision_too(deployed: LocalFleet, run_async: RunAsync) -> None:
    apply(deployed, rule(limit=5))
    access = deployed.access("limiter")

    async def story() -> None:
        async with await AsyncLimiter.connect(access, **PATIENT, rules=True) as subject:
            decision = await subject.decide("api-per-key", {"api_key": "ada"})
            assert (decision.limit, decision.source) == (5, Source.REDIS)
            await asyncio.to_thread(apply, deployed, rule(limit=6))
            deadline = time.monotonic() + 60
            while (await subject.decide("api-per-key", "ada", peek=True)).limit != 6:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            assert subject.stats.rules_revision == 2

    run_async(story())


def test_the_sentinel_kind_too(sentinel: LocalFleet) -> None:
    sentinel.deploy()
    apply(sentinel, rule(limit=5))
    with Limiter.connect(sentinel.access("limiter"), **PATIENT, rules=True) as subject:
        assert limit_of(subject) == 5
        apply(sentinel, rule(limit=6))
        wait_for(lambda: limit_of(subject) == 6, "the new limit is decided by")
    answers = [sentinel.run("limit", "api-per-key", "bob", "-o", "json").json() for _ in range(7)]
    assert [one["allowed"] for one in answers] == [True] * 6 + [False]
    assert {(one["rule"], one["limit"], one["source"]) for one in answers} == {("api-per-key", 6, "redis")}


def test_rules_stay_while_their_shard_is_away_and_follow_it_to_the_new_primary(
    deployed: LocalFleet, limiter: Limiter
) -> None:
    """user-0's key lies on another shard than the rules, which lie on node-2 and its replica node-5."""
    identity = next(
        f"user-{number}"
        for number in range(100)
        if deployed.run("rules", "explain", "api-per-key", f"user-{number}", "-o", "json").json()["node"] != "node-2"
    )
    deployed.kill("node-2", "node-5")
    for _ in range(20):
        decision = limiter.decide("api-per-key", identity, peek=True)
        assert (decision.source, decision.limit) == (Source.REDIS, 5)
    age = limiter.stats.rules_age_s
    assert age is not None
    wait_for(lambda: (limiter.stats.rules_age_s or 0) > age, "the rules age")
    deployed.run("deploy", "--confirm", deployed.name, expect=None)
    deployed.run("status", "--wait", "--timeout", "60s", expect=None)
    wait_for(lambda: (limiter.stats.rules_age_s or 9) < 1, "the shard is followed again")


def test_after_a_failover_the_promoted_replica_is_followed(deployed: LocalFleet, limiter: Limiter) -> None:
    deployed.kill("node-2")
    with deployed.connect("node-5") as promoted:
        wait_for(lambda: promoted.execute_command("ROLE")[0] == "master", "the replica is promoted")
    wait_for(lambda: deployed.run("rules", "rollback", "--yes", expect=None).code == 5, "the fleet can be asked")
    apply_again = deployed.folder / "rules.yaml"
    apply_again.write_text(apply_again.read_text(encoding="utf-8").replace("limit: 5", "limit: 9"), encoding="utf-8")
    deployed.run("rules", "apply", "rules.yaml", "--yes", "--timeout", "1s", expect=None)
    wait_for(lambda: limit_of(limiter) == 9, "the new limit is decided by")


def test_without_any_rules_the_policy_decides_until_there_are_some(deployed: LocalFleet) -> None:
    access = deployed.access("limiter")
    with Limiter.connect(access, policy="closed", budget_ms=PATIENT_MS, connect_timeout_ms=500, rules=True) as subject:
        decision = subject.decide("api-per-key", "ada")
        assert (decision.allowed, decision.source, decision.reason) == (False, Source.CLOSED, Reason.NO_RULE)
        assert subject.stats.errors[Cause.NO_RULE] >= 1
        assert set(subject.stats.errors) == {Cause.NO_RULE}
        apply(deployed, rule(limit=5))
        wait_for(lambda: limit_of(subject) == 5, "the first rules are decided by")


def test_a_forked_service_goes_on_following(deployed: LocalFleet, limiter: Limiter) -> None:
    """The child follows the rules itself: the parent's thread does not exist there."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writing, b"x")
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and code:
                code = 0 if limit_of(limiter) == 6 else 1
                threading.Event().wait(0.01)
        finally:
            os._exit(code)
    os.read(reading, 1)
    apply(deployed, rule(limit=6))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(reading)
    os.close(writing)


def test_limit_by_rule_on_the_command_line(deployed: LocalFleet) -> None:
    jobs = {"id": "jobs", "algorithm": "concurrent", "limit": 1, "lease": "60s", "key": "{user}:{queue}"}
    apply(deployed, rule(limit=3, tiers={"free": {"limit": 1}}, match={"api_key": ["a*", "free"]}), jobs)

    def limited(*words: str, expect: int = 0) -> dict[str, Any]:
        ran = deployed.run("limit", *words, "-o", "json", expect=expect)
        return ran.json() if expect == 0 else ran.error()

    assert limited("api-per-key", "ada", "--cost", "2")["remaining"] == 1
    assert limited("api-per-key", "ada", "--peek")["remaining"] == 1
    assert limited("api-per-key", "free", "--tier", "free")["limit"] == 1
    wrong = deployed.run("limit", "api-per-key", "free", "--tier", "fre", "--peek", "-o", "json")
    says = "warning: rule api-per-key has no tier fre (its tiers are free): the base limit applies, in services too\n"
    assert (wrong.json()["limit"], wrong.json()["tier"], wrong.json()["tier_known"], wrong.err) == (
        3,
        "fre",
        False,
        says,
    )
    assert limited("api-per-key", "free", "--tier", "free", "--peek")["tier_known"] is True
    assert limited("api-per-key", "free", "--peek")["tier_known"] is None
    wrong = deployed.run("rules", "explain", "api-per-key", "free", "--tier", "fre", "-o", "json")
    assert (wrong.json()["limit"], wrong.json()["tier"], wrong.json()["tier_known"], wrong.err) == (
        3,
        "fre",
        False,
        says,
    )
    assert "does not apply to bob" in limited("api-per-key", "bob", expect=5)["message"]
    assert "no rule nobody" in limited("nobody", "ada", expect=5)["message"]
    assert limited("jobs", "user=u,queue=q")["allowed"]
    assert not limited("jobs", "user=u,queue=q")["allowed"]
    assert limited("jobs", "user=u,queue=q", "--peek")["remaining"] == 0
    assert "more than one value" in limited("jobs", "u", expect=2)["message"]
    assert "must not be empty" in limited("api-per-key", "", expect=2)["message"]
    assert "must not be empty" in deployed.run("rules", "explain", "api-per-key", "", expect=2).err
    apply(deployed, rule(limit=3, key="{tier}:{api_key}"))
    assert limited("api-per-key", "api_key=ada", "--tier", "free")["limit"] == 3
    told = deployed.run("rules", "explain", "api-per-key", "api_key=ada", "--tier", "free", "-o", "json").json()
    assert (told["key"].partition("}")[0], told["count"], told["tier_known"]) == ("rl:{free:ada", 1, True)
    apply(deployed, rule(limit=3, tiers={"free": {"limit": 1}}, match={"api_key": ["a*", "free"]}), jobs)
    explained = deployed.run("rules", "explain", "api-per-key", "ada", "-o", "json").json()
    assert (explained["count"], explained["remaining"], explained["allowed"]) == (2, 1, True)
