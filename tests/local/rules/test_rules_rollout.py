"""A limit is changed under a hundred running clients: by a canary, by a ramp, and by a rollback."""

import contextlib
import signal
import threading
from typing import Any

import pytest
from redis.exceptions import ResponseError

from rlctl.limiter import Limiter
from rlctl.limits.bucket import bucket
from tests.kills import kill_at_journal_line
from tests.local.driver import PATIENCE_S, LocalFleet, wait_for
from tests.local.rules.clients import CLIENTS, Clients, running
from tests.local.rules.files import apply, rule, status, write

SUFFERING = "rl:{3}:suffering"
LOGINS_5 = {"limit": 5, "window_ms": 3_600_000}
NAMES = [f"client-{number}" for number in range(CLIENTS)]


def hot(limit: int) -> dict[str, Any]:
    return rule("hot", limit, algorithm="fixed_window", window="24h")


def inside(percent: int) -> set[str]:
    return {name for name in NAMES if bucket("api-per-key", name) < percent * 100}


def expect_limits(clients: Clients, percent: int, canary: int, rest: int) -> None:
    wanted = {name: canary if name in inside(percent) else rest for name in NAMES}
    wait_for(lambda: clients.limits == wanted, f"{percent} % have {canary}, the others {rest}")


def test_a_limit_is_changed_by_percentage_watched_and_taken_back(cluster: LocalFleet) -> None:
    cluster.deploy()
    apply(cluster, rule(limit=1000), hot(50))
    with running(cluster.access("limiter"), "api-per-key") as clients:
        expect_limits(clients, 0, 800, 1000)
        wait_for(lambda: clients.hot_admitted == 50, "the hot identity has used its limit")
        write(cluster, rule(limit=1000), hot(60))
        cluster.run("rules", "apply", "rules.yaml", "--yes")
        wait_for(lambda: clients.hot_admitted == 60, "ten more are admitted")
        cluster.run("rules", "rollback", "--yes")
        clients.wait_for_round()
        clients.wait_for_round()
        assert clients.hot_admitted == 60, "a rollback refilled a quota"

        cluster.run("rules", "canary", "api-per-key", "--percent", "10", "--limit", "800", "--yes")
        expect_limits(clients, 10, 800, 1000)
        cluster.run("rules", "canary", "api-per-key", "--percent", "50", "--yes")
        expect_limits(clients, 50, 800, 1000)
        assert 0 < len(inside(10)) < len(inside(50)) < CLIENTS
        cluster.run("rules", "promote", "api-per-key", "--yes")
        expect_limits(clients, 100, 800, 1000)
        cluster.run("rules", "shadow", "hot", "--confirm", "limiter")
        wait_for(lambda: clients.hot_admitted > 200, "a rule in shadow denies no request")
        cluster.run("rules", "rollback", "--to", "1", "--yes")
        expect_limits(clients, 0, 800, 1000)
    assert clients.odd == []
    assert clients.errors == {}
    assert clients.seen == {1000, 800}
    assert set(clients.revisions) == {1}


def test_a_killed_apply_leaves_the_old_rules_or_the_new(cluster: LocalFleet) -> None:
    """SIGKILL after the journal's entries for the begin, the revision in force, and the end."""
    cluster.deploy()
    apply(cluster, rule(limit=1000), hot(50))
    outcomes: list[str] = []
    with running(cluster.access("limiter"), "api-per-key") as clients:
        before, limits = 1000, {1000}
        for step, line in enumerate([1, 2, 3] * 3):
            limit = 1001 + step
            write(cluster, rule(limit=limit), hot(50))
            killed = kill_at_journal_line(cluster, line, "rules", "apply", "rules.yaml", "--yes")
            outcomes.append(killed.outcome)
            now = status(cluster)
            in_force = now["rules"][0]["parameters"]["limit"]
            assert in_force in ({limit} if killed.steps else {before, limit})
            assert all(node["current"] for node in now["nodes"])
            before = in_force
            limits.add(in_force)
            wait_for(lambda wanted=in_force: clients.common == {wanted}, "all clients decide by what is in force")
        write(cluster, rule(limit=2000), hot(50))
        assert cluster.run("rules", "apply", "rules.yaml", "--yes", "--wait", "-o", "json").json()["revision"] >= 1
        wait_for(lambda: clients.common == {2000}, "the next apply is in force")
    assert "unfinished" in outcomes, "no kill was between the begin and the end of a change"
    assert clients.odd == []
    assert clients.errors == {}
    assert clients.seen <= {*limits, 2000}


