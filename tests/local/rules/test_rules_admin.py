"""Rules on a real fleet: plan, apply, read back, explain and roll back."""

import json
import socket
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from redis import RedisCluster

from rlctl.execute.session import open_fleet
from rlctl.rules.change import ChangeRequest, change_rules
from rlctl.rules.compile import compile_file
from rlctl.rules.edits import replace_rules, set_canary
from rlctl.rules.in_force import read_rules_in_force, rules_status
from rlctl.rules.load import load_rules
from rlctl.scripts.release import load_release
from rlctl.state.home import Home
from rlctl.topology.load import load_topology
from tests.local.driver import PATIENCE_S, LocalFleet, wait_for
from tests.local.rules.files import apply, rule, status, write

WINDOWS = ("fixed_window", "sliding_counter", "rolling_window", "rolling_ring")
KINDS = ("cluster", "sentinel")


@pytest.mark.parametrize("kind", KINDS)
def test_from_plan_to_rollback(request: pytest.FixtureRequest, kind: str) -> None:
    fleet: LocalFleet = request.getfixturevalue(kind)
    fleet.deploy()
    write(fleet, rule(limit=3))
    assert fleet.run("rules", "status").out == "no rules are in force\n"
    plan = fleet.run("rules", "plan", "rules.yaml", "-o", "json", expect=10).json()
    assert [(one["rule"], one["change"]) for one in plan["changes"]] == [("api-per-key", "add")]
    assert [one["kind"] for one in plan["warnings"]] == ["small-sliding-counter"]
    assert fleet.run("rules", "apply", "rules.yaml", "--dry-run", "-o", "json", expect=10).json()["revision"] is None
    fleet.run("rules", "apply", "rules.yaml", expect=9)
    first = fleet.run("rules", "apply", "rules.yaml", "--yes", "-o", "json").json()
    holders = 2 if kind == "cluster" else 3
    assert (first["changed"], first["revision"], first["before"]) == (True, 1, None)
    assert [node["current"] for node in first["nodes"]] == [True] * holders
    fleet.run("rules", "plan", "rules.yaml")
    assert fleet.run("rules", "apply", "rules.yaml", "--yes", "-o", "json").json()["changed"] is False

    explained = fleet.run("rules", "explain", "api-per-key", "ada", "-o", "json").json()
    assert explained["key"] == "rl:{apikey:ada}:api-per-key:sliding_counter:1:3600000"
    assert (explained["count"], explained["remaining"], explained["reason"], explained["type"]) == (0, 3, "ok", None)
    assert (explained["slot"] is None) is (kind == "sentinel")

    assert apply(fleet, rule(limit=5))["revision"] == 2
    back = fleet.run("rules", "rollback", "--yes", "-o", "json").json()
    assert (back["revision"], back["before"], back["changed"]) == (1, 2, True)
    now = status(fleet)
    assert [entry["revision"] for entry in now["history"]] == [1, 2, 1]
    assert all(entry["by"] and entry["at"] for entry in now["history"])
    assert now["rules"][0]["parameters"] == {"limit": 3, "window_ms": 3_600_000}
    assert [node["revision"] for node in now["nodes"]] == [1] * holders
    fleet.run("rules", "rollback", "--yes", expect=5)
    fleet.run("rules", "rollback", "--to", "2", "--yes")
    assert status(fleet)["revision"] == 2
    assert apply(fleet, rule(limit=6))["revision"] == 3
    commands = [one["command"] for one in fleet.run("history", "-o", "json").json()["operations"]]
    assert commands.count("rules rollback") == 2


