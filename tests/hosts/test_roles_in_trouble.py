"""A problem on one host is named and does not affect the others. A rerun converges, also after a killed run."""

import os
import random
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hosts.playbooks import HandRun, Played, seed
from tests.lab.hosts import Lab

KILLS = 2


def root(run: HandRun, number: int, command: str) -> str:
    return run.lab.hosts[number].exec("sh", "-c", command)


@pytest.fixture(scope="module")
def run(make_lab: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory) -> HandRun:
    """Two hosts. The tests cause problems on the second."""
    lab = make_lab("bookworm", "bookworm")
    shape = {"sentinel": {"replicas": 1, "sentinels": 3}}
    return HandRun.create(lab, tmp_path_factory.mktemp("trouble"), **shape)


def refused(played: Played, *words: str) -> None:
    """Assert that the second host failed with a reason and that the first one was finished."""
    assert played.code != 0
    said = re.sub(r"\s+", " ", f"{played.out} {played.err}")
    for word in words:
        assert word in said, played.out
    assert "Traceback" not in said
    assert played.recap("h1")["failed"] == 0
    assert played.recap("h1")["unreachable"] == 0


def test_a_killed_run_is_carried_on_by_the_next(run: HandRun) -> None:
    choice = random.Random(seed())  # noqa: S311 - where to kill is no secret
    for _ in range(KILLS):
        last = choice.randint(2, 14)
        with run.popen("place") as process:
            assert process.stdout is not None
            tasks = (line for line in process.stdout if line.startswith("TASK ["))
            for number, _ in enumerate(tasks, start=1):
                if number == last:
                    os.killpg(process.pid, signal.SIGKILL)
                    break
            else:
                pytest.fail("the run ended before it was killed")
    run.must_play("place")
    assert {run.must_play("place").recap(host)["changed"] for host in ("h1", "h2")} == {0}
    kept = root(run, 1, "find /etc/rlctl /var/lib/rlctl /usr/lib/rlctl -name '.*.rlctl'")
    assert kept == ""


def test_destroying_after_a_kill(run: HandRun) -> None:
    with run.popen("destroy") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "TASK [redis_host : Keep the packages" in line:
                os.killpg(process.pid, signal.SIGKILL)
                break
        else:
            pytest.fail("the run ended before it was killed")
    again = run.rlctl("destroy", "--confirm", run.name, "--packages")
    assert again.returncode == 0, again.stderr
    everything = "/etc/rlctl /var/lib/rlctl /usr/lib/rlctl /etc/sysctl.d/*rlctl*"
    for number in (0, 1):
        left = root(
            run, number, f"ls -d {everything} 2>/dev/null; getent passwd rlctl; dpkg -l | grep '^ii  redis'; true"
        )
        assert left == ""


def test_a_package_that_cannot_be_had(run: HandRun) -> None:
    root(run, 1, "mv /srv/apt /srv/gone; rm -rf /var/lib/apt/lists/*")
    try:
        refused(run.play("place"), "cannot install redis-server", "Check /etc/apt/sources.list", "run again")
    finally:
        root(run, 1, "mv /srv/gone /srv/apt")


def test_sudo_refused(run: HandRun) -> None:
    root(run, 1, "mv /etc/sudoers.d/ops /root/ops")
    try:
        refused(run.play("place"), "h2: the first step as root failed, nothing was changed here", "--ask-become-pass")
    finally:
        root(run, 1, "mv /root/ops /etc/sudoers.d/ops")


def test_an_unreachable_host(run: HandRun) -> None:
    root(run, 1, "systemctl stop ssh.socket ssh.service 2>/dev/null; pkill -x sshd; true")
    try:
        played = run.play("place")
        refused(played, "UNREACHABLE", run.lab.hosts[1].address)
        assert played.recap("h2")["unreachable"] == 1
    finally:
        root(run, 1, "systemctl start ssh")


def test_hosts_that_are_left_out_may_hold_nodes(run: HandRun, tmp_path: Path) -> None:
    """The nodes were not observed, so rlctl generates no secrets, which a later run would deploy to all."""
    fresh = HandRun.create(run.lab, tmp_path, **run.document | {"name": "fresh"})
    fresh.must_play("place", "--limit", "h1", "--check")
    played = fresh.play("place", "--limit", "h1")
    assert played.code == 2
    said = re.sub(r"\s+", " ", played.out)
    assert "some hosts of fleet fresh were not read, and its secrets are not on this machine" in said
    assert "run without --limit" in said
    assert not fresh.home.fleet("fresh").secrets.exists()
    assert root(run, 0, "ls /etc/rlctl | grep fresh; true") == ""


