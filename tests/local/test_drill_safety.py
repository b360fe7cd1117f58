"""Every fault of a drill is healed: after a kill, after a stop, as an unprivileged user, and on the live fleet."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.drills import (
    drill,
    journal,
    kill_at,
    kill_carriers,
    made,
    processes_of,
    run_folder,
)
from tests.driver import Ran
from tests.local.driver import PATIENCE_S, LocalFleet, cluster_document, is_gone, sentinel_document, wait_for
from tests.local.terminal import at_terminal

MakeFleet = Callable[[dict[str, Any]], LocalFleet]


@pytest.fixture
def path_without_unshare(tmp_path: Path) -> str:
    """A machine without user namespaces."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in ("redis-server", "redis-cli"):
        found = shutil.which(program)
        if found:
            (folder / program).symlink_to(found)
    return str(folder)


@pytest.mark.parametrize("event", ["ordered", "loaded", "burst", "mend"])
def test_a_killed_sandbox_takes_everything_along(make_fleet: MakeFleet, event: str) -> None:
    fleet = make_fleet(cluster_document(name="killed"))
    folder = kill_at(fleet, event, "split-brain")

    wait_for(lambda: not processes_of(folder), what="every process of the run gone")
    listed = fleet.run("failover-drill", "list", "-o", "json").json()["runs"]
    assert [run["state"] for run in listed] == ["killed"]
    fleet.run("failover-drill", "heal")
    assert not (folder / "twin").exists()
    assert fleet.run("failover-drill", "heal").out.strip() == "nothing to heal"
    assert fleet.run("failover-drill", "report").out.strip() == str(folder / "report.html")
    run = fleet.run("failover-drill", "show", "--run", "-o", "json").json()["runs"][0]
    assert run["verdict"] == "inconclusive"
    assert run["lost"] is None


@pytest.mark.parametrize("event", ["deployed", "burst", "kill"])
def test_the_watchdog_removes_a_twin_without_sandbox(
    make_fleet: MakeFleet, path_without_unshare: str, event: str
) -> None:
    fleet = make_fleet(cluster_document(name="watched"))
    fleet.extra_env["PATH"] = path_without_unshare
    folder = kill_at(fleet, event, "write-loss")

    wait_for(lambda: not processes_of(folder) and not (folder / "twin").exists(), what="the twin removed")
    assert '"swept"' in journal(folder)


def test_without_namespaces_redis_own_switches_cut(make_fleet: MakeFleet, path_without_unshare: str) -> None:
    fleet = make_fleet(sentinel_document(name="switches"))
    fleet.extra_env["PATH"] = path_without_unshare
    run = drill(fleet, "write-loss")

    assert run["lost"] > 0
    assert run["fault"]["verified"] is True
    assert "switches" in run["fault"]["method"]
    assert "unshare" in run["why_no_sandbox"]
    refused = fleet.run("failover-drill", "run", "split-brain", "-o", "json", expect=8).error()
    assert "unshare" in refused["message"]