def test_the_canary_of_a_file_is_the_verbs(cluster: LocalFleet) -> None:
    cluster.deploy()
    apply(cluster, rule(canary={"percent": 10, "limit": 800}))
    by_file = status(cluster)
    apply(cluster, rule())
    cluster.run("rules", "canary", "api-per-key", "--percent", "10", "--limit", "800", "--yes")
    by_verb = status(cluster)
    assert by_file["digest"] == by_verb["digest"]
    member = next(name for name in NAMES if name in inside(10))
    for name, limit in ((member, 800), (next(name for name in NAMES if name not in inside(10)), 1000)):
        explained = cluster.run("rules", "explain", "api-per-key", name, "-o", "json").json()
        assert explained["canary"] == {"percent": 10, "bucket": bucket("api-per-key", name), "in": limit == 800}
        assert (explained["limit"], explained["values"]["limit"]) == (limit, limit)
        assert cluster.run("limit", "api-per-key", name, "-o", "json").json()["limit"] == limit


def test_a_ramp_walks_its_steps(cluster: LocalFleet) -> None:
    cluster.deploy()
    apply(cluster, rule(limit=1000), hot(50))
    with running(cluster.access("limiter"), "api-per-key") as clients:
        words = ("--ramp", "10,50,100", "--hold", "2s", "--abort-if", "errors>1%", "--abort-if", "p99>10m")
        ran = cluster.run("rules", "canary", "api-per-key", "--limit", "800", *words, "--yes", "-o", "json")
        expect_limits(clients, 100, 800, 1000)
    assert ran.json()["revision"] == 4
    assert "errors 0 %" in ran.err
    assert "p99" in ran.err
    now = status(cluster)
    assert [entry["why"] for entry in now["history"][:3]] == [
        f"canary api-per-key {percent} %" for percent in (100, 50, 10)
    ]
    assert clients.odd == []
    # All steps are one change: a rollback goes back to the revision before the first.
    back = cluster.run("rules", "rollback", "--yes", "-o", "json").json()
    assert (back["revision"], back["before"]) == (1, 4)
    assert status(cluster)["rules"][0]["canary"] is None


def test_a_ramp_that_loosens_is_agreed_to_once_and_as_a_whole(cluster: LocalFleet) -> None:
    """The first step concerns no identity, but the ends of enforcement are listed before it."""
    cluster.deploy()
    apply(cluster, rule("logins", 5, **{"class": "security"}))
    words = ("rules", "canary", "logins", "--limit", "50", "--percent", "0", "--ramp", "10,100", "--hold", "1ms")
    planned = cluster.run(*words, "--dry-run", "-o", "json", expect=10).json()
    assert [one["limits"] for one in planned["enforcement_ends"]] == [
        [{"tier": None, "percent": 100, "before": LOGINS_5, "after": LOGINS_5 | {"limit": 50}}]
    ]
    refused = cluster.run(*words, "--yes", expect=9)
    assert "limit 5, window 1h -> limit 50, window 1h" in refused.err
    assert status(cluster)["revision"] == 1
    assert cluster.run(*words, "--confirm", "limiter", "-o", "json").json()["revision"] == 4


def test_a_ramp_that_is_broken_off_needs_no_second_agreement(cluster: LocalFleet) -> None:
    """The ramp made a security rule stricter, so undoing it loosens the rule again."""
    cluster.deploy()
    apply(cluster, rule("logins", 5, **{"class": "security"}))
    cluster.kill("node-5")
    words = ("--limit", "4", "--ramp", "10,50", "--hold", "10m", "--timeout", "1s", "--yes")
    assert "revision 1 is in force again" in cluster.run("rules", "canary", "logins", *words, expect=15).err


def test_a_ramp_that_denies_too_many_is_taken_back(cluster: LocalFleet) -> None:
    """The canary admits one call an hour, so its identities have no units left after the first."""
    cluster.deploy()
    apply(cluster, rule(limit=1000, algorithm="fixed_window"), hot(50))
    access = cluster.access("limiter")
    for name in sorted(inside(100))[:20]:
        cluster.run("limit", "api-per-key", name)
    with running(access, "api-per-key") as clients:
        words = ("--ramp", "100", "--hold", "60s", "--abort-if", "denied>20%")
        ran = cluster.run("rules", "canary", "api-per-key", "--limit", "1", *words, "--yes", expect=15)
        assert "revision 1 is in force again" in ran.err
        expect_limits(clients, 0, 1, 1000)
    assert status(cluster)["revision"] == 1
    assert clients.odd == []


