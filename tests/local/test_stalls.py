"""Answers that come too late: the report depends on whether the node or this machine was slow."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from rlctl.execute.session import FleetSession, open_fleet
from rlctl.observe.collect import OVERSLEPT_S, Collector
from rlctl.observe.connect import ANSWER_S
from rlctl.observe.model import Presence
from rlctl.plan.steps import Configure
from rlctl.secrets import Secret
from rlctl.state.home import Home
from rlctl.system.clock import SystemClock
from rlctl.system.redis import Credentials, NodeLink
from rlctl.topology.load import load_topology
from rlctl.topology.nodes import NodeName
from tests.local.driver import LocalFleet
from tests.local.strangers import HOST, foreign_server
from tests.local.test_meeting import formation

LATE = NodeName("node-5")


class Sleepy(SystemClock):
    """A clock that advances further between two calls than the caller expects."""

    def __init__(self) -> None:
        self._slept_s = 0.0

    def monotonic(self) -> float:
        self._slept_s += OVERSLEPT_S * 2
        return super().monotonic() + self._slept_s


@contextmanager
def asleep(pid: int, seconds: float) -> Iterator[None]:
    """Stop a process for this long."""
    awake = threading.Timer(seconds, os.kill, (pid, signal.SIGCONT))
    os.kill(pid, signal.SIGSTOP)
    awake.start()
    try:
        yield
    finally:
        awake.join()


@pytest.mark.parametrize(
    ("clock", "asleep_s", "presence"),
    [
        pytest.param(SystemClock(), 3 * ANSWER_S, Presence.HUNG, id="awake"),
        pytest.param(Sleepy(), ANSWER_S + 0.5, Presence.UP, id="overslept"),
    ],
)
def test_who_was_silent_while_we_slept_is_asked_again(
    cluster: LocalFleet, clock: SystemClock, asleep_s: float, presence: Presence
) -> None:
    cluster.deploy()
    topology = load_topology(cluster.file.read_bytes(), str(cluster.file))
    with open_fleet(topology, Home(cluster.home)) as fleet:
        collector = collector_of(fleet, clock)
        assert collector.collect().node(LATE).presence is Presence.UP
        with asleep(cluster.pid(LATE), asleep_s):
            assert collector.collect().node(LATE).presence is presence


def collector_of(fleet: FleetSession, clock: SystemClock) -> Collector:
    return Collector(fleet.topology, fleet.secrets, fleet.release, fleet.connector, fleet.target.inspect, clock)


def test_a_node_that_stalls_in_the_middle_of_a_change_is_waited_for(cluster: LocalFleet) -> None:
    cluster.deploy()
    topology = load_topology(cluster.file.read_bytes(), str(cluster.file))
    with open_fleet(topology, Home(cluster.home)) as fleet:
        forming, change = formation(fleet), Configure(node=LATE, setting="maxmemory", value="50mb", was="")
        assert forming.configure([change]) == {}
        with asleep(cluster.pid(LATE), ANSWER_S + 1.0):
            assert forming.configure([change]) == {}


def test_the_time_that_a_proof_takes_is_not_the_servers(cluster: LocalFleet, tmp_path: Path) -> None:
    """A host may need seconds to confirm over ssh that its unit holds the port."""
    timeout_s = 2.0

    def slow_proof() -> None:
        time.sleep(timeout_s + 0.5)

    with foreign_server(tmp_path / "server", cluster.base_port, password="secret"):
        login = Credentials(password=Secret("secret"))
        link = NodeLink(HOST, cluster.base_port, login, timeout_s=timeout_s, why_unproven=slow_proof)
        with closing(link):
            assert link.call("PING") == "PONG"
