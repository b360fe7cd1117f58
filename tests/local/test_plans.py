"""A plan is a value: shown without side effects, saved, executed once, refused after any change of the fleet."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.local.driver import LocalFleet, cluster_document, sentinel_document
from tests.local.failures import assert_fails
from tests.local.trees import run_ids, settled_files, tree

Make = Callable[[dict[str, Any]], LocalFleet]


@pytest.mark.parametrize("document", [cluster_document, sentinel_document], ids=["cluster", "sentinel"])
def test_a_dry_run_leaves_no_trace(make_fleet: Make, document: Callable[[], dict[str, Any]]) -> None:
    fleet = make_fleet(document())
    before = tree(fleet.folder)
    for words in (("--dry-run",), ("-o", "json", "--dry-run"), ("-v", "--dry-run", "--yes")):
        ran = fleet.run("deploy", *words, expect=10)
        assert "node-0: start" in ran.out
    assert tree(fleet.folder) == before
    assert fleet.processes() == []


def test_a_saved_plan_of_a_new_fleet_is_carried_out(cluster: LocalFleet) -> None:
    plan = cluster.folder / "plan.json"
    cluster.run("deploy", "--dry-run", "--plan-out", str(plan), expect=10)
    assert not cluster.home.exists()
    assert stat.S_IMODE(plan.stat().st_mode) == 0o600
    planned = json.loads(plan.read_text(encoding="utf-8"))
    done = cluster.deploy("--plan", str(plan)).json()
    assert [step["text"] for step in done["steps"]] == [step["text"] for step in planned["steps"]]
    assert cluster.status()["state"] == "healthy"
    cluster.run("deploy", "--dry-run", expect=0)
    # A plan that was executed cannot be executed again.
    assert_fails(cluster, "deploy", "--yes", "--plan", str(plan), code=8, name="stale-plan", says="stale")


def test_a_plan_for_a_new_fleet_is_stale_once_the_topology_changed(sentinel: LocalFleet) -> None:
    plan = sentinel.folder / "plan.json"
    sentinel.run("deploy", "--dry-run", "--plan-out", str(plan), expect=10)
    sentinel.document["memory"]["maxmemory"] = "65mb"
    sentinel.write()
    assert_fails(sentinel, "deploy", "--yes", "--plan", str(plan), code=8, name="stale-plan", says="the topology")
    assert sentinel.processes() == []
    sentinel.document["memory"]["maxmemory"] = "64mb"
    sentinel.write()
    sentinel.deploy("--plan", str(plan))
    assert sentinel.status()["state"] == "healthy"


def test_plans_go_stale_when_the_fleet_moves(cluster: LocalFleet) -> None:
    cluster.deploy()
    secrets = json.loads((cluster.home / "fleets/limiter/secrets.json").read_text(encoding="utf-8"))["users"].values()
    cluster.document["memory"]["maxmemory"] = "65mb"
    cluster.write()
    plan = cluster.folder / "plan.json"
    cluster.run("deploy", "--dry-run", "--plan-out", str(plan), expect=10)
    text = plan.read_text(encoding="utf-8")
    assert not any(secret in text for secret in secrets)
    assert json.loads(text)["schema"] == "rlctl.plan/1"
    cluster.kill("node-5")
    before = settled_files(cluster), run_ids_of_living(cluster)
    assert_fails(cluster, "deploy", "--yes", "--plan", str(plan), code=8, name="stale-plan", says="the fleet")
    assert (settled_files(cluster), run_ids_of_living(cluster)) == before
    # The same plan is valid again, because only the dead node had changed and it is back.
    cluster.document["memory"]["maxmemory"] = "64mb"
    cluster.write()
    cluster.deploy()
    cluster.document["memory"]["maxmemory"] = "65mb"
    cluster.write()
    done = cluster.deploy("--plan", str(plan)).json()
    assert {step["kind"] for step in done["steps"]} == {"configure"}


def run_ids_of_living(fleet: LocalFleet) -> dict[str, int]:
    return {process.cwd(): process.pid for process in fleet.processes()}


def test_a_plan_of_another_fleet(shared_cluster: LocalFleet, shared_sentinel: LocalFleet, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    shared_sentinel.run("deploy", "--dry-run", "--plan-out", str(plan))
    before = settled_files(shared_cluster)
    assert_fails(shared_cluster, "deploy", "--yes", "--plan", str(plan), code=8, name="stale-plan", says="name")
    assert settled_files(shared_cluster) == before


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"null",
        b'"plan"',
        b"\xff\xfe\x00",
        b'{"fleet": "shared", "fingerprints": [], "steps": []}',
    ],
    ids=["empty", "torn", "list", "no keys", "null", "text", "binary", "wrong shape"],
)
def test_garbage_is_no_plan(shared_cluster: LocalFleet, tmp_path: Path, content: bytes) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(content)
    assert_fails(
        shared_cluster, "deploy", "--yes", "--plan", str(plan), code=3, name="invalid-file", says="plan.json:1"
    )


def test_no_plan_and_no_place_for_one(shared_cluster: LocalFleet, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere" / "plan.json")
    assert_fails(shared_cluster, "deploy", "--yes", "--plan", nowhere, code=5, name="not-found", says="plan.json")
    assert_fails(shared_cluster, "deploy", "--dry-run", "--plan-out", nowhere, code=6, name="unreachable")
    assert_fails(shared_cluster, "deploy", "--yes", "--plan", str(tmp_path), code=3, name="invalid-file")


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_a_second_deploy_touches_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    fleet: LocalFleet = request.getfixturevalue(f"shared_{kind}")
    before = settled_files(fleet), run_ids(fleet)
    for _ in range(2):
        assert not fleet.deploy().json()["changed"]
    assert fleet.run("deploy").out == f"{fleet.name}: healthy, nothing to do\n"
    assert (settled_files(fleet), run_ids(fleet)) == before
