"""rlctl is ended at any moment, by force or politely: the next command carries on."""

import os
import random
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.local.driver import PATIENCE_S, LocalFleet, cluster_document, sentinel_document, wait_for

SEED = int(os.environ.get("RLCTL_SEED", "1"))
CLUSTER_MOMENTS, SENTINEL_MOMENTS = 8, 5
# A fresh deploy ends within about this time; most of what can be interrupted happens at its beginning.
DEPLOY_S = 3.0
MakeFleet = Callable[[dict[str, Any]], LocalFleet]


def moments(count: int, what: str, within_s: float = DEPLOY_S) -> list[float]:
    """One moment in each of as many stretches, which are shorter at the beginning."""
    chance = random.Random(f"{SEED}/{what}")  # noqa: S311  the same seed, the same moments
    return [round(within_s * ((number + chance.random()) / count) ** 1.5, 3) for number in range(count)]


def end_after(command: subprocess.Popen[str], after_s: float, number: signal.Signals) -> tuple[int, str]:
    """Let a command work for a while, then signal it; its code and what it said."""
    try:
        command.wait(timeout=after_s)
    except subprocess.TimeoutExpired:
        command.send_signal(number)
    _out, said = command.communicate(timeout=PATIENCE_S)
    return command.returncode, said


def read_until(command: subprocess.Popen[str], text: str) -> None:
    """Read what a command says up to a line with this text: signals that come too soon are merged into one."""
    assert command.stderr is not None
    assert any(text in line for line in command.stderr)


def assert_whole(fleet: LocalFleet, nodes: int) -> None:
    """One deploy makes it healthy, the next finds nothing to do or to complain of, and there is one server a node."""
    fleet.deploy()
    assert len(fleet.processes()) == nodes
    assert len({process.cwd() for process in fleet.processes()}) == nodes
    assert not fleet.deploy().json()["changed"]


@pytest.mark.parametrize("after_s", moments(CLUSTER_MOMENTS, "cluster"))
def test_a_killed_cluster_deploy_is_carried_on(cluster: LocalFleet, after_s: float) -> None:
    end_after(cluster.spawn("deploy", "--yes"), after_s, signal.SIGKILL)
    assert_whole(cluster, nodes=6)


@pytest.mark.parametrize("after_s", moments(SENTINEL_MOMENTS, "sentinel", within_s=1.5))
def test_a_killed_sentinel_deploy_is_carried_on(sentinel: LocalFleet, after_s: float) -> None:
    end_after(sentinel.spawn("deploy", "--yes"), after_s, signal.SIGKILL)
    assert_whole(sentinel, nodes=6)


def test_deploys_killed_one_after_the_other_are_carried_on(cluster: LocalFleet) -> None:
    for after_s in moments(4, "again and again", within_s=1.0):
        end_after(cluster.spawn("deploy", "--yes"), after_s, signal.SIGKILL)
    assert_whole(cluster, nodes=6)


@pytest.mark.parametrize("document", [cluster_document, sentinel_document], ids=["cluster", "sentinel"])
def test_a_killed_repair_is_carried_on(make_fleet: MakeFleet, document: Callable[..., dict[str, Any]]) -> None:
    fleet = make_fleet(document())
    fleet.deploy()
    for after_s in moments(2, "repair", within_s=1.0):
        fleet.kill("node-0", "node-2")
        end_after(fleet.spawn("deploy", "--yes"), after_s, signal.SIGKILL)
    assert_whole(fleet, nodes=6)


@pytest.mark.parametrize("after_s", moments(3, "destroy", within_s=0.8))
def test_a_killed_destroy_is_carried_on(sentinel: LocalFleet, after_s: float) -> None:
    sentinel.deploy()
    end_after(sentinel.spawn("destroy", "--confirm", "limiter"), after_s, signal.SIGKILL)
    sentinel.run("destroy", "--confirm", "limiter")
    assert sentinel.processes() == []
    assert not (sentinel.home / "fleets" / "limiter").exists()
    assert_whole(sentinel, nodes=6)


def test_a_deploy_after_a_killed_destroy_builds_the_fleet_again(cluster: LocalFleet) -> None:
    cluster.deploy()
    destroy = cluster.spawn("destroy", "--confirm", "limiter")
    wait_for(lambda: len(cluster.processes()) < 6, "destroy has begun")
    destroy.kill()
    destroy.communicate(timeout=PATIENCE_S)
    # What destroy left may be a majority, some nodes or nothing; what it took is lost by the user's own word.
    cluster.run("deploy", "--confirm", "limiter")
    assert_whole(cluster, nodes=6)


@pytest.mark.parametrize(
    ("number", "code", "name"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_stops_at_a_safe_point(cluster: LocalFleet, number: signal.Signals, code: int, name: str) -> None:
    deploy = cluster.spawn("deploy", "--yes")
    assert deploy.stderr is not None
    while "starting" not in (line := deploy.stderr.readline()):
        assert line, "deploy ended without starting a server"
    ended, said = end_after(deploy, 0.0, number)
    assert ended == code, said
    assert "stopping at the next safe point" in said
    assert "of 2" in said  # the plan's steps: how far it came
    assert "the same command carries on" in said
    history = cluster.run("history", "-o", "json").json()
    assert history["operations"][-1]["outcome"] == name
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
