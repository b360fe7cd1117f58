"""Demos and runbook tests remove their fleets; after a SIGKILL, `heal` or the next run does."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlctl.assets import asset_folder
from rlctl.system.process import ProcessRunner
from rlctl.system.sandbox import why_unavailable
from tests.local.driver import PATIENCE_S, LocalFleet, is_gone, servers_below, wait_for
from tests.local.terminal import at_terminal


def runs(fleet: LocalFleet) -> list[Path]:
    """The folders of throw-away runs."""
    folder = fleet.home / "throw-away"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def owned_runs(fleet: LocalFleet) -> Iterator[Path]:
    """The folders whose runs have written down which process owns them."""
    return (run for run in runs(fleet) if (run / "owner.json").exists())


def servers(fleet: LocalFleet) -> list[int]:
    """The pids of servers of throw-away runs on this machine."""
    return [process.pid for process in servers_below(fleet.home / "throw-away")]


def assert_all_gone(fleet: LocalFleet, pids: list[int]) -> None:
    assert runs(fleet) == []
    assert all(map(is_gone, pids))
    assert servers(fleet) == []


@contextmanager
def started(fleet: LocalFleet, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command that is ended by its pid."""
    with fleet.spawn(*words) as command:
        try:
            yield command
        finally:
            command.kill()
            command.communicate(timeout=PATIENCE_S)


def killed_demo(fleet: LocalFleet, count: int) -> list[int]:
    """Kill a demo once it has this many servers, and return its leftovers."""
    with started(fleet, "demo"):
        wait_for(lambda: len(servers(fleet)) >= count, f"{count} servers of the demo")
    left = servers(fleet)
    assert len(left) >= count
    assert len(runs(fleet)) == 1
    return left


@pytest.mark.parametrize("count", [1, 6])
def test_a_demo_whose_terminal_closes_leaves_nothing(cluster: LocalFleet, count: int) -> None:
    with at_terminal(cluster, "demo") as terminal:
        wait_for(lambda: len(servers(cluster)) >= count, f"{count} servers of the demo")
        pids = servers(cluster)
        terminal.hang_up()
        assert terminal.process.wait(timeout=PATIENCE_S) == 129
    assert_all_gone(cluster, pids)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGHUP, 129), (signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_demo_leaves_nothing(cluster: LocalFleet, number: signal.Signals, code: int) -> None:
    command = cluster.spawn("demo")
    try:
        wait_for(lambda: len(servers(cluster)) == 6, "six servers of the demo")
        pids = servers(cluster)
        command.send_signal(number)
        _out, said = command.communicate(timeout=PATIENCE_S)
    finally:
        command.kill()
        command.wait()
    assert command.returncode == code, said
    assert_all_gone(cluster, pids)


@pytest.mark.parametrize("count", [1, 6])
def test_heal_removes_what_a_killed_demo_left(cluster: LocalFleet, count: int) -> None:
    pids = killed_demo(cluster, count)
    [left] = runs(cluster)
    healed = cluster.run("failover-drill", "heal", "-o", "json").json()["runs"]
    assert healed == [{"id": left.name, "undone": ["removed its throw-away fleet"]}]
    assert_all_gone(cluster, pids)
    assert cluster.run("failover-drill", "heal").out == "nothing to heal\n"


def test_the_next_demo_removes_what_a_killed_one_left(cluster: LocalFleet) -> None:
    pids = killed_demo(cluster, 6)
    [left] = runs(cluster)
    command = cluster.spawn("demo")
    try:
        wait_for(lambda: not left.exists() and len(servers(cluster)) == 6, "the next demo's own servers")
        assert all(map(is_gone, pids))
        command.terminate()
        _out, said = command.communicate(timeout=PATIENCE_S)
    finally:
        command.kill()
        command.wait()
    assert command.returncode == 143
    assert f"cleaned up after run {left.name}" in said
    assert_all_gone(cluster, pids)


def test_heal_leaves_a_demo_that_runs_alone(cluster: LocalFleet) -> None:
    command = cluster.spawn("demo")
    try:
        wait_for(lambda: len(servers(cluster)) == 6, "six servers of the demo")
        command.send_signal(signal.SIGSTOP)
        assert cluster.run("failover-drill", "heal").out == "nothing to heal\n"
        pids = servers(cluster)
        assert len(pids) == 6
        # It may have missed a deadline meanwhile, so its exit code is not checked.
        command.send_signal(signal.SIGCONT)
        command.terminate()
        command.communicate(timeout=PATIENCE_S)
    finally:
        command.kill()
        command.wait()
    assert_all_gone(cluster, pids)


@pytest.mark.parametrize("by", ["heal", "the next test"])
def test_what_a_killed_runbook_test_left_is_removed(cluster: LocalFleet, by: str) -> None:
    reason = why_unavailable(ProcessRunner())
    if reason is not None:
        pytest.skip(f"no sandbox: {reason}")
    page = cluster.folder / "RB-09-noscript-storm.md"
    shutil.copy(asset_folder("runbooks") / page.name, page)
    words = ("runbook", "test", str(page), "--kind", "cluster", "--jobs", "1")
    with started(cluster, *words):
        wait_for(lambda: bool(servers(cluster)), "a server of the trial")
        pids = servers(cluster)
    wait_for(lambda: all(map(is_gone, pids)), "the servers went with their namespace")
    [left] = runs(cluster)

    if by == "heal":
        assert left.name in cluster.run("failover-drill", "heal").out
    else:
        with started(cluster, *words):
            # A folder without an owner may belong to a run that just begins: `heal` leaves it alone.
            wait_for(lambda: not left.exists() and any(owned_runs(cluster)), "the folder of the next trial")
        cluster.run("failover-drill", "heal")
    assert_all_gone(cluster, pids)
