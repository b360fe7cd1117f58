"""A Lua release on a real fleet: loaded by deploy, found missing, loaded again, checked, rolled back."""

import hashlib
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rlctl.scripts.release import load_release
from tests.local.driver import PATIENCE_S, LocalFleet, cluster_document, wait_for
from tests.local.failures import assert_fails

RELEASE, FIRST = load_release(), load_release(wanted="1.0.0")
ANOTHER = "9.0.0"
NAMES = [script.name for script in RELEASE.scripts]
SHA1S = sorted(script.sha1 for script in RELEASE.scripts)
NODES = [f"node-{number}" for number in range(6)]


def another_release(folder: Path) -> Path:
    """The shipped releases and a later one with one changed script."""
    lua = folder / "lua"
    shutil.copytree(RELEASE.folder, lua)
    gcra = next(script for script in RELEASE.scripts if script.name == "gcra")
    changed = gcra.source + b"-- another version\n"
    (lua / f"gcra-{ANOTHER}.lua").write_bytes(changed)
    manifest = (lua / "manifest.yaml").read_text(encoding="utf-8")
    entry = next(block for block in re.split(r"(?=^  - name: )", manifest, flags=re.MULTILINE) if gcra.sha1 in block)
    sha1 = hashlib.sha1(changed, usedforsecurity=False).hexdigest()
    newer = entry.replace(gcra.version, ANOTHER).replace(gcra.sha1, sha1)
    pins = [line for line in manifest.splitlines() if line.startswith("    scripts: {")][-1]
    release = f"  - version: {ANOTHER}\n{pins.replace(f'gcra: {gcra.version}', f'gcra: {ANOTHER}')}\n"
    manifest = manifest.replace("scripts:\n  - name", f"{release}scripts:\n  - name", 1).replace(entry, entry + newer)
    (lua / "manifest.yaml").write_text(manifest, encoding="utf-8")
    return lua


