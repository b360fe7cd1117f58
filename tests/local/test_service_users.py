"""Services with their own users: the rights of each, and services added and removed on a running fleet."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

from rlctl.limiter import AsyncLimiter, FixedWindow, Limiter, Source
from tests.local.driver import LocalFleet, cluster_document, sentinel_document

HOUR = FixedWindow(2, 3_600_000)
RULES = """version: 1
rules:
  - id: per-user
    key: "user:{user}"
    algorithm: fixed_window
    limit: 2
    window: 24h
    on_failure: closed
    owner: tests
"""


@pytest.fixture(scope="module", params=[cluster_document, sentinel_document], ids=["cluster", "sentinel"])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """A fleet with two services and a rule. A test that changes the services must restore them."""
    document = request.param(security={"services": ["checkout", "search"]})
    made = LocalFleet(folder=tmp_path_factory.mktemp("services"), document=document)
    made.write()
    try:
        made.deploy()
        rules = made.folder / "rules.yaml"
        rules.write_text(RULES, encoding="utf-8")
        made.run("rules", "apply", str(rules), "--yes")
        yield made
    finally:
        made.end_all()


def access_of(fleet: LocalFleet, service: str) -> dict[str, Any]:
    return fleet.run("env", "--service", service, "-o", "json").json()


def own_file(fleet: LocalFleet) -> Path:
    return fleet.home / "fleets" / fleet.name / "secrets.json"


def stored(fleet: LocalFleet) -> dict[str, Any]:
    return json.loads(own_file(fleet).read_text(encoding="utf-8"))


def with_services(fleet: LocalFleet, *services: str) -> None:
    fleet.document["security"] = {"services": list(services)}
    fleet.write()


def limiter_of(access: dict[str, Any], *, rules: bool = False) -> Limiter:
    return Limiter.connect(access, policy="closed", budget_ms=60_000, connect_timeout_ms=60_000, rules=rules)


def refused(client: Redis, *command: object) -> bool:
    """Whether the server denies a command to the user. It checks that before the key's slot and type."""
    try:
        client.execute_command(*command)
    except NoPermissionError:
        return True
    except ResponseError as failure:
        return "permission" in str(failure).lower()
    return False


def test_a_service_is_limited_on_its_own_keys(fleet: LocalFleet) -> None:
    checkout, search = access_of(fleet, "checkout"), access_of(fleet, "search")
    with limiter_of(checkout, rules=True) as subject, limiter_of(search, rules=True) as other:
        for limiter, allowed in ((subject, True), (subject, True), (subject, False), (other, True)):
            decision = limiter.decide("per-user", "ada")
            assert (decision.source, decision.allowed) == (Source.REDIS, allowed), decision
            decision = limiter.decide(HOUR, "ada")
            assert (decision.source, decision.allowed) == (Source.REDIS, allowed), decision


def test_a_service_with_asyncio_counts_on_the_same_keys(fleet: LocalFleet) -> None:
    access = access_of(fleet, "checkout")

    async def asked() -> list[bool]:
        connecting = AsyncLimiter.connect(
            access, policy="closed", budget_ms=60_000, connect_timeout_ms=60_000, rules=True
        )
        async with await connecting as subject:
            return [(await subject.decide(rule, "eve")).allowed for rule in ("per-user", HOUR)]

    assert [asyncio.run(asked()) for _ in range(3)] == [[True, True], [True, True], [False, False]]
    with limiter_of(access, rules=True) as subject:
        assert not any(subject.decide(rule, "eve").allowed for rule in ("per-user", HOUR))


def test_commands_name_a_service(fleet: LocalFleet) -> None:
    for allowed in (True, True, False):
        assert fleet.run("limit", "per-user", "bob", "--service", "search", "-o", "json").json()["allowed"] is allowed
    found = fleet.run("rules", "explain", "per-user", "bob", "--service", "search", "-o", "json").json()
    assert found["key"] == "rl:search:{user:bob}:per-user:fixed_window:1:86400000"
    assert (found["service"], found["count"], found["allowed"]) == ("search", 2, False)
    plain = fleet.run("rules", "explain", "per-user", "bob", "-o", "json").json()
    assert (plain["key"], plain["count"]) == ("rl:{user:bob}:per-user:fixed_window:1:86400000", 0)
    measured = fleet.run("capacity", "measure", "-o", "json").json()
    assert "per-user" in json.dumps(measured)


