"""A fence: what it is, what it takes from the service, and that no plan undoes it in passing."""

from dataclasses import replace

import pytest

from rlctl.observe.model import NodeFacts, Observed, Role
from rlctl.plan.desired import setting_drift
from rlctl.plan.fence import FENCE_SETTING, FENCED_VALUE, fenced, is_fenced, lacks_replicas, loss, unfenced_value
from rlctl.plan.finding import Severity, State
from rlctl.plan.findings import INTENDED, NODE_FENCED, assess, state_of
from rlctl.plan.planner import make_plan
from rlctl.topology.model import Consistency, Topology
from tests.unit.fleets import changed, cluster, desired_of, healthy, hung, name, watched


def behind_a_fence(state: Observed, node: str) -> Observed:
    settings = {**state.node(name(node)).settings, FENCE_SETTING: FENCED_VALUE}
    return changed(state, node, settings=settings, good_replicas=1)


@pytest.mark.parametrize("topology", [cluster(), watched()], ids=["cluster", "sentinel"])
def test_no_plan_undoes_a_fence(topology: Topology) -> None:
    state = behind_a_fence(healthy(topology), "node-0")
    assert setting_drift(desired_of(topology), state.nodes[0]) == ()
    assert make_plan(desired_of(topology), state).steps == ()


def test_another_value_is_still_a_drift() -> None:
    settings = {**healthy(cluster()).nodes[0].settings, FENCE_SETTING: "2"}
    state = changed(healthy(cluster()), "node-0", settings=settings)
    assert [drift.found for drift in setting_drift(desired_of(cluster()), state.nodes[0])] == ["2"]


def test_a_fence_is_told_and_is_what_somebody_wanted() -> None:
    state = behind_a_fence(healthy(cluster()), "node-0")
    (finding,) = assess(desired_of(cluster()), state)
    assert (finding.code, finding.severity, finding.subject) == (NODE_FENCED, Severity.DEGRADED, "node-0")
    assert finding.text == "node-0 is fenced: it refuses writes; `rlctl unfence node-0` lifts it"
    assert finding.code in INTENDED
    assert state_of([finding], state) is State.DEGRADED


def test_who_is_fenced() -> None:
    state = behind_a_fence(behind_a_fence(healthy(cluster()), "node-4"), "node-1")
    assert [node.name for node in fenced(state)] == ["node-1", "node-4"]
    assert not is_fenced(hung(state, "node-1").node(name("node-1")))


@pytest.mark.parametrize(("min_replicas", "value"), [(0, "0"), (2, "2")])
def test_what_lifts_it(min_replicas: int, value: str) -> None:
    assert unfenced_value(replace(cluster(), consistency=Consistency(min_replicas=min_replicas))) == value


@pytest.mark.parametrize(
    ("wanted", "good", "lacks"),
    [
        pytest.param("0", None, False, id="none wanted, none counted"),
        pytest.param("1", 1, False, id="enough"),
        pytest.param("2", 1, True, id="too few"),
        pytest.param(FENCED_VALUE, 2, True, id="fenced"),
        pytest.param(FENCED_VALUE, None, False, id="not counted: max-lag 0 switches it off"),
    ],
)
def test_who_lacks_replicas(wanted: str, good: int | None, *, lacks: bool) -> None:
    node: NodeFacts = replace(healthy(cluster()).nodes[0], settings={FENCE_SETTING: wanted}, good_replicas=good)
    assert lacks_replicas(node) is lacks


def test_what_a_fence_takes() -> None:
    state = healthy(watched())
    alone = loss(watched(), state, state.nodes[0])
    assert alone.startswith("node-0 refuses every write until `rlctl unfence node-0`; no other primary of shard 0")
    replica = loss(watched(), state, state.nodes[1])
    assert replica.endswith("it is a replica now, and would refuse them once promoted")
    rival = changed(state, "node-1", role=state.nodes[0].role, follows=None)
    assert loss(watched(), rival, rival.nodes[0]) == "node-0 refuses every write until `rlctl unfence node-0`"
    both = behind_a_fence(rival, "node-1")
    assert "no other primary of shard 0" in loss(watched(), both, both.nodes[0])


def test_a_primary_of_another_shard_decides_nothing_in_this_one() -> None:
    """Only a second primary of the same shard, as while a failover is not known everywhere, takes its writes."""
    alone = "no other primary of shard 0 answers"
    state = healthy(cluster())
    assert alone in loss(cluster(), state, state.node(name("node-0")))
    both = changed(state, "node-3", role=Role.PRIMARY)
    assert alone not in loss(cluster(), both, both.node(name("node-0")))
    assert alone in loss(cluster(), behind_a_fence(both, "node-3"), both.node(name("node-0")))
