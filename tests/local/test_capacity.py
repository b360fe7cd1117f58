"""rlctl capacity without a fleet: arguments, output, and a calibration on a server of its own."""

import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.local.driver import LocalFleet, Ran, is_gone, servers_below, wait_for

# Read at import, because every test runs without the variable: another server program to calibrate.
PROGRAM = os.environ.get("RLCTL_REDIS_SERVER")
USERS = "10000"
PREDICT_KEYS = {
    *("schema", "server", "allocator", "algorithm", "encoding", "limit", "key_length", "model_bytes_per_user"),
    *("bytes_per_user", "ratio", "parts", "users", "total_bytes", "warnings"),
}
SHARD_KEYS = {
    *("users", "data", "table_doubling", "fragmentation", "copy_on_write", "replication_backlog", "client_buffers"),
    *("cluster_slots", "baseline", "total"),
}
MIX = '{"algorithm": "sliding_counter", "users": 10000000}\n'
TOPOLOGY = """\
version: 1          # of the format
name: limiter
kind: cluster
target: local
memory:             # for each node
  maxmemory: 256mb  # to be planned
"""


def capacity(fleet: LocalFleet, *words: str, expect: int = 0, stdin: str | None = None, **env: str) -> Ran:
    return fleet.run_bare("capacity", *words, expect=expect, stdin=stdin, **env)


def calibrate(fleet: LocalFleet, *words: str, expect: int = 0, **env: str) -> Ran:
    program = {"RLCTL_REDIS_SERVER": PROGRAM} if PROGRAM else {}
    scratch = fleet.folder / "scratch"
    scratch.mkdir(exist_ok=True)
    words = ("predict", *words, "--calibrate", "--calibrate-users", USERS, "-o", "json")
    return capacity(fleet, *words, expect=expect, **{"TMPDIR": str(scratch), **program, **env})


@pytest.mark.parametrize(
    "words",
    [
        ("token_bucket",),
        ("gcra", "--key-length", "20"),
        ("gcra", "--no-ttl"),
        ("gcra", "--cluster", "--slots", "1000"),
        ("fixed_window", "--limit", "10000000"),
        ("sliding_counter", "--key-length", "100", "--policy", "allkeys-lru"),
        ("rolling_window", "--limit", "128"),
        ("rolling_window", "--limit", "200"),
        ("rolling_window", "--limit", "200", "--zset-max-listpack-entries", "256"),
        ("rolling_ring", "--limit", "1000"),
        ("concurrent", "--limit", "10"),
        ("concurrent", "--limit", "5", "--member", "text:80"),
    ],
    ids=" ".join,
)
def test_a_calibration_agrees_with_the_formulas(cluster: LocalFleet, words: tuple[str, ...]) -> None:
    found = calibrate(cluster, "--algorithm", *words).json()
    assert found.keys() == {*PREDICT_KEYS, "calibration"}
    seen = found["calibration"]
    assert seen.keys() == {
        *("server", "allocator", "users", "predicted_bytes_per_user", "measured_bytes_per_user", "error"),
    }
    assert seen["users"] == int(USERS)
    assert (found["server"], found["allocator"]) == (seen["server"], seen["allocator"])
    assert abs(seen["error"]) < 0.03, seen
    assert list((cluster.folder / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--server", "valkey-8.1"), 8, "--server valkey-8.1 was requested"),
        (("--allocator", "upstream"), 8, "--allocator upstream was requested"),
        (("--encoding", "int"), 2, "which do not store int"),
        (("--key-length", "3"), 2, "are too few for"),
    ],
)
def test_a_calibration_that_cannot_be(cluster: LocalFleet, words: tuple[str, ...], code: int, says: str) -> None:
    if PROGRAM and code == 8:
        pytest.skip("another program is another family")
    ran = calibrate(cluster, "--algorithm", "gcra", *words, expect=code)
    assert says in ran.error()["message"]
    assert ran.out == ""


