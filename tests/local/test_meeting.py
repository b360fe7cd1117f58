"""Cluster nodes that hung during CLUSTER MEET: the servers forget the handshake, so rlctl must repeat it."""

from collections.abc import Iterator

import pytest

from rlctl.execute.formation import Formation
from rlctl.execute.progress import SILENT_PROGRESS
from rlctl.execute.session import FleetSession, open_fleet
from rlctl.execute.stop import StopFlag
from rlctl.execute.waits import wait_healthy
from rlctl.plan.steps import Replicate
from rlctl.state.home import Home
from rlctl.topology.load import load_topology
from rlctl.topology.nodes import NodeName
from tests.local.driver import PATIENCE_S, LocalFleet, wait_for

STRANGER = NodeName("node-5")
# The limit of each wait for health. rlctl repeats CLUSTER MEET after two seconds of a wait.
LOOK_S = 4.0


@pytest.fixture
def lonely(cluster: LocalFleet) -> LocalFleet:
    """A fleet one of whose nodes has forgotten all others."""
    cluster.deploy()
    with cluster.connect(STRANGER) as node:
        node.execute_command("CLUSTER RESET SOFT")
        assert node.execute_command("CLUSTER INFO")["cluster_known_nodes"] == "1"
    return cluster


@pytest.fixture
def opened(lonely: LocalFleet) -> Iterator[FleetSession]:
    topology = load_topology(lonely.file.read_bytes(), str(lonely.file))
    with open_fleet(topology, Home(lonely.home)) as fleet:
        yield fleet


def formation(fleet: FleetSession) -> Formation:
    return Formation(
        topology=fleet.topology,
        secrets=fleet.secrets,
        connector=fleet.connector,
        clock=fleet.clock,
        stop=StopFlag(),
    )


def test_a_replica_that_does_not_know_its_primary_is_introduced_to_it(opened: FleetSession) -> None:
    assert formation(opened).replicate([Replicate(node=STRANGER, primary=NodeName("node-2"))]) == {}
    _observed, findings = wait_healthy(opened, StopFlag(), SILENT_PROGRESS, timeout_s=PATIENCE_S)
    assert findings == ()


def test_waiting_for_a_fleet_introduces_its_nodes_to_each_other(opened: FleetSession, lonely: LocalFleet) -> None:
    """The nodes know each other then. One of them follows no primary, which a deploy repairs."""
    with lonely.connect(STRANGER) as node:

        def is_known_again() -> bool:
            _observed, findings = wait_healthy(opened, StopFlag(), SILENT_PROGRESS, timeout_s=LOOK_S)
            is_known = node.execute_command("CLUSTER INFO")["cluster_known_nodes"] == "6"
            return is_known and {finding.code for finding in findings} == {"wrong-role", "no-replica"}

        wait_for(is_known_again, "a node that all others know, and that follows nobody")
