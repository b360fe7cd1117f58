"""Plans of fleets that do not exist yet."""

import pytest

from rlctl.plan.planner import make_plan
from rlctl.plan.simulate import simulate
from rlctl.plan.steps import StartNode, describe, kind
from rlctl.topology.model import PersistenceMode, Topology
from rlctl.topology.nodes import SLOTS, all_nodes, data_nodes
from tests.unit.fleets import cluster, desired_of, fresh, watched
from tests.unit.proof import carried_out, prove

SHAPES = [
    pytest.param(cluster(3, 0), id="3x0"),
    pytest.param(cluster(3, 1), id="3x1"),
    pytest.param(cluster(3, 2), id="3x2"),
    pytest.param(cluster(5, 1), id="5x1"),
    pytest.param(cluster(3, 1, PersistenceMode.RDB), id="3x1 rdb"),
    pytest.param(cluster(3, 1, PersistenceMode.NONE), id="3x1 none"),
    pytest.param(watched(1, 1), id="1+1+1"),
    pytest.param(watched(2, 3), id="1+2+3"),
    pytest.param(watched(3, 5, PersistenceMode.RDB), id="1+3+5 rdb"),
    pytest.param(watched(2, 3, PersistenceMode.NONE), id="1+2+3 none"),
]


def texts(topology: Topology) -> list[str]:
    return [describe(step) for step in make_plan(desired_of(topology), fresh(topology)).steps]


def test_the_smallest_cluster_step_by_step() -> None:
    assert texts(cluster(3, 0)) == [
        "node-0: start",
        "node-1: start",
        "node-2: start",
        "node-0: set configuration epoch 1",
        "node-1: set configuration epoch 2",
        "node-2: set configuration epoch 3",
        "node-0: own slots 0-5460",
        "node-1: own slots 5461-10922",
        "node-2: own slots 10923-16383",
        "node-0: meet node-1, node-2",
        "node-1: meet node-2",
    ]


@pytest.mark.parametrize("done", range(7))
def test_a_step_that_was_done_is_not_done_again(done: int) -> None:
    """The server refuses a second epoch, and the rest of a deploy with it."""
    topology = cluster(3, 0)
    state = fresh(topology)
    steps = make_plan(desired_of(topology), state).steps
    for step in steps[:done]:
        state = simulate(desired_of(topology), state, step)
    assert make_plan(desired_of(topology), state).steps == steps[done:]


def test_behind_sentinels_no_node_has_a_table_of_a_cluster() -> None:
    topology = watched(2, 3)
    state = fresh(topology)
    for step in make_plan(desired_of(topology), state).steps:
        state = simulate(desired_of(topology), state, step)
    assert {node.table for node in state.nodes} == {()}
    assert [node.role.value for node in state.nodes if node.role and not node.sentinel] == ["primary", *["replica"] * 2]


def test_replicas_come_last() -> None:
    assert texts(cluster(3, 1))[-3:] == [
        "node-3: replicate node-0",
        "node-4: replicate node-1",
        "node-5: replicate node-2",
    ]


def test_the_smallest_sentinel_fleet_step_by_step() -> None:
    assert texts(watched(1, 1)) == [
        "node-0: start",
        "node-1: start as replica of node-0",
        "sentinel-0: start and watch node-0",
    ]


@pytest.mark.parametrize("topology", SHAPES)
def test_a_fresh_fleet_comes_to_rest_from_every_prefix(topology: Topology) -> None:
    plan = prove(desired_of(topology), fresh(topology))
    assert plan.dangers == ()
    started = [step.node for step in plan.steps if kind(step).startswith("start-")]
    assert sorted(started) == sorted(spec.name for spec in all_nodes(topology))


@pytest.mark.parametrize("topology", SHAPES[:6])
def test_a_formed_cluster_covers_all_slots_once_and_is_a_full_mesh(topology: Topology) -> None:
    desired = desired_of(topology)
    plan = make_plan(desired, fresh(topology))
    end = carried_out(desired, fresh(topology), plan.steps)
    ids = {node.id for node in end.nodes}
    assert sum(last - first + 1 for node in end.nodes for first, last in node.slots) == SLOTS
    assert all(node.known == ids for node in end.nodes)
    epochs = [node.epoch for node in end.nodes if node.slots]
    assert len(set(epochs)) == len(epochs)


def test_every_data_node_of_a_sentinel_fleet_starts_behind_the_primary() -> None:
    topology = watched(3, 1)
    follow = [
        step.follow for step in make_plan(desired_of(topology), fresh(topology)).steps if isinstance(step, StartNode)
    ]
    assert follow == [None, *["node-0"] * (len(data_nodes(topology)) - 1)]


def test_more_replicas_only_append() -> None:
    few, many = cluster(3, 1), cluster(3, 2)
    formed = carried_out(desired_of(few), fresh(few), make_plan(desired_of(few), fresh(few)).steps)
    state = type(formed)(nodes=formed.nodes + fresh(many).nodes[6:])
    plan = prove(desired_of(many), state)
    assert {step.node for step in plan.steps if isinstance(step, StartNode)} == {"node-6", "node-7", "node-8"}
    assert plan.dangers == ()


def test_a_step_changes_nothing_but_the_nodes_it_names() -> None:
    desired = desired_of(cluster(3, 0))
    before = fresh(cluster(3, 0))
    after = simulate(desired, before, StartNode(node=before.nodes[1].name))
    assert after.nodes[0] == before.nodes[0]
    assert after.nodes[2] == before.nodes[2]
    assert after.nodes[1].is_up
