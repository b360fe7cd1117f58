"""State of an earlier rlctl on a machine and in a fleet: this rlctl reads it, or reports why it cannot.

tests/data/upgrade/COMMIT has the state folder, topology, saved plan and keys of that commit.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis import RedisCluster

from rlctl.errors import Exit
from tests.local.driver import LocalFleet, cluster_document
from tests.local.rules.files import status

DATA = Path(__file__).parents[1] / "data" / "upgrade"
COMMITS = sorted(path.name for path in DATA.iterdir())


@pytest.fixture(params=COMMITS)
def earlier(request: pytest.FixtureRequest) -> Path:
    return DATA / request.param


@pytest.fixture
def machine(tmp_path: Path, earlier: Path) -> Iterator[LocalFleet]:
    """The machine as the earlier rlctl left it, without its servers."""
    document = yaml.safe_load((earlier / "topology.yaml").read_text(encoding="utf-8"))
    fleet = LocalFleet(folder=tmp_path, document=document)
    fleet.write()
    shutil.copytree(earlier / "home", fleet.home)
    for path in (fleet.home, *fleet.home.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    yield fleet
    fleet.end_all()


@pytest.fixture
def prepared(machine: LocalFleet) -> LocalFleet:
    """The machine after the operator has followed the hint about the earlier record."""
    (machine.home / "fleets" / machine.name / "fleet.json").unlink()
    return machine


@pytest.mark.parametrize("words", [("status",), ("deploy", "--yes"), ("destroy", "--confirm", "limiter")])
def test_an_earlier_record_of_a_fleet_is_refused_with_the_way_on(machine: LocalFleet, words: tuple[str, ...]) -> None:
    """That commit recorded only settings that could not change; this rlctl compares the whole topology."""
    failed = machine.run(*words, "-o", "json", expect=Exit.GUARD).error()
    assert "fleet.json" in failed["message"]
    assert "delete it and run `rlctl deploy` with the topology file of the last deploy" in failed["hint"]


def test_the_history_is_read(machine: LocalFleet) -> None:
    operations = machine.run("history", "-o", "json").json()["operations"]
    assert [(one["command"], one["outcome"], len(one["steps"])) for one in operations] == [
        *(("deploy", "done", 29), ("rules apply", "done", 1), ("rules apply", "done", 1)),
        *(("scripts apply", "done", 0), ("scripts apply", "done", 0), ("deploy", "done", 2)),
    ]
    assert operations[-1]["steps"][0] == {"text": "node-3: start", "outcome": "done"}


def test_a_fleet_whose_servers_are_gone_is_absent(prepared: LocalFleet) -> None:
    assert prepared.status(expect=Exit.NOT_FOUND)["state"] == "absent"


def test_the_secrets_are_those_of_the_fleet(prepared: LocalFleet, earlier: Path) -> None:
    kept = json.loads((earlier / "home" / "fleets" / "limiter" / "secrets.json").read_text(encoding="utf-8"))
    assert prepared.access("limiter")["password"] == kept["users"]["limiter"]
    prepared.run("secrets", "export", "exported.json")
    assert json.loads((prepared.folder / "exported.json").read_text(encoding="utf-8")) == kept


def test_a_saved_plan_is_carried_out_or_stale(prepared: LocalFleet, earlier: Path) -> None:
    """The plan is valid only until a release plans other steps."""
    ran = prepared.run("deploy", "--plan", str(earlier / "plan.json"), "--yes", "-o", "json", expect=None)
    if ran.code != Exit.OK:
        assert ran.code == Exit.GUARD, ran.err
        assert ran.error()["message"].startswith("the saved plan is stale: ")
        assert ran.error()["hint"] == "save a new one: `rlctl deploy --dry-run --plan-out FILE`"
        prepared.deploy()
    assert not prepared.deploy().json()["changed"]
    assert len(prepared.run("history", "-o", "json").json()["operations"]) == 7


def test_stored_rules_and_scripts_are_read(make_fleet: Callable[[dict[str, Any]], LocalFleet], earlier: Path) -> None:
    fleet = make_fleet(cluster_document())
    fleet.deploy()
    store(fleet, json.loads((earlier / "keys.json").read_text(encoding="utf-8")))
    now = status(fleet)
    assert (now["revision"], now["trouble"], [one["why"] for one in now["history"]]) == (
        *(2, None, ["apply rules.yaml"] * 2),
    )
    assert now["rules"][0]["parameters"]["limit"] == 1200
    assert fleet.run("limit", "api-per-key", "ada", "-o", "json").json()["limit"] == 1200
    # The stored rules call the scripts of their time, which can block a shard: they are loaded on request only.
    assert "lacks sliding_counter 1.0.0" in fleet.run("rules", "rollback", "--yes", expect=8).err
    fleet.run("scripts", "apply", "--release", "1.0.0", "--yes")
    fleet.run("rules", "rollback", "--yes")
    assert status(fleet)["rules"][0]["parameters"]["limit"] == 1000
    scripts = fleet.run("scripts", "status", "-o", "json", expect=None)
    assert scripts.code in {Exit.OK, Exit.CHANGES, Exit.DEGRADED}, scripts.err
    fleet.run("scripts", "apply", "--yes")
    assert fleet.run("scripts", "status", "-o", "json").json()["drift"] == []


def store(fleet: LocalFleet, keys: dict[str, Any]) -> None:
    access = fleet.access()
    host, port = access["nodes"][0].split(":")
    login = {"username": access["username"], "password": access["password"]}
    with closing(RedisCluster(host=host, port=int(port), decode_responses=True, **login)) as admin:
        for name, value in keys.items():
            admin.delete(name)
            match value:
                case str():
                    admin.set(name, value)
                case dict():
                    admin.hset(name, mapping=value)
                case list():
                    admin.rpush(name, *value)
