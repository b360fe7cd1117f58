"""rlctl bench on real fleets: its figures, its load, and that it leaves no key."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from redis import Redis

from rlctl.bench.subjects import bench_cases
from rlctl.limiter import ALGORITHMS
from rlctl.scripts.release import load_release
from tests.local.driver import PATIENCE_S, LocalFleet, wait_for
from tests.local.failures import assert_fails
from tests.local.terminal import ANSI, at_terminal

QUICK = ("--yes", "--duration", "3ms", "-o", "json")
ROW = {
    *("script", "answer", "keys", "depth", "calls", "decisions_per_s", "p50_us", "p99_us", "server_us", "of_incr"),
    *("as_wanted", "others_calls"),
}


@pytest.fixture
def nodes(shared_cluster: LocalFleet) -> Iterator[list[Redis]]:
    access = shared_cluster.access()
    with ExitStack() as stack:
        yield [stack.enter_context(shared_cluster.connect(f"node-{number}", access=access)) for number in range(3)]


def bench_keys(nodes: list[Redis]) -> list[str]:
    return [key for node in nodes for key in node.scan_iter("rl:{rlctl-bench-*", count=10_000)]


def test_every_script_in_every_pattern(shared_cluster: LocalFleet, nodes: list[Redis]) -> None:
    document = shared_cluster.run("bench", *QUICK).json()
    assert document["schema"] == "rlctl.bench/1"
    assert (document["name"], document["primaries"], document["release"]) == ("shared", 3, load_release().version)
    expected = [(one.name, one.answer) for one in bench_cases(load_release(), ())]
    rows = document["rows"]
    assert [(row["script"], row["answer"]) for row in rows[::4]] == expected
    assert {row["script"] for row in rows} == {"incr", *ALGORITHMS}
    assert len({(row["script"], row["answer"], row["keys"], row["depth"]) for row in rows}) == 4 * len(expected)
    for row in rows:
        assert set(row) == ROW
        assert row["decisions_per_s"] > 0
        assert row["server_us"] is not None
        assert (row["p50_us"] is None) == (row["p99_us"] is None) == (row["depth"] > 1)
        assert row["as_wanted"] >= 0.99, row
        assert row["others_calls"] == 0, row
    assert document["notes"] == []
    assert bench_keys(nodes) == []


def test_some_scripts_as_a_table_for_people(shared_cluster: LocalFleet) -> None:
    ran = shared_cluster.run("bench", "--yes", "--duration", "3ms", "--script", "gcra", "--script", "fixed_window")
    lines = ran.out.splitlines()
    assert "3 primaries" in lines[0]
    assert [line.split()[0] for line in lines[2:]] == ["incr"] * 4 + ["gcra"] * 8 + ["fixed_window"] * 8
    assert max(map(len, lines)) <= 100
    assert "round 3 of 3" in ran.err


def test_accuracy_finds_what_each_algorithm_lets_through(shared_cluster: LocalFleet, nodes: list[Redis]) -> None:
    document = shared_cluster.run("bench", "--accuracy", "--yes", "-o", "json").json()
    assert document["schema"] == "rlctl.bench-accuracy/1"
    assert {row["script"]: (row["worst_admitted"], row["holds"]) for row in document["rows"]} == {
        "token_bucket": (199, False),
        "gcra": (199, True),
        "fixed_window": (200, True),
        "sliding_counter": (199, False),
        "rolling_window": (100, True),
        "rolling_ring": (100, True),
    }
    assert bench_keys(nodes) == []


def test_scale_drives_one_shard_more_each_time(shared_cluster: LocalFleet, nodes: list[Redis]) -> None:
    # Long enough for CPU times, which the kernel counts in hundredths of a second.
    document = shared_cluster.run("bench", "--scale", "--yes", "--duration", "300ms", "-o", "json").json()
    assert document["schema"] == "rlctl.bench-scale/1"
    [gcra] = document["scripts"]
    assert (gcra["script"], gcra["claim"]) == ("gcra", "linear to six nodes")
    assert [level["shards"] for level in gcra["levels"]] == [1, 2, 3]
    assert [len(level["server_cpu"]) for level in gcra["levels"]] == [1, 2, 3]
    assert gcra["levels"][0]["of_linear"] == 1.0
    assert all(0 < level["machine_cpu"] <= 1.1 and level["client_cpu"] > 0 for level in gcra["levels"])
    assert bench_keys(nodes) == []
    assert shared_cluster.run("bench", "--scale", "--yes", "--duration", "3ms").out.splitlines()[1].startswith("SHARDS")


def test_the_sentinel_kind_too(shared_sentinel: LocalFleet) -> None:
    document = shared_sentinel.run("bench", "--script", "rolling_ring", *QUICK).json()
    assert (document["primaries"], len(document["rows"])) == (1, 12)
    accuracy = shared_sentinel.run("bench", "--accuracy", "--script", "fixed_window", "--yes", "-o", "json").json()
    assert [row["worst_admitted"] for row in accuracy["rows"]] == [200]
    assert_fails(shared_sentinel, "bench", "--scale", "--yes", code=2, name="usage", says="a Sentinel fleet has one")


OUTCOMES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung-up"}


@pytest.mark.parametrize("number", OUTCOMES)
def test_stopped_in_the_middle_it_leaves_no_key(
    shared_cluster: LocalFleet, nodes: list[Redis], number: signal.Signals
) -> None:
    process = shared_cluster.spawn("bench", "--yes", "--duration", "60s")
    try:
        wait_for(lambda: bool(bench_keys(nodes)), "the bench has keys")
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 128 + number, err
    assert out == ""
    assert "the keys of the bench are removed" in err
    assert bench_keys(nodes) == []
    [last] = shared_cluster.run("history", "-o", "json").json()["operations"][-1:]
    assert (last["command"], last["outcome"]) == ("bench", OUTCOMES[number])


def test_killed_its_keys_end_by_themselves(shared_cluster: LocalFleet, nodes: list[Redis]) -> None:
    process = shared_cluster.spawn("bench", "--yes", "--duration", "60s")
    try:
        wait_for(lambda: bool(bench_keys(nodes)), "the bench has keys")
    finally:
        process.kill()
        process.communicate()
    left = [(node, key) for node in nodes for key in node.scan_iter("rl:{rlctl-bench-*", count=10_000)]
    ends = [node.pttl(key) for node, key in left]
    assert ends
    # -2: the key has expired. The longest expiry is that of a sliding counter: twice ten minutes and a second.
    assert all(end == -2 or 0 < end <= 1_201_000 for end in ends)
    for node, key in left:
        node.unlink(key)


def test_nobody_to_ask(shared_cluster: LocalFleet, nodes: list[Redis]) -> None:
    before = [node.info("commandstats")["cmdstat_evalsha"]["calls"] for node in nodes]
    for words in ((), ("--accuracy",), ("--scale",)):
        assert_fails(shared_cluster, "bench", *words, code=9, name="declined", says="no terminal")
    planned = shared_cluster.run("bench", "--dry-run", expect=10)
    assert "load its primaries for about 12 s" in planned.out
    document = shared_cluster.run("bench", "--dry-run", "--accuracy", "-o", "json", expect=10).json()
    assert (document["schema"], document["name"]) == ("rlctl.bench-plan/1", "shared")
    assert [node.info("commandstats")["cmdstat_evalsha"]["calls"] for node in nodes] == before


def test_it_asks_at_a_terminal(shared_cluster: LocalFleet) -> None:
    with at_terminal(shared_cluster, "bench", "--script", "gcra", "--duration", "3ms") as terminal:
        assert "load its primaries for about 1 s" in terminal.read_until("[y/N]")
        terminal.answer("y")
        code, shown = terminal.finish()
    assert code == 0
    assert "OF INCR" in ANSI.sub("", shown)


@pytest.mark.parametrize(
    ("words", "code", "name"),
    [
        (("--script", "nonsense"), 5, "not-found"),
        (("--accuracy", "--script", "nonsense"), 5, "not-found"),
        (("--scale", "--script", "nonsense"), 5, "not-found"),
        (("--accuracy", "--script", "concurrent"), 2, "usage"),
        (("--accuracy", "--scale"), 2, "usage"),
        (("--duration", "7"), 2, "usage"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_bad_input(shared_cluster: LocalFleet, words: tuple[str, ...], code: int, name: str) -> None:
    assert_fails(shared_cluster, "bench", "--yes", *words, code=code, name=name)


def test_without_a_fleet(cluster: LocalFleet) -> None:
    assert_fails(cluster, "bench", "--yes", code=5, name="not-found", says="not deployed")


def test_a_fleet_that_lacks_a_script_is_not_measured(shared_cluster: LocalFleet, nodes: list[Redis]) -> None:
    nodes[1].script_flush()
    try:
        assert_fails(shared_cluster, "bench", *QUICK[:3], code=5, name="not-found", says="node-1 lacks token_bucket")
    finally:
        shared_cluster.deploy()
    assert bench_keys(nodes) == []


def test_a_nearly_full_server_is_not_loaded(shared_cluster: LocalFleet, nodes: list[Redis]) -> None:
    before = nodes[2].config_get("maxmemory")["maxmemory"]
    nodes[2].config_set("maxmemory", "4mb")
    try:
        assert_fails(shared_cluster, "bench", *QUICK[:3], code=8, name="refused", says="node-2 is nearly full")
    finally:
        nodes[2].config_set("maxmemory", before)
