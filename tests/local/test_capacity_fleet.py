"""rlctl capacity measure on real fleets: it finds the written users and changes nothing."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from rlctl.limiter import Concurrent, Limiter, RollingRing, RollingWindow, SlidingCounter, TokenBucket, new_request_id
from tests.local.driver import LocalFleet, cluster_document, wait_for

HOUR_MS = 3_600_000
USERS, FEW = 1_500, 150
PATIENT_MS = 5_000.0
# No limit of time: every key is read, however slow the machine is.
MEASURE = ("capacity", "measure", "--interval", "1s", "--budget", "60s", "--sample", "300", "-o", "json")
NODE_KEYS = {
    *("id", "role", "shard", "server", "allocator", "keys", "used_memory", "rss", "fragmentation", "maxmemory"),
    *("policy", "headroom", "stale_share"),
}
RULE_KEYS = {
    *("rule", "algorithm", "sampled", "keys", "keys_error", "key_length", "encodings", "no_ttl", "memory_usage"),
    *("bytes_per_user", "bytes_error", "predicted_bytes_per_user", "total_bytes"),
}
# Commands of a measurement. Other commands come from rlctl's observation and from the fleet itself.
READS = {
    *("info", "scan", "memory|usage", "memory|malloc-stats", "object|encoding", "pttl", "strlen", "zcard", "zrange"),
    *("readonly", "auth", "hello", "ping", "client|setinfo", "config|get", "acl|getuser", "script|exists"),
    *("cluster|myid", "cluster|nodes", "cluster|info", "psync", "replconf", "config|resetstat"),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """A cluster with users of five rules, which tests do not change."""
    fleet = LocalFleet(folder=tmp_path_factory.mktemp("capacity"), document=cluster_document(name="capacity"))
    fleet.write()
    try:
        fleet.deploy()
        fill(fleet)
        wait_for(lambda: all(is_in_sync(fleet, name) for name in replicas()), "replicas that hold everything")
        yield fleet
    finally:
        fleet.end_all()


def replicas() -> tuple[str, ...]:
    return ("node-3", "node-4", "node-5")


def is_in_sync(fleet: LocalFleet, name: str) -> bool:
    with fleet.connect(name) as replica:
        here = replica.info("replication")
    return any(
        primary.info("replication")["master_repl_offset"] == here["slave_repl_offset"]
        for primary in clients(fleet, "node-0", "node-1", "node-2")
        if primary.connection_pool.connection_kwargs["port"] == here["master_port"]
    )


def clients(fleet: LocalFleet, *names: str) -> list["Redis"]:
    access = fleet.access()
    return [fleet.connect(name, access=access) for name in names]


def fill(fleet: LocalFleet) -> None:
    access = fleet.access("limiter")
    with Limiter.connect(access, policy="closed", budget_ms=PATIENT_MS) as limiter:
        for number in range(USERS):
            user = f"user-{number}"
            assert limiter.decide(SlidingCounter(1000, HOUR_MS), user, rule_id="api").source == "redis"
            limiter.decide(TokenBucket(100, 1, HOUR_MS), user, rule_id="burst")
            if number < FEW:
                limiter.decide(RollingRing(100, HOUR_MS), user, rule_id="ring")
                limiter.decide(RollingWindow(200, HOUR_MS), user, rule_id="log", cost=20)
                limiter.decide(RollingWindow(500, HOUR_MS), user, rule_id="long", cost=200)
                for _ in range(3):
                    limiter.acquire(Concurrent(50, HOUR_MS), user, new_request_id(), rule_id="jobs")


def rules(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["rule"]: one for one in found["rules"] if one["rule"]}


def test_what_was_put_in_is_what_is_found(filled: LocalFleet) -> None:
    found = filled.run(*MEASURE).json()
    assert (found["complete"], found["unreachable"]) == (True, [])
    assert [node["role"] for node in found["nodes"]].count("replica") == 3
    assert all(node.keys() >= NODE_KEYS for node in found["nodes"])
    assert all(rule.keys() == RULE_KEYS for rule in found["rules"])
    mine = rules(found)
    assert {name: rule["keys"] for name, rule in mine.items()} == {
        "api": USERS,
        "burst": USERS,
        "ring": FEW,
        "log": FEW,
        "long": FEW,
        "jobs": FEW,
    }
    assert all(rule["keys_error"] == 0 for rule in mine.values())
    assert mine["log"]["encodings"] == {"listpack": 1.0}
    assert mine["long"]["encodings"] == {"skiplist": 1.0}
    assert all(rule["no_ttl"] == 0 for rule in mine.values())
    for rule in mine.values():
        assert rule["predicted_bytes_per_user"] == pytest.approx(rule["bytes_per_user"], rel=0.1)
        assert rule["memory_usage"] < rule["bytes_per_user"]
        assert rule["total_bytes"] == pytest.approx(rule["keys"] * rule["bytes_per_user"], rel=0.001)


def test_it_only_reads_and_on_replicas(filled: LocalFleet) -> None:
    everyone = clients(filled, *(f"node-{number}" for number in range(6)))
    before = [(client.dbsize(), client.info("persistence")["rdb_changes_since_last_save"]) for client in everyone]
    for client in everyone:
        client.config_resetstat()
    filled.run(*MEASURE)
    called = [set(client.info("commandstats")) for client in everyone]
    words = [{name.removeprefix("cmdstat_") for name in names} for names in called]
    assert set().union(*words) <= READS
    assert all("scan" in one for one in words[3:])
    assert all("scan" not in one for one in words[:3])
    after = [(client.dbsize(), client.info("persistence")["rdb_changes_since_last_save"]) for client in everyone]
    assert after == before


def test_the_primary_can_be_asked_for(filled: LocalFleet) -> None:
    everyone = clients(filled, *(f"node-{number}" for number in range(6)))
    for client in everyone:
        client.config_resetstat()
    filled.run(*MEASURE, "--on", "primary")
    assert ["cmdstat_scan" in client.info("commandstats") for client in everyone] == [True] * 3 + [False] * 3


def test_a_small_sample_has_a_band_that_holds_the_truth(filled: LocalFleet) -> None:
    mine = rules(filled.run(*MEASURE, "--sample", "20").json())
    assert sum(rule["sampled"] for rule in mine.values()) <= 60
    for name, count in (("api", USERS), ("burst", USERS)):
        # Four standard errors, because a band of 95 % would fail once in twenty runs.
        assert abs(mine[name]["keys"] - count) <= 2 * mine[name]["keys_error"] + 1


def test_tables_and_a_page(filled: LocalFleet) -> None:
    ran = filled.run("capacity", "measure", "--interval", "1s", "--html", "fleet.html")
    assert re.search(r"^api +sliding_counter ", ran.out, re.MULTILINE)
    assert "the first shard is full" in ran.out
    text = (filled.folder / "fleet.html").read_text(encoding="utf-8")
    assert text.count("<svg") >= 2
    assert set(re.findall(r"https?://[^\"' )]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_no_secret_and_no_identity_is_shown(filled: LocalFleet) -> None:
    ran = filled.run(*MEASURE)
    assert filled.access()["password"] not in ran.out + ran.err
    assert "user-" not in ran.out + ran.err


@pytest.mark.parametrize("words", [("--shards", "7"), ("--ram", "1gb")], ids=["shards", "as few as fit"])
def test_a_plan_that_deploy_would_refuse_is_not_written(filled: LocalFleet, words: tuple[str, ...]) -> None:
    mix = '{"algorithm": "sliding_counter", "users": 30000000}'
    before = filled.file.read_bytes()
    plan = ("capacity", "plan", "--mix", "-", "--write", str(filled.file), "--yes", "-o", "json")
    refused = filled.run(*plan, *words, expect=8, stdin=mix).error()
    assert filled.file.read_bytes() == before
    assert "is deployed with cluster.shards 3" in refused["message"]
    assert "another fleet" in refused["hint"]
    offered = re.search(r"(--shards 3) .* maxmemory (\d+)mb on servers of (\d+)mb", refused["hint"])
    assert offered is not None
    assert ("3 shards on servers of 1024mb hold" in refused["hint"]) == ("--ram" in words)
    try:
        possible = filled.run(*plan, *offered[1].split(), "--ram", f"{offered[3]}mb", stdin=mix).json()
        assert possible["maxmemory"] == int(offered[2]) * 2**20
        planned = filled.run("deploy", "--dry-run", "-o", "json", expect=10).json()["steps"]
        assert {step["kind"] for step in planned} == {"configure"}
    finally:
        filled.file.write_bytes(before)


def test_the_fleet_holds_what_the_plan_said(cluster: LocalFleet) -> None:
    """Compare the plan's data and slots for these users with the growth of the primaries' memory."""
    cluster.document["cluster"]["replicas"] = 0
    cluster.write()
    cluster.deploy()
    primaries = clients(cluster, "node-0", "node-1", "node-2")
    access = cluster.access("limiter")
    users, rule = 12_000, SlidingCounter(1000, HOUR_MS)
    with Limiter.connect(access, policy="closed", budget_ms=PATIENT_MS) as limiter:
        for shard in range(64):
            limiter.decide(rule, f"warm-{shard}", rule_id="r")
        before = settled_bytes(primaries)
        for number in range(users):
            limiter.decide(rule, f"u{number:07d}", rule_id="r")
        held = settled_bytes(primaries) - before
    seen = cluster.run(*MEASURE).json()
    one = seen["nodes"][0]
    if one["server"] is None or one["allocator"] is None:
        pytest.skip(f"no formula for {one['version']}")
    length = len("rl:{u0000000}:r:sliding_counter:1:3600000")
    line = f'{{"algorithm": "sliding_counter", "users": {users + 64}, "key_length": {length}}}'
    words = ("--server", one["server"], "--allocator", one["allocator"], "--cluster", "--shards", "3", "-o", "json")
    planned = cluster.run("capacity", "plan", "--mix", "-", *words, stdin=line).json()["per_shard"]
    expected = 3 * (planned["data"] + planned["cluster_slots"])
    assert held == pytest.approx(expected, rel=0.1)
    assert rules(seen)["r"]["total_bytes"] == pytest.approx(expected, rel=0.1)


def settled_bytes(primaries: list["Redis"]) -> int:
    """The memory of the primaries once it is stable: two equal sums in a row."""
    sums = [0, 1]

    def is_settled() -> bool:
        sums.append(sum(own_bytes(client) for client in primaries))
        return abs(sums[-1] - sums[-20:][0]) < 4096 and len(sums) > 20

    wait_for(is_settled, "memory that stays as it is")
    return sums[-1]


def own_bytes(client: "Redis") -> int:
    memory: dict[str, Any] = client.info("memory")
    return memory["used_memory"] - memory["mem_clients_normal"] - memory.get("mem_total_replication_buffers", 0)


def test_keys_without_an_end_and_keys_of_nobody_are_told_apart(cluster: LocalFleet) -> None:
    cluster.deploy()
    [node] = clients(cluster, "node-0")
    with Limiter.connect(cluster.access("limiter"), policy="closed", budget_ms=PATIENT_MS) as limiter:
        for number in range(60):
            limiter.decide(TokenBucket(100, 1, HOUR_MS), f"user-{number}", rule_id="burst")
    names = [str(name) for name in node.scan_iter("rl:*")]
    for name in names[:5]:
        node.persist(name)
    node.execute_command("SET", name.replace(":burst:token_bucket:1", ":stranger"), "x")
    found = cluster.run(*MEASURE, "--on", "primary").json()
    assert rules(found)["burst"]["no_ttl"] == 5
    [other] = [rule for rule in found["rules"] if rule["rule"] is None]
    assert other["predicted_bytes_per_user"] is None
    assert other["keys"] >= 1


def test_a_dead_replica_costs_nothing_and_a_dead_shard_the_totals(cluster: LocalFleet) -> None:
    cluster.deploy()
    with Limiter.connect(cluster.access("limiter"), policy="closed", budget_ms=PATIENT_MS) as limiter:
        for number in range(30):
            limiter.decide(TokenBucket(100, 1, HOUR_MS), f"user-{number}", rule_id="burst")
    ids = {node["name"]: node["id"] for node in cluster.status()["nodes"]}
    cluster.kill("node-3")
    found = cluster.run(*MEASURE).json()
    assert (found["complete"], found["unreachable"]) == (True, [ids["node-3"]])
    assert rules(found)["burst"]["keys"] == 30
    cluster.kill("node-0")
    found = cluster.run(*MEASURE, expect=13).json()
    assert found["complete"] is False
    assert sorted(found["unreachable"]) == sorted([ids["node-0"], ids["node-3"]])
    assert found["missing_shards"] == [0]
    assert found["forecast"] is None
    assert rules(found)["burst"]["total_bytes"] is None
    assert rules(found)["burst"]["bytes_per_user"] > 0
    assert [warn["code"] for warn in found["warnings"]] == ["shard-missing"]
    cluster.kill("node-1", "node-2", "node-4", "node-5")
    error = cluster.run(*MEASURE, expect=6).error()
    assert "can be read" in error["message"]


def test_a_fleet_that_is_not_there(cluster: LocalFleet) -> None:
    assert cluster.run(*MEASURE, expect=5).error()["code"] == "not-found"


def test_the_sentinel_kind_too(shared_sentinel: LocalFleet, tmp_path: Path) -> None:
    found = shared_sentinel.run(*MEASURE, "--html", str(tmp_path / "page.html")).json()
    assert found["complete"] is True
    assert [node["shard"] for node in found["nodes"]] == [0, 0, 0]
    assert (tmp_path / "page.html").exists()


def test_odd_names_of_keys_are_counted_and_shown_as_text(cluster: LocalFleet) -> None:
    """The runtime user may write any key below `rl:`."""
    cluster.deploy()
    odd = ("\x1b]0;pwned\x07", "two\nrows", r"$\frac{$", "\u202e\u65e5\u672c")
    with Limiter.connect(cluster.access("limiter"), policy="closed", budget_ms=PATIENT_MS) as limiter:
        bucket = TokenBucket(100, 1, HOUR_MS)
        wait_for(lambda: limiter.decide(bucket, "ada", rule_id="api").source == "redis", "Redis decides")
    writers = clients(cluster, "node-0", "node-1", "node-2")
    for name in (*(f"rl:{{u}}:{rule}:gcra:1" for rule in odd), f"rl:{{u}}:api:sliding_counter:{'9' * 5000}"):
        assert sum(is_taken(one, name) for one in writers) == 1

    ran = cluster.run("capacity", "measure", "--interval", "1s", "--budget", "60s", "--html", "odd.html")
    shown = [line.partition(" ")[0] for line in ran.out.splitlines()]
    assert {r"\x1b]0;pwned\x07", r"two\nrows", odd[2], r"\u202e" + "\u65e5\u672c"} <= set(shown)
    assert not set(ran.out + ran.err) & set("\x1b\x07\u202e")
    assert "Warning" not in ran.err
    page = (cluster.folder / "odd.html").read_text(encoding="utf-8")
    assert not set(page) & set("\x1b\x07")
    assert {one["rule"] for one in cluster.run(*MEASURE).json()["rules"]} == {"api", None, *odd}


def is_taken(node: "Redis", name: str) -> bool:
    with contextlib.suppress(ResponseError):
        return bool(node.set(name, "0", ex=3600))
    return False