def test_enforcement_that_ends_wants_the_fleets_name(cluster: LocalFleet) -> None:
    cluster.deploy()
    login = rule("logins", 5, **{"class": "security"}, match={"endpoint": ["/login"]})
    apply(cluster, rule(), login)
    changes: dict[str, tuple[str, ...]] = {
        "api-per-key (class general) goes into shadow": ("shadow", "api-per-key"),
        "logins (class security) admits more": ("canary", "logins", "--limit", "50", "--percent", "10"),
        "logins (class security) is removed": ("apply", "rules.yaml"),
    }
    write(cluster, rule())
    for says, (verb, *words) in changes.items():
        planned = cluster.run("rules", verb, *words, "--dry-run", expect=10).out
        assert f"ENFORCEMENT ENDS: {says}" in planned
        document = cluster.run("rules", verb, *words, "--dry-run", "-o", "json", expect=10).json()
        assert [one["text"] in planned for one in document["enforcement_ends"]] == [True]
        for agreed in ((), ("--yes",), ("--yes", "--confirm", "other")):
            ran = cluster.run("rules", verb, *words, *agreed, expect=9)
            assert f"ENFORCEMENT ENDS: {says}" in ran.err
            assert agreed[-1:] == ("other",) or "--confirm limiter" in ran.err
        assert status(cluster)["revision"] == 1
    done = cluster.run("rules", "apply", "rules.yaml", "--confirm", "limiter", "-o", "json").json()
    assert [one["kind"] for one in done["enforcement_ends"]] == ["removed"]
    # A change that ends no enforcement accepts either option.
    cluster.run("rules", "rollback", "--confirm", "limiter")
    cluster.run("rules", "canary", "logins", "--limit", "4", "--percent", "10", "--yes")
    assert "admits more" in cluster.run("rules", "rollback", "--yes", expect=9).err
    cluster.run("rules", "rollback", "--yes", "--confirm", "limiter")
    assert status(cluster)["revision"] == 1


def test_rules_are_changed_as_a_library(cluster: LocalFleet) -> None:
    """As an HTTP API would: plain values in and out, with the caller's name in the history."""
    cluster.deploy()
    topology, home = load_topology(cluster.file.read_bytes(), str(cluster.file)), Home(cluster.home)
    release, wanted = load_release(), write(cluster, rule(limit=3))
    made = compile_file(load_rules(wanted.read_bytes(), str(wanted)), release)
    request = ChangeRequest(by="ada@api", verb="apply", why="ticket 7")
    first = change_rules(topology, home, request, replace_rules(made), release=release)
    assert (first.changed, first.to_json("apply")["revision"], first.before) == (True, 1, None)
    assert not change_rules(topology, home, request, replace_rules(made), release=release).changed
    canary = partial(set_canary("api-per-key", {"limit": "2"}, release), 5000)
    by = replace(request, by="bob@api", verb="canary", why="canary api-per-key 50 %")
    assert change_rules(topology, home, by, canary, release=release).before == 1
    with open_fleet(topology, home, release) as fleet:
        now, found = read_rules_in_force(fleet), rules_status(fleet).to_json()
    assert (now.number, now.required().by) == (2, "bob@api")
    assert [(one["by"], one["why"]) for one in found["history"]] == [  # type: ignore[attr-defined]
        ("bob@api", "canary api-per-key 50 %"),
        ("ada@api", "ticket 7"),
    ]
    cluster.run("rules", "promote", "api-per-key", "--yes")
    user, _at, host = str(status(cluster)["by"]).partition("@")
    assert user
    assert host == socket.gethostname()
    assert "no canary" in cluster.run("rules", "promote", "api-per-key", "--yes", expect=5).err


def test_one_rule_goes_back_alone(cluster: LocalFleet) -> None:
    cluster.deploy()
    apply(cluster, rule("a", 10), rule("b", 10))
    apply(cluster, rule("a", 11), rule("b", 10))
    apply(cluster, rule("a", 11), rule("b", 11))
    assert cluster.run("rules", "rollback", "a", "--yes", "-o", "json").json()["revision"] == 4
    assert [one["parameters"]["limit"] for one in status(cluster)["rules"]] == [10, 11]
    # Only rule b differs from that revision, so only the pointer moves.
    cluster.run("rules", "rollback", "--to", "3", "--yes")
    assert cluster.run("rules", "rollback", "b", "--yes", "-o", "json").json()["revision"] == 2
    assert "never changed" in cluster.run("rules", "rollback", "nobody", "--yes", expect=5).err


def test_the_stored_keys_lie_in_one_slot_without_an_end_and_are_the_limiters_to_read(cluster: LocalFleet) -> None:
    cluster.deploy()
    apply(cluster, rule())
    access = cluster.access()
    with cluster.connect("node-2", access=access) as admin:
        keys = sorted(admin.scan_iter("rlctl:{rules}*"))
        assert keys == ["rlctl:{rules}", "rlctl:{rules}:history", "rlctl:{rules}:revision:1"]
        assert [admin.pttl(one) for one in keys] == [-1, -1, -1]
        assert (
            json.loads(admin.get("rlctl:{rules}:revision:1"))["rules"][0]["variants"][0]["arguments"]["limit"] == 1000
        )
    with cluster.connect("node-2", "limiter") as limiter:
        assert limiter.hmget("rlctl:{rules}", "revision") == ["1"]
        for words in (("SET", "rlctl:{rules}:revision:1", "x"), ("HSET", "rlctl:{rules}", "revision", "9")):
            with pytest.raises(Exception, match="permission"):
                limiter.execute_command(*words)