def test_list_needs_no_fleet_and_names_everything(cluster: LocalFleet) -> None:
    document = cluster.run("scripts", "list", "-o", "json").json()
    assert document["schema"] == "rlctl.scripts-list/1"
    for script in document["scripts"]:
        source = Path(script["file"]).read_bytes()
        assert hashlib.sha1(source, usedforsecurity=False).hexdigest() == script["sha1"]
        assert set(script) == {"name", "version", "sha1", "file", "args", "reply", "state"}
        assert script["reply"] == ["allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "reason"]
    assert [script["name"] for script in document["scripts"]] == NAMES


def test_deploy_loads_the_release_on_every_node(shared_cluster: LocalFleet) -> None:
    status = shared_cluster.run("scripts", "status", "-o", "json").json()
    assert status["drift"] == []
    assert [node["name"] for node in status["nodes"]] == NODES
    assert all(node["present"] == SHA1S and node["missing"] == [] and node["reachable"] for node in status["nodes"])
    verdicts = shared_cluster.run("scripts", "verify", "-o", "json").json()["verdicts"]
    assert len(verdicts) == 3 * len(NAMES)
    assert all(verdict["ok"] for verdict in verdicts)


def test_the_sentinel_kind_too(shared_sentinel: LocalFleet) -> None:
    status = shared_sentinel.run("scripts", "status", "-o", "json").json()
    assert [node["present"] for node in status["nodes"]] == [SHA1S] * 3
    assert len(shared_sentinel.run("scripts", "verify", "-o", "json").json()["verdicts"]) == len(NAMES)


def test_verify_fails_where_the_runtime_user_may_not_call(cluster: LocalFleet) -> None:
    cluster.deploy()
    with cluster.connect("node-1") as admin:
        admin.execute_command("ACL", "SETUSER", "limiter", "-get")
    ran = cluster.run("scripts", "verify", "-o", "json", expect=15)
    wrong = [verdict for verdict in ran.json()["verdicts"] if not verdict["ok"]]
    assert {verdict["node"] for verdict in wrong} == {"node-1"}
    assert "user executing the script" in wrong[0]["evidence"]
    checks = cluster.run("doctor", "-o", "json", expect=12).json()["checks"]
    assert {check["subject"] for check in checks if check["name"] == "scripts-run" and check["fix"]} == {"node-1"}


def test_with_more_shards_the_registrys_keys_lie_apart(make_fleet: Callable[[dict[str, Any]], LocalFleet]) -> None:
    shape = {"shards": 6, "replicas": 0, "node_timeout": "1s"}
    fleet = make_fleet(cluster_document(cluster=shape))
    fleet.deploy()
    entries = fleet.run("scripts", "history", "-o", "json").json()["entries"]
    assert [entry["release"] for entry in entries] == [RELEASE.version]


def test_a_flushed_replica_is_named_and_mended(cluster: LocalFleet) -> None:
    cluster.deploy()
    with cluster.connect("node-3") as admin:
        admin.script_flush()
    status = cluster.run("scripts", "status", "-o", "json", expect=10).json()
    assert {(drift["class"], drift["node"]) for drift in status["drift"]} == {("REPLICA_ONLY_MISSING", "node-3")}
    assert sorted(drift["script"] for drift in status["drift"]) == sorted(NAMES)
    assert [node["scripts_missing"] for node in cluster.status(expect=11)["nodes"]] == [0, 0, 0, len(NAMES), 0, 0]
    assert [step["kind"] for step in cluster.run("scripts", "plan", "-o", "json", expect=10).json()["steps"]] == [
        "load-scripts"
    ]
    assert cluster.run("scripts", "apply", "--dry-run", "-o", "json", expect=10).json()["drift"]
    report = cluster.run("scripts", "apply", "--yes", "-o", "json").json()
    assert report["changed"]
    assert report["drift"] == []
    assert not cluster.run("scripts", "apply", "--yes", "-o", "json").json()["changed"]
    entries = cluster.run("scripts", "history", "-o", "json").json()["entries"]
    assert [(entry["release"], entry["state"]) for entry in entries] == [(RELEASE.version, "applied")] * 2


def test_apply_with_a_node_down_is_partly_done_and_says_so(cluster: LocalFleet) -> None:
    cluster.deploy()
    os.kill(cluster.pid("node-4"), signal.SIGKILL)
    wait_for(lambda: "down" in cluster.run("status", expect=None).out, "the node counts as down")
    ran = cluster.run("scripts", "apply", "--yes", "-o", "json", expect=13)
    assert "node-4" in ran.error()["message"]
    status = cluster.run("scripts", "status", "-o", "json", expect=10).json()
    assert [drift["class"] for drift in status["drift"]] == ["UNREACHABLE"]
    cluster.deploy()
    cluster.run("scripts", "apply", "--yes")
    cluster.run("scripts", "status")


def test_a_shard_that_is_gone_is_said_and_not_taken_for_nothing(cluster: LocalFleet) -> None:
    """The third shard has the record of applied releases, which is unknown without it."""
    cluster.deploy()
    cluster.kill("node-2", "node-5")
    wait_for(lambda: "down" in cluster.run("status", expect=None).out, "the nodes count as down")
    for words in (("history",), ("rollback", "--yes")):
        assert_fails(cluster, "scripts", *words, code=6, name="unreachable", says="stores the history")
    assert "unknown, its primary does not answer" in cluster.run("scripts", "status", expect=10).out
    ran = cluster.run("scripts", "verify", "-o", "json", expect=15)
    assert len(ran.json()["verdicts"]) == 2 * len(NAMES)
    assert "shards without a primary: 1" in ran.error()["message"]


def test_a_full_fleet_refuses_a_release_and_says_why(cluster: LocalFleet, tmp_path: Path) -> None:
    cluster.deploy()
    lua = str(another_release(tmp_path))
    with cluster.connect("node-2") as keeper:
        keeper.config_set("maxmemory", "1mb")
        assert_fails(
            cluster,
            "scripts",
            "apply",
            "--lua",
            lua,
            "--yes",
            code=8,
            name="refused",
            says="refuses to store the registry",
        )
    assert [entry["outcome"] for entry in cluster.run("history", "-o", "json").json()["operations"]][-1] == "refused"


def test_two_releases_side_by_side_and_back(cluster: LocalFleet, tmp_path: Path) -> None:
    cluster.deploy()
    lua = str(another_release(tmp_path))
    assert cluster.run("scripts", "status", "--lua", lua, "-o", "json", expect=10).json()["release"] == ANOTHER
    assert cluster.run("scripts", "apply", "--lua", lua, "-o", "json", expect=9).error()["hint"]
    cluster.run("scripts", "apply", "--lua", lua, "--yes")
    cluster.run("scripts", "status", "--lua", lua)
    # Both releases answer: the old one stays loaded until no service uses it.
    old = cluster.run("scripts", "status", "-o", "json", expect=10).json()
    assert [drift["class"] for drift in old["drift"]] == ["UNKNOWN_RELEASE"]
    cluster.run("scripts", "rollback", "--lua", lua, "--yes")
    entries = cluster.run("scripts", "history", "-o", "json").json()["entries"]
    assert [entry["release"] for entry in entries] == [RELEASE.version, ANOTHER, RELEASE.version]


def test_a_fleet_of_the_first_release_moves_to_the_shipped_one_and_back(cluster: LocalFleet) -> None:
    cluster.deploy()
    for node in NODES:
        with cluster.connect(node) as admin:
            admin.script_flush()
    cluster.run("scripts", "apply", "--release", FIRST.version, "--yes")
    cluster.run("scripts", "status", "--release", FIRST.version)
    replaced = {script.name for script in RELEASE.scripts if script not in FIRST.scripts}
    drift = cluster.run("scripts", "status", "-o", "json", expect=10).json()["drift"]
    assert {entry["class"] for entry in drift} == {"MISSING", "UNKNOWN_RELEASE"}
    assert {entry["script"] for entry in drift if entry["class"] == "MISSING"} == replaced
    assert {entry["node"] for entry in drift if entry["class"] == "MISSING"} == set(NODES)
    steps = cluster.run("scripts", "plan", "-o", "json", expect=10).json()["steps"]
    assert [step["kind"] for step in steps] == ["load-scripts"] * len(NODES)
    cluster.run("scripts", "apply", "--yes")
    cluster.run("scripts", "status")
    cluster.run("scripts", "plan")
    cluster.run("scripts", "rollback", "--yes")
    cluster.run("scripts", "status", "--release", FIRST.version)
    # A rollback unloads nothing, so services on either release get answers.
    newest = cluster.run("scripts", "status", "-o", "json", expect=10).json()
    assert [entry["class"] for entry in newest["drift"]] == ["UNKNOWN_RELEASE"]
    entries = cluster.run("scripts", "history", "-o", "json").json()["entries"]
    assert [entry["release"] for entry in entries] == [FIRST.version, RELEASE.version, FIRST.version, RELEASE.version]


def test_the_first_evalsha_after_a_failover_succeeds(cluster: LocalFleet) -> None:
    cluster.deploy()
    os.kill(cluster.pid("node-0"), signal.SIGKILL)

    def is_primary(client: Redis) -> bool:
        return client.execute_command("ROLE")[0] == "master"

    with cluster.connect("node-3") as promoted:
        wait_for(lambda: is_primary(promoted), "the replica is promoted")
        sha1 = next(script.sha1 for script in RELEASE.scripts if script.name == "gcra")
        slots = promoted.execute_command("CLUSTER", "COUNTKEYSINSLOT", 0)
        assert slots == 0
        # A key in slot 3560, which belongs to the first shard.
        assert promoted.evalsha(sha1, 1, "rl:{06S}:x:gcra:1", 5, 1, 1000)[0] == 1


def test_the_watcher_mends_a_cache_again_and_again_also_while_another_node_is_down(cluster: LocalFleet) -> None:
    cluster.deploy()
    cluster.kill("node-4")
    wait_for(lambda: "down" in cluster.run("status", expect=None).out, "the node counts as down")
    watcher = cluster.spawn("scripts", "watch", "--release", RELEASE.version, "--interval", "200ms")
    try:
        with cluster.connect("node-2") as admin:
            for _ in range(2):
                admin.script_flush()
                wait_for(lambda: all(admin.script_exists(*SHA1S)), "the watcher has loaded the scripts again")
        # The kill is mostly during the check after loading.
        watcher.send_signal(signal.SIGINT)
        _out, err = watcher.communicate(timeout=PATIENCE_S)
    finally:
        watcher.kill()
        watcher.communicate()
    assert watcher.returncode == 130, err
    assert "node-4" in err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("status", "--lua", "nowhere"), 5),
        (("status", "--release", "9.9.9"), 5),
        (("rollback", "--yes"), 5),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_refusals(shared_cluster: LocalFleet, words: tuple[str, ...], code: int) -> None:
    ran = shared_cluster.run("scripts", *words, "-o", "json", expect=code)
    assert ran.error()["hint"]


