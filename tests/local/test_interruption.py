"""rlctl is killed or interrupted at any moment: the next command continues."""

import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.kills import kill_at_journal_line, kill_at_step, kill_in, last_operation
from tests.local.driver import PATIENCE_S, LocalFleet, cluster_document, sentinel_document, wait_for
from tests.local.servers import wrapper
from tests.local.terminal import at_terminal

# Each kill is in another part of the plan. RLCTL_SEED, or the commit, chooses the step within it.
CLUSTER_STRETCHES, SENTINEL_STRETCHES = 5, 3
MakeFleet = Callable[[dict[str, Any]], LocalFleet]


def read_until(command: subprocess.Popen[str], text: str) -> None:
    """Read the output up to a line with this text, because signals that come too early are merged into one."""
    assert command.stderr is not None
    assert any(text in line for line in command.stderr)


def assert_whole(fleet: LocalFleet, nodes: int) -> None:
    """One deploy makes the fleet healthy, the next has no steps and no findings, and each node has one server."""
    fleet.deploy()
    assert len(fleet.processes()) == nodes
    assert len({process.cwd() for process in fleet.processes()}) == nodes
    assert not fleet.deploy().json()["changed"]


def kill_at_start_of(fleet: LocalFleet, node: str) -> None:
    """Deploy with a server program that kills rlctl when it starts this node."""
    program = wrapper(fleet.folder / "server", f'case "$*" in *nodes/{node}/*) kill -KILL $PPID ;; esac')
    fleet.extra_env["RLCTL_REDIS_SERVER"] = str(program)
    deploy = fleet.spawn("deploy", "--yes")
    deploy.communicate(timeout=PATIENCE_S)
    assert deploy.returncode == -signal.SIGKILL
    del fleet.extra_env["RLCTL_REDIS_SERVER"]
    assert (fleet.node_folder(node) / "static.conf").exists()


@pytest.mark.parametrize("stretch", range(CLUSTER_STRETCHES))
def test_a_killed_cluster_deploy_is_carried_on(cluster: LocalFleet, stretch: int) -> None:
    kill_in(cluster, stretch, "deploy", "--yes", stretches=CLUSTER_STRETCHES)
    assert_whole(cluster, nodes=6)


@pytest.mark.parametrize("stretch", range(SENTINEL_STRETCHES))
def test_a_killed_sentinel_deploy_is_carried_on(sentinel: LocalFleet, stretch: int) -> None:
    kill_in(sentinel, stretch, "deploy", "--yes", stretches=SENTINEL_STRETCHES)
    assert_whole(sentinel, nodes=6)


@pytest.mark.parametrize("node", ["node-3", "node-5"])
def test_a_cluster_deploy_that_is_killed_between_two_starts_is_carried_on(cluster: LocalFleet, node: str) -> None:
    kill_at_start_of(cluster, node)
    assert last_operation(cluster).steps == ()
    assert_whole(cluster, nodes=6)


@pytest.mark.parametrize(("node", "done"), [("node-2", 0), ("sentinel-1", 3)])
def test_a_sentinel_deploy_that_is_killed_between_two_starts_is_carried_on(
    sentinel: LocalFleet, node: str, done: int
) -> None:
    kill_at_start_of(sentinel, node)
    assert len(last_operation(sentinel).steps) == done
    assert_whole(sentinel, nodes=6)


def test_deploys_killed_one_after_the_other_are_carried_on(cluster: LocalFleet) -> None:
    """Each deploy ends after its first batch: starts, scripts, epochs, slots, CLUSTER MEET."""
    batches = [
        kill_at_step(cluster, 1, "deploy", "--yes").operation.steps[0][0].split(": ")[1].split()[0] for _ in range(5)
    ]
    assert batches == ["start", "load", "set", "own", "meet"]
    assert_whole(cluster, nodes=6)


@pytest.mark.parametrize("document", [cluster_document, sentinel_document], ids=["cluster", "sentinel"])
@pytest.mark.parametrize("step", [1, 2])
def test_a_killed_repair_is_carried_on(
    make_fleet: MakeFleet, document: Callable[..., dict[str, Any]], step: int
) -> None:
    fleet = make_fleet(document())
    fleet.deploy()
    fleet.kill("node-0", "node-2")
    kill_at_step(fleet, step, "deploy", "--yes")
    assert_whole(fleet, nodes=6)