def test_somebody_without_rights_can_drill(make_fleet: MakeFleet) -> None:
    """If the tests run as root, drop its capabilities, so that the drill may only map its own user."""
    fleet = make_fleet(cluster_document(name="nobody"))
    powerless = ["setpriv", "--bounding-set=-all,+setfcap", "--inh-caps=-all"] if os.geteuid() == 0 else []
    argv = [*powerless, *fleet.argv("failover-drill", "run", "split-brain", "-o", "json")]

    def attempt() -> Ran:
        done = subprocess.run(argv, env=fleet.env(), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        return Ran(code=done.returncode, out=done.stdout, err=done.stderr)

    [run] = made(attempt, "split-brain without rights")
    assert run["fault"]["verified"] is True


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_stopped_drill_cleans_up(make_fleet: MakeFleet, number: signal.Signals, code: int) -> None:
    fleet = make_fleet(cluster_document(name="stopped"))
    started = fleet.spawn("failover-drill", "run", "split-brain")
    wait_for(lambda: '"event": "cut"' in journal(run_folder(fleet)), what="the cut")
    folder = run_folder(fleet)
    assert folder is not None
    started.send_signal(number)
    started.communicate(timeout=PATIENCE_S)

    assert started.returncode == code
    assert '"cleaned"' in journal(folder)
    assert not processes_of(folder)
    assert not (folder / "twin").exists()


@pytest.mark.parametrize(("how", "code"), [("ctrl-c", 130), ("closed", 129)])
def test_a_drill_at_a_terminal_cleans_up(make_fleet: MakeFleet, how: str, code: int) -> None:
    """A terminal signals all processes in its foreground. The process of the drill must not get the signal twice."""
    fleet = make_fleet(cluster_document(name="seated"))
    with at_terminal(fleet, "failover-drill", "run", "split-brain") as terminal:
        wait_for(lambda: '"event": "cut"' in journal(run_folder(fleet)), what="the cut")
        if how == "closed":
            terminal.hang_up()
        else:
            terminal.press(b"\x03")
        assert terminal.process.wait(timeout=PATIENCE_S) == code
    folder = run_folder(fleet)
    assert folder is not None
    assert '"cleaned"' in journal(folder)
    assert not processes_of(folder)
    assert not (folder / "twin").exists()


def test_what_its_process_leaves_behind_rlctl_removes(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(cluster_document(name="left"))
    started = fleet.spawn("failover-drill", "run", "split-brain")
    wait_for(lambda: '"event": "cut"' in journal(run_folder(fleet)), what="the cut")
    folder = run_folder(fleet)
    assert folder is not None
    kill_carriers(started)
    _out, err = started.communicate(timeout=PATIENCE_S)

    assert started.returncode == 6
    assert f"run {folder.name} ended with" in err
    assert not processes_of(folder)
    assert not (folder / "twin").exists()
    assert fleet.run("failover-drill", "heal").out.strip() == "nothing to heal"


@pytest.fixture(params=[cluster_document, sentinel_document], ids=["cluster", "sentinel"])
def live(request: pytest.FixtureRequest, make_fleet: MakeFleet) -> LocalFleet:
    """A deployed fleet that allows drills, with short timers."""
    fleet = make_fleet(live_document(request.param))
    fleet.deploy()
    return fleet


@pytest.fixture(scope="module", params=[cluster_document, sentinel_document], ids=["cluster", "sentinel"])
def refusing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """The same fleet, for tests that end before they change it."""
    fleet = LocalFleet(folder=tmp_path_factory.mktemp("refusing"), document=live_document(request.param))
    fleet.write()
    try:
        fleet.deploy()
        yield fleet
    finally:
        fleet.end_all()


def live_document(make: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    document = make(name="live") | {"drills": {"allow": True}}
    document.setdefault("cluster", {})["node_timeout"] = "2s"
    document.setdefault("sentinel", {})["down_after"] = "2s"
    return document


def test_a_drill_on_the_live_fleet(live: LocalFleet) -> None:
    run = drill(live, "write-loss", "--live", "--confirm", "live")

    assert run["verdict"] == "pass"
    assert run["live"] is True
    assert run["lost"] > 0
    assert run["heal"] == {"ok": True, "residue": []}
    assert live.status()["state"] == "healthy"
    assert live.run("history", "-o", "json").json()["operations"][-1]["command"] in {"failover-drill", "deploy"}
    assert "failover-drill" in live.run("history").out


@pytest.mark.parametrize(("scenario", "event"), [("write-loss", "burst"), ("write-loss", "kill"), ("pause", "pause")])
def test_the_watchdog_heals_a_live_fleet(live: LocalFleet, scenario: str, event: str) -> None:
    kill_at(live, event, scenario, "--live", "--confirm", "live")

    wait_for(lambda: '"swept"' in journal(run_folder(live)), what="the watchdog's sweep")
    assert live.status()["state"] == "healthy"
    listed = live.run("failover-drill", "heal", "-o", "json").json()["runs"]
    assert listed == []
    for name in ("node-0", "node-1", "node-2"):
        client = live.connect(name)
        assert not [user for user in client.acl_users() if user.startswith("rlctl-drill")]
        assert "on" in client.acl_getuser("replica")["flags"]
        assert not list(client.scan_iter("rlctl:drill:*"))


def test_the_next_run_heals_what_nobody_is_left_to_heal(live: LocalFleet) -> None:
    folder = kill_at(live, "burst", "write-loss", "--live", "--confirm", "live", watchdog=True)
    assert '"swept"' not in journal(folder)
    # The verdict is not checked, because it depends on how busy the machine is.
    ran = live.run("failover-drill", "run", "crash", expect=None)

    assert f"cleaned up after run {folder.name}" in ran.err
    assert live.status()["state"] == "healthy"
    assert "on" in live.connect("node-0").acl_getuser("replica")["flags"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(("write-loss", "--live"), 9, id="nobody to ask"),
        pytest.param(("write-loss", "--live", "--confirm", "other"), 9, id="another name"),
        pytest.param(("split-brain", "--live", "--confirm", "live"), 8, id="no network to cut"),
        pytest.param(("restart-empty", "--live", "--confirm", "live"), 8, id="other settings wanted"),
        pytest.param(("write-loss", "--confirm", "live"), 2, id="confirmed without need"),
        pytest.param(("write-lost",), 5, id="no such scenario"),
        pytest.param(("no-such-file.yaml",), 5, id="no such file"),
        pytest.param(("write-loss", "--variant", "x"), 2, id="no such variant"),
        pytest.param(("write-loss", "--dry-run"), 10, id="dry run"),
        pytest.param(("write-loss", "--live", "--dry-run"), 10, id="dry run on the fleet"),
    ],
)
def test_refusals(refusing: LocalFleet, words: tuple[str, ...], code: int) -> None:
    ran = refusing.run("failover-drill", "run", *words, "-o", "json", expect=code)
    assert ran.err.strip() or code == 10
    assert refusing.status()["state"] == "healthy"


def test_a_fleet_must_allow_it_and_be_well(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(cluster_document(name="strict"))
    fleet.deploy()
    words = ("failover-drill", "run", "write-loss", "--live", "--confirm", "strict", "-o", "json")
    assert "drills" in fleet.run(*words, expect=8).error()["hint"]
    fleet.document["drills"] = {"allow": True}
    fleet.write()
    pid = int((fleet.node_folder("node-5") / "redis.pid").read_text(encoding="utf-8"))
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: is_gone(pid), what="its end")
    assert "steady" in fleet.run(*words, expect=8).error()["message"]


def test_healing_does_not_bring_back_a_destroyed_fleet(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(cluster_document(name="gone") | {"drills": {"allow": True}})
    fleet.deploy()
    folder = kill_at(fleet, "burst", "write-loss", "--live", "--confirm", "gone")
    wait_for(lambda: '"swept"' in journal(folder), what="the watchdog's sweep")
    fleet.run("destroy", "--confirm", "gone")
    # This simulates that the watchdog was killed, too.
    kept = [line for line in journal(folder).splitlines() if '"swept"' not in line]
    (folder / "journal.jsonl").write_text("\n".join(kept) + "\n", encoding="utf-8")

    assert "gone" in fleet.run("failover-drill", "heal").out
    assert fleet.status(expect=5)["state"] == "absent"