def test_a_bad_file_never_replaces_the_last_good_set(cluster: LocalFleet) -> None:
    cluster.deploy()
    apply(cluster, rule())
    for bad in (rule(limit=-1), rule(windw="1s"), rule(key="everybody"), rule(script="9.9.9")):
        write(cluster, bad)
        for verb in ("plan", "apply"):
            ran = cluster.run("rules", verb, "rules.yaml", "-o", "json", expect=3)
            assert ran.error()["message"].startswith("rules.yaml:")
    write(cluster, rule(), rule())
    assert "given twice" in cluster.run("rules", "plan", expect=3).err
    assert status(cluster)["revision"] == 1


def test_a_corrupt_pointer_and_history_are_named_and_apply_repairs_them(cluster: LocalFleet) -> None:
    """A pointer such as `revision = abc` made every command exit as a bug, also `apply`."""
    cluster.deploy()
    for limit in (1, 2, 3):
        apply(cluster, rule(limit=limit))
    access = cluster.access()

    def spoil(revision: str) -> None:
        with cluster.connect("node-2", access=access) as admin:
            admin.hset("rlctl:{rules}", mapping={"revision": revision, "last": "9" * 30})
            admin.lset("rlctl:{rules}:history", 1, "[" * 100_000)

    for revision in ("abc", "9" * 5000, "-1"):
        spoil(revision)
        for words in (("explain", "api-per-key", "ada"), ("promote", "api-per-key", "--yes"), ("rollback", "--yes")):
            told = cluster.run("rules", *words, "-o", "json", expect=8).error()
            assert f"revision is '{revision[:20]}" in told["message"]
            assert "rules apply" in told["hint"]
        shown = status(cluster, expect=10)
        assert "is not valid" in shown["trouble"]
        assert all("which is not a number" in node["evidence"] for node in shown["nodes"])
        assert len(shown["history"]) >= 3
    write(cluster, rule(limit=4))
    repaired = cluster.run("rules", "apply", "rules.yaml", "--yes", "-o", "json").json()
    assert repaired["revision"] == 4
    assert status(cluster)["rules"][0]["parameters"]["limit"] == 4
    spoil("abc")
    cluster.run("rules", "rollback", "--to", "2", "--yes")
    assert status(cluster)["revision"] == 2


def test_a_script_that_a_node_lacks_is_never_put_in_force(cluster: LocalFleet) -> None:
    cluster.deploy()
    apply(cluster, rule())
    with cluster.connect("node-4") as admin:
        admin.script_flush()
    write(cluster, rule(limit=5))
    ran = cluster.run("rules", "apply", "rules.yaml", "--yes", "-o", "json", expect=8)
    assert "node-4 lacks sliding_counter" in ran.error()["message"]
    assert status(cluster)["revision"] == 1


def test_a_fleet_over_its_memory_is_still_explained(cluster: LocalFleet) -> None:
    """The server refuses every script; `explain` still shows what the scripts showed before."""
    cluster.deploy()
    numbers = {
        "token_bucket": {"limit": 5, "rate": "1/1h"},
        "gcra": {"limit": 5, "rate": "1/1h"},
        **{name: {"limit": 5, "window": "24h"} for name in WINDOWS},
        "concurrent": {"limit": 5, "lease": "1h"},
    }
    apply(cluster, *({"id": name, "algorithm": name, "key": "{user}", **values} for name, values in numbers.items()))
    for name in numbers:
        for _ in range(2):
            cluster.run("limit", name, "ada")

    def explained() -> dict[str, dict[str, Any]]:
        return {name: cluster.run("rules", "explain", name, "ada", "-o", "json").json() for name in numbers}

    before = explained()
    assert {name: (one["count"], one["remaining"]) for name, one in before.items()} == dict.fromkeys(numbers, (2, 3))
    with cluster.connect(before["gcra"]["node"]) as admin:
        admin.config_set("maxmemory", 1)
        after = explained()
        admin.config_set("maxmemory", 64 * 1024 * 1024)
    assert all(one["reason"].startswith("OOM") for one in after.values())
    assert {name: (one["count"], one["remaining"]) for name, one in after.items()} == dict.fromkeys(numbers, (2, 3))


