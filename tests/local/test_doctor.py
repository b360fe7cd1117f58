"""doctor before a deploy, on a healthy fleet and on a damaged one; deploy's error for an unusable server."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.local.driver import LocalFleet
from tests.local.failures import assert_fails
from tests.local.servers import script

KEYS = {"name", "severity", "subject", "evidence", "fix", "runbook"}


def checks(fleet: LocalFleet, expect: int | None = None, **more_env: str) -> list[dict[str, str]]:
    ran = fleet.run("doctor", "-o", "json", expect=expect, **more_env)
    document = ran.json()
    assert set(document) == {"schema", "name", "checks"}
    assert document["schema"] == "rlctl.doctor/1"
    severities = {check["severity"] for check in document["checks"]}
    wanted = 12 if "critical" in severities else 11 if severities & {"warning", "unknown"} else 0
    assert ran.code == wanted, ran.out
    return document["checks"]


def test_before_the_first_deploy(cluster: LocalFleet) -> None:
    found = checks(cluster)
    assert all(set(check) == KEYS for check in found)
    assert all(check["evidence"] for check in found)
    assert all(check["fix"] for check in found if check["severity"] != "ok")
    by_name = {check["name"]: check for check in found}
    assert by_name["server"]["severity"] == "ok"
    assert by_name["ports"]["severity"] == "ok"
    assert not cluster.home.exists()


def test_a_healthy_fleet(shared_cluster: LocalFleet, shared_sentinel: LocalFleet) -> None:
    for fleet in (shared_cluster, shared_sentinel):
        found = checks(fleet)
        # Checks of the machine may warn; those of the fleet may not.
        own = {check["name"]: check["severity"] for check in found if check["subject"] != "this machine"}
        assert {"fleet", "ports", "file-modes", "memory-used"} <= own.keys()
        assert "critical" not in own.values()
        text = fleet.run("doctor", expect=None).out
        assert "ok fleet" not in text
        assert text.splitlines()[-1].endswith("-v shows them all")
        verbose = fleet.run("doctor", "-v", expect=None).out
        assert all(f"{check['severity']} {check['name']} (" in verbose for check in found)


def test_a_damaged_fleet(cluster: LocalFleet) -> None:
    cluster.deploy()
    exposed = cluster.node_folder("node-2") / "static.conf"
    exposed.chmod(0o644)
    cluster.kill("node-4")
    by_name = {check["name"]: check for check in checks(cluster, expect=12)}
    assert by_name["file-modes"]["severity"] == "critical"
    assert "node-2/static.conf" in by_name["file-modes"]["evidence"]
    assert (by_name["node-down"]["subject"], by_name["node-down"]["severity"]) == ("node-4", "warning")
    assert by_name["node-down"]["fix"] == "rlctl deploy"
    table = cluster.run("doctor", expect=12).out
    assert table.startswith("critical file-modes")
    exposed.chmod(0o600)
    cluster.deploy()
    assert {check["severity"] for check in checks(cluster) if check["name"] in {"fleet", "file-modes"}} == {"ok"}


def missing(folder: Path) -> Path:
    return folder / "nowhere"


def a_folder(folder: Path) -> Path:
    return folder


def not_executable(folder: Path) -> Path:
    return script(folder / "server", "exit 0", mode=0o644)


def no_program(folder: Path) -> Path:
    path = folder / "server"
    path.write_bytes(os.urandom(64))
    path.chmod(0o755)
    return path


def something_else(folder: Path) -> Path:
    return script(folder / "server", "echo hello; exit 3")


def too_old(folder: Path) -> Path:
    return script(folder / "server", 'echo "Redis server v=6.2.0 sha=00000000:0 malloc=libc bits=64 build=0"')


def another_family(folder: Path) -> Path:
    return script(folder / "server", 'echo "Valkey server v=8.0.1 sha=00000000:0 malloc=libc bits=64 build=0"')


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (missing, "No such file"),
        (a_folder, "cannot run"),
        (not_executable, "Permission denied"),
        (no_program, "cannot run"),
        (something_else, "does not answer like"),
        (too_old, "redis 6.2.0; rlctl needs 7.0"),
        (another_family, "valkey 8.0.1, the topology says redis"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_server_that_cannot_be_used(
    cluster: LocalFleet, tmp_path: Path, make: Callable[[Path], Path], says: str
) -> None:
    program = str(make(tmp_path))
    assert_fails(cluster, "deploy", "--yes", code=6, name="unreachable", says=says, RLCTL_REDIS_SERVER=program)
    assert says in cluster.run("deploy", "--dry-run", expect=6, RLCTL_REDIS_SERVER=program).err
    assert cluster.processes() == []
    assert list((cluster.home / "fleets").iterdir()) == []
    [server] = [check for check in checks(cluster, expect=12, RLCTL_REDIS_SERVER=program) if check["name"] == "server"]
    assert server["severity"] == "critical"
    assert says in server["evidence"]
    assert cluster.run("status", expect=5, RLCTL_REDIS_SERVER=program).err == ""


def test_no_server_on_path(cluster: LocalFleet, tmp_path: Path) -> None:
    assert_fails(
        cluster, "deploy", "--yes", code=6, name="unreachable", says="redis-server is not on PATH", PATH=str(tmp_path)
    )
    named = shutil.which("redis-server")
    assert named
    cluster.run("deploy", "--dry-run", expect=10, PATH=str(tmp_path), RLCTL_REDIS_SERVER=named)


@pytest.mark.parametrize("where", ["below a file", "in /proc"])
def test_a_home_that_cannot_be_written(cluster: LocalFleet, where: str) -> None:
    blocker = cluster.folder / "blocker"
    blocker.write_text("", encoding="utf-8")
    home = str(blocker / "home") if where == "below a file" else "/proc/rlctl-home"
    assert_fails(cluster, "deploy", "--yes", code=6, name="unreachable", says=home, RLCTL_HOME=home)
    assert cluster.processes() == []
    assert cluster.run("status", "-o", "json", expect=5, RLCTL_HOME=home).json()["state"] == "absent"
    assert cluster.run("history", RLCTL_HOME=home).out
    doctor = cluster.run("doctor", expect=None, RLCTL_HOME=home)
    assert doctor.code in {0, 11, 12}
    assert "Traceback" not in doctor.err
    assert_fails(cluster, "secrets", "export", "s.json", code=5, name="not-found", RLCTL_HOME=home)


def test_a_home_that_is_a_file(cluster: LocalFleet) -> None:
    cluster.home.write_text("", encoding="utf-8")
    assert_fails(cluster, "deploy", "--yes", code=6, name="unreachable", says=str(cluster.home))
    assert cluster.home.read_text(encoding="utf-8") == ""


def gate(fleet: LocalFleet, operation: str, expect: int) -> dict[str, object]:
    document = fleet.run("doctor", "--gate", operation, "-o", "json", expect=expect).json()
    assert set(document) == {"schema", "name", "checks", "gate"}
    assert {check["name"] for check in document["checks"]} == set(document["gate"]["closed_by"])
    return document["gate"]


def test_gates(cluster: LocalFleet) -> None:
    assert gate(cluster, "deploy", 0) == {"operation": "deploy", "open": True, "closed_by": []}
    for operation in ("failover", "drill", "release"):
        assert_fails(cluster, "doctor", "--gate", operation, code=5, name="not-found", says="is not deployed")
    cluster.deploy()
    for operation in ("deploy", "failover", "drill", "release"):
        assert gate(cluster, operation, 0)["open"] is True
    assert cluster.run("doctor", "--gate", "failover").out == "failover: may begin\n"
    cluster.kill("node-3")
    assert gate(cluster, "deploy", 0)["open"] is True
    assert gate(cluster, "failover", 8) == {
        "operation": "failover",
        "open": False,
        "closed_by": ["no-replica", "node-down"],
    }
    told = cluster.run("doctor", "--gate", "release", expect=8).out.splitlines()
    assert told[-1] == "release: must not begin: node-down"
    cluster.run("doctor", "--gate", "upgrade", expect=2)