@pytest.mark.parametrize(
    ("condition", "script", "words"),
    [
        # The value is not a number, so the script refuses the call.
        pytest.param("errors>1%", "fixed_window", ("many", 60_000, 1), id="errors"),
        # Nine thousand entries in one call take milliseconds.
        pytest.param("p99>1ms", "rolling_window", (10_000, 60_000, 0, 9_000), id="p99"),
    ],
)
def test_a_ramp_under_which_the_fleet_suffers_is_taken_back(
    cluster: LocalFleet, condition: str, script: str, words: tuple[object, ...]
) -> None:
    cluster.deploy()
    apply(cluster, rule())
    sha1 = {one["name"]: one["sha1"] for one in cluster.run("scripts", "list", "-o", "json").json()["scripts"]}[script]
    started = cluster.spawn(
        *("rules", "canary", "api-per-key", "--limit", "800", "--ramp", "100", "--hold", "60s"),
        *("--abort-if", condition, "--yes"),
    )
    suffering, admin = cluster.connect("node-0", "limiter"), cluster.connect("node-0")
    while started.poll() is None:
        # Each call uses a new key: a full memory would turn slow calls into errors.
        admin.unlink(SUFFERING)
        with contextlib.suppress(ResponseError):
            suffering.evalsha(sha1, 1, SUFFERING, *words)
    _out, err = started.communicate(timeout=PATIENCE_S)

    assert started.returncode == 15, err
    assert f"which meets {condition}" in err
    assert status(cluster)["revision"] == 1


def test_a_ramp_outlives_the_failover_of_the_shard_that_holds_the_rules(cluster: LocalFleet) -> None:
    cluster.deploy()
    apply(cluster, rule())
    words = ("--limit", "800", "--ramp", "10,50", "--hold", "20s", "--abort-if", "errors>50%", "--yes")
    started = cluster.spawn("rules", "canary", "api-per-key", *words)
    wait_for(lambda: status(cluster)["revision"] == 2, "the first step is in force")
    cluster.kill("node-2")
    # The clients must be served, or no errors could be measured.
    with Limiter.connect(cluster.access("limiter"), rules=True) as service:
        while started.poll() is None:
            service.decide("api-per-key", "ada")
            threading.Event().wait(0.05)
    _out, err = started.communicate(timeout=PATIENCE_S)

    assert started.returncode == 0, err
    assert "could not measure" in err
    with cluster.connect("node-5") as promoted:
        assert promoted.hget("rlctl:{rules}", "revision") == "3"


def test_a_step_that_a_replica_does_not_follow_is_taken_back(cluster: LocalFleet) -> None:
    cluster.deploy()
    apply(cluster, rule())
    cluster.kill("node-5")
    words = ("--limit", "800", "--ramp", "10,50", "--hold", "10m", "--timeout", "1s", "--yes")
    ran = cluster.run("rules", "canary", "api-per-key", *words, expect=15)

    assert "revision 1 is in force again" in ran.err
    assert status(cluster, expect=10)["revision"] == 1


def test_a_ramp_ends_when_another_operator_changes_the_rules_and_an_interrupted_one_stays(
    cluster: LocalFleet,
) -> None:
    cluster.deploy()
    apply(cluster, rule())

    def ramp() -> Any:
        words = ("--limit", "800", "--ramp", "10,50", "--hold", "10m", "--yes")
        return cluster.spawn("rules", "canary", "api-per-key", *words)

    first = ramp()
    wait_for(lambda: status(cluster)["revision"] == 2, "the first step is in force")
    cluster.run("rules", "rollback", "--yes")
    _out, err = first.communicate(timeout=PATIENCE_S)
    assert (first.returncode, "another operator changed the rules" in err) == (8, True), err
    assert status(cluster)["revision"] == 1
    second = ramp()
    wait_for(lambda: status(cluster)["revision"] == 3, "the first step is in force")
    second.send_signal(signal.SIGINT)
    _out, err = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 130, err
    assert status(cluster)["rules"][0]["canary"] == {"percent": 10, "parameters": {"limit": 800}}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("api-per-key",), 2),
        (("api-per-key", "--percent", "20", "--ramp", "10,50"), 2),
        (("api-per-key", "--percent", "101"), 2),
        (("api-per-key", "--percent", "x"), 2),
        (("api-per-key", "--ramp", "50,10"), 2),
        (("api-per-key", "--ramp", "10", "--abort-if", "luck>1%"), 2),
        (("api-per-key", "--ramp", "10", "--abort-if", "errors>much"), 2),
        (("api-per-key", "--percent", "10", "--abort-if", "errors>1%"), 2),
        (("api-per-key", "--percent", "10", "--hold", "1m"), 2),
        (("nobody", "--percent", "10", "--ramp", "10,50", "--abort-if", "errors>1%", "--limit", "5", "--yes"), 5),
        (("nobody", "--percent", "10", "--limit", "5", "--yes"), 5),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_refusals(shared_cluster: LocalFleet, words: tuple[str, ...], code: int) -> None:
    ran = shared_cluster.run("rules", "canary", *words, "-o", "json", expect=code)
    assert ran.out == ""
    assert ran.error()["hint"]


def test_what_a_rule_cannot_have_is_refused(cluster: LocalFleet) -> None:
    cluster.deploy()
    apply(cluster, rule())
    for words in (("--lease", "5s"), ("--limit", "many"), ("--limit", "-1"), (), ("--window", "60")):
        cluster.run("rules", "canary", "api-per-key", "--percent", "10", *words, "--yes", expect=2)
    assert status(cluster)["revision"] == 1