def test_explained_is_what_the_next_call_meets(cluster: LocalFleet) -> None:
    """A lowered limit, a minimum interval, and keys of another type."""
    cluster.deploy()
    spaced: dict[str, Any] = {"algorithm": "rolling_ring", "limit": 5, "window": "24h", "min_interval": "1h"}
    log, ring = rule("log", **spaced | {"algorithm": "rolling_window"}), rule("ring", **spaced)
    meter = rule("meter", algorithm="gcra", limit=5, rate="1/1h")
    del meter["window"]
    lowered = rule("lowered", 5, algorithm="fixed_window", window="24h")
    apply(cluster, log, ring, meter, lowered)
    for name in ("log", "ring", "lowered", "lowered"):
        cluster.run("limit", name, "ada")
    apply(cluster, log, ring, meter, lowered | {"limit": 1})

    def explained(name: str) -> dict[str, Any]:
        return cluster.run("rules", "explain", name, "ada", "-o", "json").json()

    for name in ("log", "ring"):
        found = explained(name)
        assert (found["count"], found["remaining"], found["allowed"], found["reason"]) == (1, 4, False, "min_interval")
    found = explained("lowered")
    assert (found["limit"], found["count"], found["remaining"], found["reason"]) == (1, 2, 0, "over_limit")
    with cluster.connect(found["node"]) as admin:
        for name in ("meter", "lowered"):
            admin.set(explained(name)["key"], "hello")
    for name in ("meter", "lowered"):
        found = explained(name)
        assert found["reason"].startswith("RLCTL_STATE")
        assert (found["count"], found["remaining"], found["allowed"]) == (None, None, None)


def test_a_version_that_can_block_a_shard_is_neither_loaded_nor_pinned(cluster: LocalFleet) -> None:
    cluster.deploy()
    unbounded = [one.sha1 for one in load_release().known if not one.bounded]
    assert len(unbounded) > 7
    for node in ("node-0", "node-4"):
        with cluster.connect(node) as admin:
            assert not any(admin.script_exists(*unbounded))
    write(cluster, rule(algorithm="rolling_window", script="1.0.0"))
    ran = cluster.run("rules", "apply", "rules.yaml", "--yes", expect=3)
    assert "does not load rolling_window 1.0.0" in ran.err


def test_a_replica_that_does_not_follow_is_named(cluster: LocalFleet) -> None:
    cluster.deploy()
    apply(cluster, rule())
    cluster.kill("node-5")
    write(cluster, rule(limit=5))
    ran = cluster.run("rules", "apply", "rules.yaml", "--yes", "--timeout", "500ms", expect=15)
    assert "node-5" in ran.err
    found = status(cluster, expect=10)
    assert (found["revision"], [node["current"] for node in found["nodes"]]) == (2, [True, False])


def test_after_a_failover_the_dead_member_is_named_and_not_waited_for(cluster: LocalFleet) -> None:
    cluster.deploy()
    apply(cluster, rule())
    cluster.kill("node-2")
    with cluster.connect("node-5") as promoted:
        wait_for(lambda: promoted.execute_command("ROLE")[0] == "master", "the replica is promoted")
    write(cluster, rule(limit=5))
    wait_for(lambda: cluster.run("rules", "plan", "rules.yaml", expect=None).code == 10, "the fleet can be asked")
    told = cluster.run("rules", "apply", "rules.yaml", "--yes").out
    assert "read back from 1 nodes" in told
    assert "down node-2" in told
    found = status(cluster, expect=10)
    assert [(node["name"], node["current"], bool(node["evidence"])) for node in found["nodes"]] == [
        ("node-5", True, False),
        ("node-2", False, True),
    ]
    cluster.run("deploy", "--yes")
    wait_for(lambda: cluster.run("rules", "status", expect=None).code == 0, "it follows")
    assert [node["current"] for node in status(cluster)["nodes"]] == [True, True]


def test_old_revisions_go_but_never_the_one_that_was_in_force(cluster: LocalFleet) -> None:
    """As if a hundred revisions had been stored in between: 101 would replace 1, and 201 would replace 101."""
    cluster.deploy()
    with cluster.connect("node-2") as admin:
        apply(cluster, rule(limit=3))
        admin.hset("rlctl:{rules}", "last", 100)
        assert apply(cluster, rule(limit=4))["revision"] == 101
        assert cluster.run("rules", "rollback", "--yes", "-o", "json").json()["revision"] == 1
        admin.hset("rlctl:{rules}", "last", 200)
        assert apply(cluster, rule(limit=5))["revision"] == 201
        assert [admin.exists(f"rlctl:{{rules}}:revision:{number}") for number in (1, 101, 201)] == [1, 0, 1]


