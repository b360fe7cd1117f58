"""site.yml and rlctl produce the same state. A rolling restart, host by host, keeps the fleet up."""

from collections.abc import Callable
from pathlib import Path

from tests.hosts.playbooks import HandRun
from tests.lab.hosts import Lab


def test_site_then_deploy_agree_and_rolling_keeps_the_fleet(make_lab: Callable[..., Lab], tmp_path: Path) -> None:
    run = HandRun.create(make_lab("bookworm", "bookworm", "bookworm"), tmp_path)
    assert run.must_play("site").recap("localhost")["changed"] == 1
    agreed = run.rlctl("deploy", "--dry-run")
    assert agreed.returncode == 0, agreed.stdout + agreed.stderr
    assert {run.must_play("site").recap(host)["changed"] for host in ("h1", "h2", "h3", "localhost")} == {0}
    before = {name: pid(run, name) for name in ("node-0", "node-1", "node-2", "sentinel-0")}
    predicted = run.must_play("rolling", "--check")
    assert predicted.changes() == run.must_play("rolling").changes() != set()
    assert all(pid(run, name) != old for name, old in before.items())
    assert run.rlctl("status").returncode == 0
    with run.admin("node-0") as admin:
        assert admin.role()[0] == "slave"


def pid(run: HandRun, name: str) -> str:
    return run.host(run.spec(name)).exec("systemctl", "show", "-p", "MainPID", "--value", run.unit(name)).strip()