def test_a_calibration_too_large_for_this_machine_is_refused(cluster: LocalFleet) -> None:
    ran = calibrate(cluster, "--algorithm", "rolling_ring", "--limit", "1000000", expect=8)
    assert "are free here" in ran.error()["message"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_calibration_that_is_ended_leaves_no_server(cluster: LocalFleet, number: signal.Signals) -> None:
    scratch = cluster.folder / "scratch"
    scratch.mkdir()
    cluster.extra_env["TMPDIR"] = str(scratch)
    words = ("capacity", "predict", "--algorithm", "concurrent", "--calibrate", "--calibrate-users", "50000")
    with cluster.spawn(*words) as process:
        wait_for(
            lambda: any(_holds_keys(one) for one in servers_below(scratch)), "a scratch server that is being filled"
        )
        [server] = servers_below(scratch)
        process.send_signal(number)
        process.wait()
        wait_for(lambda: is_gone(server.pid), "the end of the scratch server")
    if number is signal.SIGKILL:
        # The next calibration removes the folder once it is old enough.
        [left] = scratch.iterdir()
        os.utime(left, (0, 0))
        calibrate(cluster, "--algorithm", "gcra")
    else:
        assert process.returncode == 128 + number
    assert list(scratch.iterdir()) == []


def _holds_keys(server: psutil.Process) -> bool:
    """The memory grew by more than a start needs."""
    try:
        return server.memory_info().rss > 20 * 1024 * 1024
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("predict",), 2),
        (("predict", "--algorithm", "leaky"), 2),
        (("predict", "--algorithm", "gcra", "--users", "0"), 2),
        (("predict", "--algorithm", "gcra", "--users", "-5"), 2),
        (("predict", "--algorithm", "gcra", "--users", "1" + "0" * 30), 2),
        (("predict", "--algorithm", "gcra", "--users", "many"), 2),
        (("predict", "--algorithm", "gcra", "--encoding", "zset"), 2),
        (("predict", "--algorithm", "gcra", "--server", "redis-7.2"), 2),
        (("predict", "--algorithm", "gcra", "--slots", "10"), 2),
        (("predict", "--algorithm", "gcra", "--member", "uuid"), 2),
        (("predict", "--batch", "no-such-file"), 5),
        (("predict", "--batch", "-", "--calibrate"), 2),
        (("model", "--limit", "0"), 2),
        (("compare", "--algorithm", "gcra", "--encoding", "int"), 2),
        (("plan", "--mix", "mix.jsonl"), 2),
        (("plan", "--ram", "1gb"), 2),
        (("plan", "--mix", "mix.jsonl", "--rules", "r.yaml", "--ram", "1gb"), 2),
        (("plan", "--mix", "bad.jsonl", "--ram", "1gb"), 3),
        (("plan", "--mix", "mix.jsonl", "--ram", "1"), 2),
        (("plan", "--mix", "mix.jsonl", "--ram", "0gb"), 2),
        (("plan", "--mix", "mix.jsonl", "--shards", "0"), 2),
        (("plan", "--mix", "mix.jsonl", "--shards", "3", "--fragmentation", "0.5"), 2),
        (("plan", "--mix", "mix.jsonl", "--shards", "3", "--stale", "nan"), 2),
        (("plan", "--mix", "mixed.jsonl", "--shards", "3"), 2),
        (("plan", "--rules", "r.yaml", "--users", "a", "--shards", "3"), 2),
        (("measure", "--sample", "0"), 2),
        (("measure", "--budget", "10"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_bad_input(cluster: LocalFleet, words: tuple[str, ...], code: int) -> None:
    (cluster.folder / "mix.jsonl").write_text(MIX, encoding="utf-8")
    (cluster.folder / "bad.jsonl").write_text(f"{MIX}nonsense\n", encoding="utf-8")
    (cluster.folder / "mixed.jsonl").write_text(
        f'{MIX}{{"algorithm": "gcra", "server": "redis-7.0"}}\n', encoding="utf-8"
    )
    (cluster.folder / "r.yaml").write_text("rules:\n  - {id: a}\n", encoding="utf-8")
    ran = capacity(cluster, *words, "-o", "json", expect=code)
    error = ran.error()
    assert error["message"]
    assert error["hint"]
    assert ran.out == ""


def test_a_batch_from_stdin(cluster: LocalFleet) -> None:
    lines = ['{"id": 1, "algorithm": "gcra"}', "nonsense", '{"id": 3, "algorithm": "concurrent", "users": 5}']
    ran = capacity(cluster, "predict", "--batch", "-", "--server", "valkey-8.1", expect=3, stdin="\n".join(lines))
    first, second, third = (json.loads(line) for line in ran.out.splitlines())
    assert first.keys() == third.keys() == {"id", *PREDICT_KEYS}
    assert (first["id"], second["id"], third["id"]) == (1, None, 3)
    assert first["server"] == "valkey-8.1"
    assert second["error"]["code"] == "usage"


def test_model_and_compare_as_json_and_as_tables(cluster: LocalFleet) -> None:
    model = capacity(cluster, "model", "-o", "json").json()
    assert model.keys() == {"schema", "server", "allocator", "rows", "traffic"}
    compare = capacity(cluster, "compare", "--algorithm", "rolling_window", "-o", "json").json()
    assert compare.keys() == {"schema", "algorithm", "server", "allocator", "limit", "users", "rows"}
    assert {"own", "us_per_op", "gives_up"} < compare["rows"][0].keys()
    assert "rolling_window" in capacity(cluster, "model").out
    assert "packed4" in capacity(cluster, "compare", "--algorithm", "rolling_ring").out


def test_a_plan_for_ten_million_users_in_one_command(cluster: LocalFleet) -> None:
    found = capacity(cluster, "plan", "--mix", "-", "--ram", "4gb", "--cluster", "-o", "json", stdin=MIX).json()
    assert found["fits"] is True
    assert found["per_shard"].keys() == found["after_losing_one"].keys() == SHARD_KEYS
    assert found["shards"] == 3
    assert found["users_that_fit"] > 10_000_000
    assert found["items"][0].keys() == PREDICT_KEYS


def test_a_plan_that_does_not_fit_is_exit_10_and_says_what_would(cluster: LocalFleet) -> None:
    words = ("plan", "--mix", "-", "--ram", "500mb", "--shards", "3", "-o", "json")
    found = capacity(cluster, *words, expect=10, stdin=MIX).json()
    assert found["fits"] is False
    assert found["changes"]


def planned(fleet: LocalFleet, *words: str, text: str = TOPOLOGY, expect: int = 0) -> tuple[Path, Ran]:
    """Write a plan into a topology beside the fleet's own."""
    path = fleet.folder / "written.yaml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o640)
    (fleet.folder / "mix.jsonl").write_text(MIX, encoding="utf-8")
    return path, capacity(fleet, "plan", "--mix", "mix.jsonl", "--write", str(path), *words, expect=expect)


def test_a_plan_is_written_into_a_topology_with_its_comments(cluster: LocalFleet) -> None:
    path, ran = planned(cluster, "--shards", "5", "--yes", "-o", "json")
    after = path.read_text(encoding="utf-8")
    megabytes = ran.json()["maxmemory"] // 2**20
    assert after == TOPOLOGY.replace("256mb", f"{megabytes}mb") + "cluster: {shards: 5}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert "-  maxmemory: 256mb  # to be planned" in ran.err
    assert f"+  maxmemory: {megabytes}mb  # to be planned" in ran.err
    assert sorted(one.name for one in cluster.folder.iterdir()) == ["mix.jsonl", "topology.yaml", "written.yaml"]


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        pytest.param(("--shards", "5"), TOPOLOGY, 9, id="nobody to ask"),
        pytest.param(("--shards", "2", "--yes"), TOPOLOGY, 8, id="too few shards for a cluster"),
        pytest.param(("--shards", "3", "--ram", "64mb", "--yes"), TOPOLOGY, 10, id="does not fit"),
        pytest.param(("--shards", "5", "--yes"), TOPOLOGY.replace("cluster", "sentinel"), 8, id="one shard only"),
        pytest.param(("--shards", "5", "--yes"), TOPOLOGY.replace("version: 1", "version: 2"), 3, id="invalid"),
    ],
)
def test_a_topology_stays_as_it_is(cluster: LocalFleet, words: tuple[str, ...], text: str, code: int) -> None:
    path, _ran = planned(cluster, *words, text=text, expect=code)
    assert path.read_text(encoding="utf-8") == text


