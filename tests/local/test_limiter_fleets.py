"""The runtime library on healthy fleets of all kinds."""

import asyncio
import json
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis, ResponseError

from rlctl.limiter import (
    ALGORITHMS,
    Algorithm,
    AsyncLimiter,
    BrokenState,
    Cause,
    Concurrent,
    FixedWindow,
    Gcra,
    InvalidLimit,
    Limiter,
    Reason,
    RollingRing,
    RollingWindow,
    SlidingCounter,
    Source,
    TokenBucket,
    key,
)
from rlctl.limiter.core.routes import slot_of
from rlctl.limits.algorithms import Costed
from rlctl.limits.keys import tag_of
from rlctl.scripts.release import load_release
from tests.conftest import RunAsync
from tests.local.driver import LocalFleet, wait_for

RELEASE = load_release()
MINUTE = 60_000
# These tests check answers, not speed, so limiters on a busy machine must not fall back.
PATIENT_MS = 5000.0
EVERY = (
    TokenBucket(3, 1, MINUTE),
    Gcra(3, 1, MINUTE),
    FixedWindow(3, 24 * 60 * MINUTE),
    SlidingCounter(3, 24 * 60 * MINUTE),
    RollingWindow(3, MINUTE),
    RollingRing(3, MINUTE),
)
KINDS = ("shared_cluster", "shared_sentinel", "single")


def nodes_of(access: dict[str, Any]) -> list[Redis]:
    """An admin's connection to each data node."""
    options: dict[str, Any] = {"ssl": True, "ssl_ca_certs": access["ca"]} if access["tls"] else {}
    return [
        Redis(
            host=node.rpartition(":")[0],
            port=int(node.rpartition(":")[2]),
            username=access["username"],
            password=access["password"],
            decode_responses=True,
            **options,
        )
        for node in access["nodes"]
    ]


def load_scripts(access: dict[str, Any]) -> None:
    """Load the release on every node, as an admin."""
    for node in nodes_of(access):
        for script in RELEASE.scripts:
            assert node.script_load(script.source) == script.sha1
        node.close()


def patiently(settings: dict[str, Any], **options: str) -> Limiter:
    return Limiter.connect(settings, budget_ms=PATIENT_MS, connect_timeout_ms=PATIENT_MS, **options)