def test_a_service_reaches_no_other_keys(fleet: LocalFleet) -> None:
    access = access_of(fleet, "checkout")
    [sha1] = [
        one["sha1"] for one in fleet.run("scripts", "list", "-o", "json").json()["scripts"] if one["name"] == "gcra"
    ]
    with closing(fleet.connect("node-0", access=access)) as client:
        assert client.ping()
        assert not refused(client, "EVALSHA", sha1, 1, "rl:checkout:{a}:y", 5, 1, 1000, 1)
        for key in ("rl:search:{a}:x", "rl:{a}:x", "rl:checkout{a}", "rl:checkout-2:{a}", "rlctl:{history}", "other"):
            for words in (
                ("SET", key, "1"),
                ("PEXPIRE", key, "0"),
                ("ZADD", key, "1", "a"),
                ("EVALSHA", sha1, 1, key, 5, 1, 1000, 1),
            ):
                assert refused(client, *words), words
        for key in ("rl:search:{a}:x", "rl:{a}:x", "other"):
            assert refused(client, "GET", key), key
        for words in (("GET", "rlctl:{rules}"), ("SET", "rl:checkout:{a}:x", "1"), ("GET", "rl:checkout:{a}:x")):
            assert not refused(client, *words), words
        for words in (("CONFIG", "GET", "*"), ("ACL", "LIST"), ("FLUSHALL",), ("KEYS", "*"), ("EVAL", "return 1", "0")):
            assert refused(client, *words), words
    for name in [f"sentinel-{index}" for index in range(len(access["sentinels"]))]:
        with closing(fleet.connect(name, access=access)) as client:
            assert client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "limiter")
            assert refused(client, "SENTINEL", "FAILOVER", "limiter")


def test_settings_of_a_service_are_those_of_the_limiter_with_its_own_login(fleet: LocalFleet) -> None:
    own, plain = access_of(fleet, "checkout"), fleet.access("limiter")
    assert {"service", "key_prefix"} == own.keys() - plain.keys()
    assert (own["service"], own["key_prefix"], own["username"]) == ("checkout", "rl:checkout:", "limiter-checkout")
    changed = {name for name in plain if plain[name] != own[name]}
    at_sentinels = {"sentinel_username", "sentinel_password"} if own["sentinels"] else set()
    assert changed == {"username", "password"} | at_sentinels
    exports = fleet.run("env", "--service", "checkout").out.splitlines()
    assert "export REDIS_SERVICE=checkout" in exports
    assert "export REDIS_KEY_PREFIX=rl:checkout:" in exports
    assert "REDIS_SERVICE" not in fleet.run("env").out


def test_services_that_are_not_there(fleet: LocalFleet) -> None:
    assert "has no billing" in fleet.run("env", "--service", "billing", expect=5).err
    assert "--service goes with --as limiter" in fleet.run("env", "--as", "admin", "--service", "search", expect=2).err
    fleet.run("limit", "per-user", "ada", "--service", "billing", expect=5)
    fleet.run("rules", "explain", "per-user", "ada", "--service", "billing", expect=5)


def test_a_removed_service_loses_its_user_and_others_keep_their_connections(fleet: LocalFleet) -> None:
    before = stored(fleet)
    checkout, search = access_of(fleet, "checkout"), access_of(fleet, "search")
    with (
        closing(fleet.connect("node-0", access=checkout)) as kept,
        closing(fleet.connect("node-0", access=search)) as ended,
        closing(fleet.connect("node-0")) as admin,
    ):
        number = kept.client_id()
        assert ended.ping()
        with_services(fleet, "checkout")
        fleet.deploy()
        assert kept.client_id() == number
        with pytest.raises(AuthenticationError):
            ended.ping()
        assert "limiter-search" not in admin.execute_command("ACL", "USERS")
        for name in ("node-0", *(f"sentinel-{index}" for index in range(len(checkout["sentinels"])))):
            with closing(fleet.connect(name, access=search)) as client, pytest.raises(AuthenticationError):
                client.ping()
        assert {**before, "services": {"checkout": before["services"]["checkout"]}} == stored(fleet)
        with_services(fleet, "checkout", "search")
        assert "has no user yet" in fleet.run("env", "--service", "search", expect=5).err
        assert "services without a user yet: search" in fleet.run("scripts", "apply", "--yes", expect=8).err
        plan = fleet.folder / "plan.json"
        fleet.run("deploy", "--dry-run", "--plan-out", str(plan), expect=10)
        fleet.deploy("--plan", str(plan))
        assert kept.client_id() == number
    again = stored(fleet)
    assert again["services"]["checkout"] == before["services"]["checkout"]
    assert again["services"]["search"] != before["services"]["search"]
    assert fleet.deploy().json()["changed"] is False
    assert fleet.status()["findings"] == []
    with closing(fleet.connect("node-0", access=access_of(fleet, "search"))) as client:
        assert client.ping()


def test_an_operator_without_the_password_of_a_service_does_not_replace_it(fleet: LocalFleet) -> None:
    exported, older = fleet.folder / "exported.json", fleet.folder / "older.json"
    fleet.run("secrets", "export", str(exported))
    whole = stored(fleet)
    older.write_text(json.dumps({**whole, "services": {}}), encoding="utf-8")
    told = fleet.run("deploy", "--yes", expect=4, RLCTL_SECRETS=str(older)).err
    assert "RLCTL_SECRETS has no password of service checkout, search" in told
    shutil.copy(older, own_file(fleet))
    try:
        for words in (("deploy", "--yes"), ("deploy", "--dry-run")):
            told = fleet.run(*words, expect=4).err
            assert "has a user limiter-checkout, but this machine does not have its password" in told
    finally:
        fleet.run("secrets", "import", str(exported))
    assert stored(fleet) == whole
    fleet.run("deploy", "--dry-run")
    assert "other secrets" in fleet.run("secrets", "import", str(older), expect=8).err