def test_reports_are_one_file(cluster: LocalFleet) -> None:
    (cluster.folder / "mix.jsonl").write_text(MIX, encoding="utf-8")
    capacity(cluster, "model", "--html", "model.html")
    capacity(cluster, "plan", "--mix", "mix.jsonl", "--shards", "4", "--html", "plan.html")
    for name in ("model.html", "plan.html"):
        text = (cluster.folder / name).read_text(encoding="utf-8")
        assert text.startswith("<!doctype html>")
        assert text.count("<svg") == 2
    ran = capacity(cluster, "model", "--html", "no/such/folder.html", "-o", "json", expect=6)
    assert "no/such" in ran.error()["message"]


def test_a_rules_file_is_planned_with_its_users(cluster: LocalFleet) -> None:
    rules = cluster.folder / "rules.yaml"
    rules.write_text(
        'version: 1\nrules:\n  - {id: api, algorithm: sliding_counter, limit: 1000, window: 60s, key: "k:{api_key}"}\n',
        encoding="utf-8",
    )
    words = ("plan", "--rules", "rules.yaml", "--users", "api=1000000", "--shards", "3", "-o", "json")
    found: dict[str, Any] = capacity(cluster, *words).json()
    [item] = found["items"]
    assert (item["users"], item["algorithm"], item["limit"]) == (1_000_000, "sliding_counter", 1000)