@pytest.fixture(params=KINDS)
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The output of `rlctl env` for a fleet with its scripts. The single node is the primary of a Sentinel fleet."""
    name = "shared_sentinel" if request.param == "single" else request.param
    fleet: LocalFleet = request.getfixturevalue(name)
    load_scripts(fleet.access())
    access = fleet.access("limiter")
    return access if request.param != "single" else {**access, "kind": "single", "nodes": [], "sentinels": []}


@pytest.fixture
def limiter(settings: dict[str, Any]) -> Iterator[Limiter]:
    with patiently(settings) as subject:
        yield subject


@pytest.fixture
def somebody(request: pytest.FixtureRequest) -> str:
    """An identity that no other test uses."""
    return f"{request.node.name}-{random.getrandbits(64):x}"


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: rule.name)
def test_every_algorithm_admits_its_limit(limiter: Limiter, somebody: str, rule: Costed) -> None:
    assert limiter.decide(rule, somebody, peek=True).remaining == 3
    decisions = [limiter.decide(rule, somebody) for _ in range(4)]
    assert [decision.allowed for decision in decisions] == [True, True, True, False]
    assert {decision.source for decision in decisions} == {Source.REDIS}
    assert decisions[-1].reason is Reason.OVER_LIMIT
    assert int(decisions[-1].headers()["Retry-After"]) > 0
    assert limiter.decide(rule, somebody, cost=4).retry_after_ms == -1


def test_leases(limiter: Limiter, somebody: str) -> None:
    rule = Concurrent(1, MINUTE)
    with limiter.hold(rule, somebody) as held:
        assert held.allowed
        assert limiter.peek(rule, somebody).remaining == 0
        assert limiter.acquire(rule, somebody, "other").reason is Reason.OVER_LIMIT
        assert limiter.renew(rule, somebody, "other").reason is Reason.NO_LEASE
    assert limiter.acquire(rule, somebody, "other").allowed
    assert limiter.release(rule, somebody, "other").remaining == 1


def test_many_identities_reach_every_shard(limiter: Limiter, somebody: str) -> None:
    rule = FixedWindow(1, 24 * 60 * MINUTE)
    for number in range(60):
        assert limiter.decide(rule, f"{somebody}-{number}").allowed
    assert limiter.stats.by_source() == {Source.REDIS: 60}
    assert not limiter.stats.errors


def test_threads_together_are_admitted_exactly_the_limit(limiter: Limiter, somebody: str) -> None:
    rule, admitted = RollingWindow(100, 10 * MINUTE), Counter[bool]()

    def ask() -> None:
        answers = Counter(limiter.decide(rule, somebody).allowed for _ in range(30))
        with lock:
            admitted.update(answers)

    lock = threading.Lock()
    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert admitted == {True: 100, False: 380}


def test_asyncio_admits_exactly_the_limit(settings: dict[str, Any], somebody: str, run_async: RunAsync) -> None:
    rule, lease = Gcra(50, 1, 10 * MINUTE), Concurrent(1, MINUTE)

    async def story() -> None:
        async with await AsyncLimiter.connect(settings, budget_ms=PATIENT_MS, connect_timeout_ms=PATIENT_MS) as subject:
            decisions = await asyncio.gather(*(subject.decide(rule, somebody) for _ in range(200)))
            assert Counter(decision.allowed for decision in decisions) == {True: 50, False: 150}
            others = await asyncio.gather(*(subject.decide(rule, f"{somebody}-{number}") for number in range(60)))
            assert all(other.source is Source.REDIS for other in others)
            async with subject.hold(lease, somebody) as first, subject.hold(lease, somebody) as second:
                assert (first.allowed, second.allowed) == (True, False)
            assert not subject.stats.errors

    run_async(story())


def test_the_key_is_what_it_says(shared_cluster: LocalFleet, somebody: str) -> None:
    access = shared_cluster.access()
    load_scripts(access)
    rule = FixedWindow(1, 24 * 60 * MINUTE)
    with patiently(shared_cluster.access("limiter")) as limiter:
        limiter.decide(rule, f"{somebody}:{{x}}", rule_id="api")
    name = key(f"{somebody}:{{x}}", rule_id="api", algorithm=rule, state=1)
    found = [node for node in nodes_of(access) if name in node.keys("rl:*")]
    assert len(found) == 2


def test_a_key_of_another_type_is_an_error_and_no_admission(shared_cluster: LocalFleet, somebody: str) -> None:
    load_scripts(shared_cluster.access())
    rule = FixedWindow(1, MINUTE)
    name = key(somebody, rule_id="default", algorithm=rule, state=1)
    owner = owner_of(shared_cluster, somebody)
    owner.rpush(name, "x")
    with patiently(shared_cluster.access("limiter")) as limiter:
        for _ in range(10):
            with pytest.raises(BrokenState):
                limiter.decide(rule, somebody)
        owner.unlink(name)
        assert limiter.decide(rule, somebody).source is Source.REDIS


def owner_of(fleet: LocalFleet, identity: str) -> Redis:
    """An admin's connection to the primary that has the identity's slot."""
    slot = slot_of(tag_of(identity))
    for node in nodes_of(fleet.access()):
        for line in node.execute_command("CLUSTER NODES").values():
            if "myself,master" in line["flags"] and any(int(a) <= slot <= int(b) for a, b in line["slots"]):
                return node
    raise AssertionError(f"nobody owns slot {slot}")


def test_an_asked_slot_is_followed_for_one_call(shared_cluster: LocalFleet, somebody: str) -> None:
    load_scripts(shared_cluster.access())
    slot, source = slot_of(tag_of(somebody)), owner_of(shared_cluster, somebody)
    owners = (owner_of(shared_cluster, f"{somebody}-{number}") for number in range(1000))
    target = next(owner for owner in owners if myself(owner) != myself(source))
    rule = FixedWindow(2, 24 * 60 * MINUTE)
    name = key(somebody, rule_id="default", algorithm=rule, state=1)
    target.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", myself(source))
    source.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", myself(target))
    try:
        with patiently(shared_cluster.access("limiter")) as limiter:
            assert [limiter.decide(rule, somebody).allowed for _ in range(3)] == [True, True, False]
            assert limiter.stats.errors == {Cause.ASK: 3}
    finally:
        # The key is on the importing node. Delete it before the slot belongs to the source alone again.
        connection = target.connection_pool.get_connection()
        for words in (("ASKING",), ("UNLINK", name)):
            connection.send_command(*words)
            connection.read_response()
        connection.disconnect()
        for node in (source, target):
            node.execute_command("CLUSTER SETSLOT", slot, "STABLE")


def myself(node: Redis) -> str:
    return node.execute_command("CLUSTER MYID")


def test_a_flushed_script_falls_back_until_it_is_loaded_again(shared_sentinel: LocalFleet, somebody: str) -> None:
    access = shared_sentinel.access()
    load_scripts(access)
    rule = FixedWindow(1000, 24 * 60 * MINUTE)
    with patiently(shared_sentinel.access("limiter"), policy="local") as limiter:
        assert limiter.decide(rule, somebody).source is Source.REDIS
        for node in nodes_of(access):
            node.script_flush()
        decision = limiter.decide(rule, somebody)
        assert (decision.source, decision.cause) == (Source.LOCAL, Cause.NO_SCRIPT)
        assert limiter.decide(rule, somebody).cause is Cause.BREAKER_OPEN
        assert not any(any(node.script_exists(*(one.sha1 for one in RELEASE.scripts))) for node in nodes_of(access))
        load_scripts(access)
        wait_for(lambda: limiter.decide(rule, somebody).source is Source.REDIS, "a decision by Redis")
        assert limiter.stats.errors[Cause.NO_SCRIPT] >= 1
        assert limiter.stats.fallback_s > 0


@pytest.mark.parametrize("fleet", ["shared_cluster", "shared_sentinel"])
def test_a_wrong_password_is_counted_and_never_shown(fleet: str, request: pytest.FixtureRequest) -> None:
    access = request.getfixturevalue(fleet).access("limiter")
    wrong = {**access, "password": "wrong-secret-000000", "sentinel_password": "wrong-secret-000000"}
    with patiently(wrong, policy="closed") as limiter:
        decision = limiter.decide(FixedWindow(1, MINUTE), "u")
        assert (decision.allowed, decision.cause) == (False, Cause.AUTH)
        assert "wrong-secret" not in json.dumps(limiter.stats.to_json())
        assert "wrong-secret" not in repr(limiter.__dict__)


def test_nobody_there_is_no_reason_not_to_start() -> None:
    with Limiter.connect({"host": "127.0.0.1", "port": 1}, policy="open", budget_ms=50) as limiter:
        decisions = [limiter.decide(FixedWindow(1, MINUTE), "u") for _ in range(20)]
    assert all(decision.allowed and decision.source is Source.OPEN for decision in decisions)
    assert decisions[0].cause is Cause.UNREACHABLE
    assert decisions[-1].cause is Cause.BREAKER_OPEN


def values(chance: random.Random, algorithm: str) -> tuple[list[int], list[int]]:
    """Random parameters and a cost."""
    sizes = [0, 1, 2, 7, 1000, 999_999, 1_000_001, 10**9, 2**32 - 1, 2**32, 10**12, 2**43, 2**50, 2**53 - 1, 2**53]
    count = {"rolling_window": 3, "rolling_ring": 3, "token_bucket": 3, "gcra": 3}.get(algorithm, 2)
    return [chance.choice(sizes) for _ in range(count)], [chance.choice(sizes)]


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "concurrent"])
def test_what_the_library_accepts_the_script_accepts(shared_sentinel: LocalFleet, name: str) -> None:
    access = shared_sentinel.access()
    load_scripts(access)
    script = RELEASE.script(name)
    assert script is not None
    server = next(node for node in nodes_of(access) if node.role()[0] == "master")
    chance = random.Random(name)  # noqa: S311  numbers to try
    outcomes: Counter[tuple[bool, bool]] = Counter()
    for _ in range(1500):
        numbers, [cost] = values(chance, name)
        accepted = is_accepted(ALGORITHMS[name], numbers, cost)
        # A cost within the limit would create rings of megabytes. A peek and an impossible cost write nothing.
        taken = is_taken(server, script.sha1, *numbers, cost if cost > numbers[0] else 0)
        outcomes[accepted, taken] += 1
        assert taken or not accepted, (numbers, cost)
    assert outcomes[True, True] > 20
    assert outcomes[False, False] > 20
    # The library checks against the year 2100, so it is stricter only for windows of centuries.
    assert outcomes[False, True] < 150


def is_taken(server: Redis, sha1: str, *arguments: int) -> bool:
    try:
        server.evalsha(sha1, 1, "rl:{scratch}:x", *arguments)
    except ResponseError as refusal:
        if str(refusal).startswith("RLCTL_ARG"):
            return False
        raise
    return True


def is_accepted(kind: type[Algorithm], numbers: list[int], cost: int) -> bool:
    try:
        rule = kind(*numbers)
        assert not isinstance(rule, Concurrent)
        rule.check_cost(cost if cost > numbers[0] else 0)
    except InvalidLimit:
        return False
    return True


def test_importing_is_cheap() -> None:
    code = "import rlctl.limiter, sys; print(*sorted(name.split('.')[0] for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not set(done.stdout.split()) & {"click", "rich", "psutil", "cryptography", "docker", "redis", "yaml"}