def test_an_edited_script_is_refused_by_name(cluster: LocalFleet, tmp_path: Path) -> None:
    lua = another_release(tmp_path)
    with (lua / "gcra-1.0.0.lua").open("a", encoding="utf-8") as stream:
        stream.write("-- edited\n")
    ran = cluster.run("scripts", "list", "--lua", str(lua), expect=3)
    assert "gcra 1.0.0: gcra-1.0.0.lua was edited" in ran.err


def test_a_plan_shows_what_the_runtime_user_gains(shared_cluster: LocalFleet, tmp_path: Path) -> None:
    lua = another_release(tmp_path)
    manifest = lua / "manifest.yaml"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(
        text.replace("commands: [get, set, time]", "commands: [get, hset, set, time]"), encoding="utf-8"
    )
    planned = shared_cluster.run("scripts", "plan", "--lua", str(lua), "-o", "json", expect=10).json()
    assert planned["rights"] == {"user": "limiter", "gained": ["+hset"], "lost": []}
    assert (
        "user limiter gains +hset"
        in shared_cluster.run("scripts", "apply", "--lua", str(lua), "--dry-run", expect=10).out
    )
    assert shared_cluster.run("scripts", "plan", "-o", "json").json()["rights"] is None
    manifest.write_text(text.replace("[get, set, time]", "[get, set, time, 'get ~* +@all']", 1), encoding="utf-8")
    refused = shared_cluster.run("scripts", "apply", "--lua", str(lua), "--yes", expect=3)
    assert "manifest.yaml:" in refused.err
    assert "`get ~* +@all` is not a command that a limiter script may call" in refused.err


def test_scripts_of_an_absent_fleet(cluster: LocalFleet) -> None:
    assert cluster.run("scripts", "status", expect=5).out == ""
