"""What hosts lack comes first; what is on a host that does not answer is never guessed."""

from dataclasses import replace

import pytest

from rlctl.observe.model import Observed, OnDisk
from rlctl.plan.finding import State
from rlctl.plan.findings import assess, state_of
from rlctl.plan.planner import make_plan
from rlctl.plan.steps import PreparePlace, StartNode, StartSentinel, describe, kind
from rlctl.topology.model import PersistenceMode, Topology
from tests.unit.fleets import changed, cluster, desired_of, fresh, healthy, killed, name, watched

OUT_OF_REACH = "host h3 cannot be reached: no route"


def unknown(state: Observed, node: str) -> Observed:
    """The node does not answer, and neither does its host."""
    return changed(killed(state, node), node, disk=OnDisk(unknown=OUT_OF_REACH))


def started(topology: Topology, state: Observed) -> set[str]:
    plan = make_plan(desired_of(topology), state)
    return {step.node for step in plan.steps if isinstance(step, StartNode | StartSentinel)}


def test_what_hosts_lack_comes_before_any_start() -> None:
    topology = cluster()
    plan = make_plan(desired_of(topology), fresh(topology), {"h1": ("Install", "Place"), "h2": (), "h3": ("Place",)})
    first, second, *others = plan.steps
    assert [first, second] == [
        PreparePlace(host="h1", changes=("Install", "Place")),
        PreparePlace(host="h3", changes=("Place",)),
    ]
    assert not any(isinstance(step, PreparePlace) for step in others)
    assert (kind(first), describe(first)) == ("prepare-place", "host h1: 2 changes: Install; Place")
    assert describe(second) == "host h3: 1 change: Place"
    assert not plan.dangers


def test_a_fleet_in_order_on_hosts_in_order_needs_nothing() -> None:
    topology = cluster()
    assert make_plan(desired_of(topology), healthy(topology), {"h1": ()}).steps == ()


@pytest.mark.parametrize("mode", PersistenceMode)
@pytest.mark.parametrize("node", ["node-0", "node-3"])
def test_a_cluster_node_on_a_silent_host_is_neither_started_nor_replaced(mode: PersistenceMode, node: str) -> None:
    topology = cluster(mode=mode)
    assert make_plan(desired_of(topology), unknown(healthy(topology), node)).steps == ()


@pytest.mark.parametrize("mode", PersistenceMode)
@pytest.mark.parametrize("node", ["node-0", "node-1", "sentinel-0"])
def test_neither_is_one_of_a_sentinel_fleet(mode: PersistenceMode, node: str) -> None:
    topology = watched(mode=mode)
    assert make_plan(desired_of(topology), unknown(healthy(topology), node)).steps == ()


@pytest.mark.parametrize("mode", [PersistenceMode.RDB, PersistenceMode.NONE])
def test_a_primary_does_not_start_empty_while_a_member_may_hold_its_counts(mode: PersistenceMode) -> None:
    topology = cluster(mode=mode)
    state = unknown(killed(healthy(topology), "node-0", mode=mode), "node-3")
    assert "node-0" not in started(topology, state)


def test_the_rest_is_mended_meanwhile() -> None:
    topology = cluster()
    state = killed(unknown(healthy(topology), "node-0"), "node-4")
    assert started(topology, state) == {"node-4"}


def test_the_host_is_named_in_the_findings() -> None:
    topology = cluster()
    findings = assess(desired_of(topology), unknown(healthy(topology), "node-3"))
    assert f"node-3 does not answer: {OUT_OF_REACH}" in {finding.text for finding in findings}


def test_a_fleet_that_nobody_can_look_at_is_not_called_absent() -> None:
    topology = cluster()
    nothing = fresh(topology)
    assert state_of(assess(desired_of(topology), nothing), nothing) is State.ABSENT
    hidden = changed(nothing, "node-2", disk=OnDisk(unknown=OUT_OF_REACH))
    (finding,) = assess(desired_of(topology), hidden)
    assert finding.text == f"cannot tell whether node-2 exists: {OUT_OF_REACH}"
    assert state_of([finding], hidden) is State.CRITICAL


def test_a_node_that_is_unknown_is_not_dead() -> None:
    node = killed(healthy(cluster()), "node-0").node(name("node-0"))
    assert node.is_dead
    assert not replace(node, disk=OnDisk(unknown=OUT_OF_REACH)).is_dead