@pytest.mark.parametrize("spoiled", [None, "{}"], ids=["gone", "unreadable"])
def test_a_revision_that_cannot_be_read_is_told_and_replaced(cluster: LocalFleet, spoiled: str | None) -> None:
    cluster.deploy()
    apply(cluster, rule(limit=3))
    apply(cluster, rule(limit=4))

    def spoil(number: int) -> None:
        key = f"rlctl:{{rules}}:revision:{number}"
        with cluster.connect("node-2") as admin:
            admin.delete(key) if spoiled is None else admin.set(key, spoiled)

    spoil(2)
    found = status(cluster, expect=10)
    assert (found["revision"], found["rules"], found["history"][0]["revision"]) == (2, [], 2)
    assert "revision 2" in found["trouble"]
    assert found["trouble"] in cluster.run("rules", "status", expect=10).out.replace("\n", " ")
    code = 5 if spoiled is None else 8
    for words in (("explain", "api-per-key", "ada"), ("shadow", "api-per-key", "--yes"), ("rollback", "--yes")):
        assert "revision 2" in cluster.run("rules", *words, "-o", "json", expect=code).error()["message"]
    told = cluster.run("limit", "api-per-key", "ada", "-o", "json", expect=code).error()["message"]
    assert told == found["trouble"]
    back = cluster.run("rules", "rollback", "--to", "1", "--yes", "-o", "json").json()
    assert (back["revision"], back["before"]) == (1, 2)
    spoil(1)
    stored = apply(cluster, rule(limit=5))
    assert (stored["revision"], stored["before"], stored["changed"]) == (3, 1, True)
    assert (status(cluster)["trouble"], status(cluster)["parent"]) == (None, 1)


def test_who_waited_for_the_lock_changes_what_is_in_force_then(cluster: LocalFleet) -> None:
    """Another machine has the lock meanwhile, and moves the pointer as a rollback does."""
    cluster.deploy()
    apply(cluster, rule(limit=3))
    digest = status(cluster)["digest"]
    apply(cluster, rule(limit=4))
    write(cluster, rule(limit=5))
    access = cluster.access()
    login = {name: access[name] for name in ("host", "port", "username", "password")}
    with RedisCluster(**login) as client:
        client.set("rlctl:{lock}", "somebody", px=60_000)
        waiting = cluster.spawn("rules", "apply", "rules.yaml", "--yes", "--wait", "-o", "json")
        assert waiting.stderr is not None
        wait_for(lambda: "waiting" in waiting.stderr.readline(), "it waits for the lock")  # type: ignore[union-attr]
        client.hset("rlctl:{rules}", mapping={"revision": 1, "digest": digest})
        client.delete("rlctl:{lock}")
        out, err = waiting.communicate(timeout=PATIENCE_S)
    assert waiting.returncode == 0, err
    assert (json.loads(out)["revision"], json.loads(out)["before"]) == (3, 1)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("plan", "nowhere.yaml"), 5),
        (("explain", "nobody", "ada"), 5),
        (("explain", "api-per-key", "ada"), 5),
        (("promote", "api-per-key", "--yes"), 5),
        (("shadow", "api-per-key", "--yes"), 5),
        (("rollback", "--yes"), 5),
        (("rollback", "--to", "0"), 2),
        (("explain", "api-per-key"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_without_rules(shared_cluster: LocalFleet, words: tuple[str, ...], code: int) -> None:
    ran = shared_cluster.run("rules", *words, "-o", "json", expect=code)
    assert ran.out == ""
    assert ran.error()["hint"]


def test_wrong_secrets_are_told_as_such(cluster: LocalFleet) -> None:
    cluster.deploy()
    write(cluster, rule())
    secrets = Home(cluster.home).fleet("limiter").secrets
    right = secrets.read_text(encoding="utf-8")
    passwords = json.loads(right)["users"]
    secrets.write_text(right.replace(passwords["rlctl"], "a-wrong-password-000"), encoding="utf-8")
    for words in (("plan",), ("apply", "--yes"), ("status",)):
        told = cluster.run("rules", *words, "-o", "json", expect=4).error()
        assert "refuses the password" in told["message"]
        assert "secrets import" in told["hint"]
        assert "a-wrong-password-000" not in json.dumps(told)
    secrets.write_text(right, encoding="utf-8")
    cluster.run("rules", "plan", expect=10)


def test_without_a_fleet(cluster: LocalFleet) -> None:
    write(cluster, rule())
    for words in (("plan",), ("apply", "--yes"), ("status",), ("explain", "a", "b")):
        assert cluster.run("rules", *words, "-o", "json", expect=5).error()["hint"]