def test_a_full_disk(run: HandRun) -> None:
    root(run, 1, "rm -rf /etc/rlctl && mkdir /etc/rlctl && mount -t tmpfs -o size=64k tmpfs /etc/rlctl")
    root(run, 1, "head -c 1m /dev/zero >/etc/rlctl/.filler 2>/dev/null; true")
    try:
        refused(run.play("place"), "No space left on device", "Fix the cause", "run again")
    finally:
        root(run, 1, "umount /etc/rlctl; rm -rf /etc/rlctl")


def test_no_rlctl_on_the_control_machine(run: HandRun) -> None:
    played = run.play("place", "--limit", "h1", rlctl_command=["/nonexistent/rlctl"])
    assert played.code == 2
    said = re.sub(r"\s+", " ", played.out)
    assert "h1: `rlctl render config --stage` failed on the control machine" in said


def test_another_version_than_the_topology_wants(run: HandRun) -> None:
    played = run.play("place", "--limit", "h1", rlctl_engine_version="8.0")
    assert played.code == 2
    assert "h1: the topology wants redis 8.0, and redis-server is 7.0." in re.sub(r"\s+", " ", played.out)


def test_directives_are_tried_before_anything_of_the_fleet_is_placed(run: HandRun, tmp_path: Path) -> None:
    wrong = {"hz": "fast", "no-such-thing": "1", "maxclients": "2000"}
    tried = HandRun.create(run.lab, tmp_path, **run.document | {"name": "tried", "redis": wrong})
    played = tried.play("place")
    assert played.code == 2
    said = re.sub(r"\s+", " ", played.out)
    assert "redis.hz: argument couldn't be parsed into an integer; redis.no-such-thing: Bad directive" in said
    assert root(run, 0, "ls /etc/rlctl | grep tried; true") == ""


def test_a_node_that_does_not_come_up_fails_alone(run: HandRun) -> None:
    run.must_play("place")
    root(run, 1, "echo 'no-such-directive yes' >>/etc/rlctl/limiter/node-1/static.conf")
    played = run.play("start", **run.launch_variables("node-0", "node-1", "sentinel-1"))
    refused(played, "node-1 did not come up, rlctl-limiter@node-1.service is", "Bad directive", "See `journalctl -u")
    refused(played, "Reading the configuration file, at line", ">>> 'no-such-directive yes'")
    assert [run.state(name) for name in ("node-0", "sentinel-1")] == ["active", "active"], played.out
    run.must_play("place")
    run.start()
    assert run.state("node-1") == "active"


def test_a_server_that_systemd_cannot_run_says_why(run: HandRun) -> None:
    """The error is not the message of start-guard about the automatic restart, which the order does not cover."""
    run.must_play("place", redis_host_private_users=True)
    root(run, 1, f"systemctl stop {run.unit('node-1')}; rm -r /var/lib/rlctl/limiter/node-1/appendonlydir")
    played = run.play("start", **run.launch_variables("node-1"))
    refused(played, "node-1 did not come up", "217/USER", "set redis_host_private_users to auto")
    assert "would come back empty" not in played.out
    run.must_play("place")
    run.start("node-1")
    assert run.state("node-1") == "active"


def test_a_table_of_somebody_else_is_moved_aside(run: HandRun) -> None:
    """With another id in sentinel.conf this node would no longer belong to its fleet."""
    host = run.lab.hosts.index(run.host(run.spec("sentinel-0")))
    conf = "/var/lib/rlctl/limiter/sentinel-0/sentinel.conf"
    root(
        run,
        host,
        f"systemctl stop {run.unit('sentinel-0')}; sed -i 's/^sentinel myid .*/sentinel myid {'0' * 40}/' {conf}",
    )
    run.start("sentinel-0")
    assert run.state("sentinel-0") == "active"
    assert f"myid {'0' * 40}" in root(run, host, f"cat {conf}.damaged")