def test_a_destroy_that_is_killed_when_it_begins_is_carried_on(sentinel: LocalFleet) -> None:
    sentinel.deploy()
    assert kill_at_journal_line(sentinel, 1, "destroy", "--confirm", "limiter").outcome == "unfinished"
    assert_destroyed(sentinel)


@pytest.mark.parametrize("stretch", range(2))
def test_a_killed_destroy_is_carried_on(sentinel: LocalFleet, stretch: int) -> None:
    sentinel.deploy()
    kill_in(sentinel, stretch, "destroy", "--confirm", "limiter", stretches=2)
    assert_destroyed(sentinel)


def assert_destroyed(fleet: LocalFleet) -> None:
    fleet.run("destroy", "--confirm", "limiter")
    assert fleet.processes() == []
    assert not (fleet.home / "fleets" / "limiter").exists()
    assert_whole(fleet, nodes=6)


def test_a_deploy_after_a_killed_destroy_builds_the_fleet_again(cluster: LocalFleet) -> None:
    cluster.deploy()
    destroy = cluster.spawn("destroy", "--confirm", "limiter")
    wait_for(lambda: len(cluster.processes()) < 6, "destroy has begun")
    destroy.kill()
    destroy.communicate(timeout=PATIENCE_S)
    # destroy may have left a majority, some nodes or none. The user has agreed to the loss.
    cluster.run("deploy", "--confirm", "limiter")
    assert_whole(cluster, nodes=6)


@pytest.mark.parametrize(
    ("number", "code", "name"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 129, "hung-up")],
)
def test_a_signal_stops_at_a_safe_point(cluster: LocalFleet, number: signal.Signals, code: int, name: str) -> None:
    deploy = cluster.spawn("deploy", "--yes")
    assert deploy.stderr is not None
    while "starting" not in (line := deploy.stderr.readline()):
        assert line, "deploy ended without starting a server"
    deploy.send_signal(number)
    _out, said = deploy.communicate(timeout=PATIENCE_S)
    assert deploy.returncode == code, said
    assert "stopping at the next safe point" in said
    assert "of 2" in said  # the steps of the plan that were done
    assert "run the same command again" in said
    history = cluster.run("history", "-o", "json").json()
    assert history["operations"][-1]["outcome"] == name
    assert_whole(cluster, nodes=6)


def test_a_deploy_whose_terminal_closes_stops_at_a_safe_point(cluster: LocalFleet) -> None:
    with at_terminal(cluster, "deploy", "--yes") as terminal:
        terminal.read_until("starting")
        terminal.hang_up()
        assert terminal.process.wait(timeout=PATIENCE_S) == 129
    assert cluster.run("history", "-o", "json").json()["operations"][-1]["outcome"] == "hung-up"
    assert_whole(cluster, nodes=6)


def test_under_nohup_a_deploy_outlives_its_terminal(cluster: LocalFleet) -> None:
    said = cluster.folder / "nohup.out"
    with at_terminal(cluster, "deploy", "--yes", before=("nohup",)) as terminal:
        wait_for(lambda: said.exists() and "starting" in said.read_text(encoding="utf-8"), "servers are started")
        terminal.hang_up()
        assert terminal.process.wait(timeout=PATIENCE_S) == 0
    assert "limiter: healthy" in said.read_text(encoding="utf-8")
    assert_whole(cluster, nodes=6)


def test_a_second_signal_aborts_at_once(cluster: LocalFleet) -> None:
    cluster.deploy()
    cluster.kill("node-0")
    process = cluster.processes()[0]
    process.suspend()
    try:
        deploy = cluster.spawn("deploy", "--yes")
        wait_for(
            lambda: (cluster.home / "locks" / "limiter.lock").read_text(encoding="utf-8") != "", "it holds the lock"
        )
        deploy.send_signal(signal.SIGINT)
        read_until(deploy, "once more aborts at once")
        deploy.send_signal(signal.SIGINT)
        _out, said = deploy.communicate(timeout=PATIENCE_S)
    finally:
        process.resume()
    assert deploy.returncode == 130, said
    assert "carry on" in said
    assert_whole(cluster, nodes=6)
