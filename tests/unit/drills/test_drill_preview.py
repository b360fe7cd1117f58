"""What `failover-drill run --dry-run` says that a run would do and lose."""

import pytest

from rlctl.drills.engine.preview import describe, preview
from rlctl.drills.scenario.library import all_shipped, shipped
from rlctl.drills.scenario.model import (
    Action,
    Await,
    AwaitedCondition,
    Cut,
    Failover,
    FailoverKind,
    Kill,
    LoadDrillScript,
    Pause,
    Resume,
    Scenario,
)
from rlctl.lab.partition import Flow
from rlctl.lab.roles import LabRole, assign_roles
from rlctl.topology.model import Kind
from tests.unit import fleets

CAST = {
    Kind.CLUSTER: assign_roles(fleets.cluster(), fleets.healthy(fleets.cluster())),
    Kind.SENTINEL: assign_roles(fleets.watched(), fleets.healthy(fleets.watched())),
}
SCENARIOS = [
    pytest.param(scenario, id=f"{file.name} {kind} {scenario.variant}")
    for file in all_shipped()
    for kind in file.kinds
    for scenario in file.for_kind(kind)
]


def test_the_whole_of_a_flagship() -> None:
    scenario = shipped("write-loss").one(Kind.CLUSTER, "")
    assert preview(scenario, CAST[Kind.CLUSTER]) == {
        "scenario": "write-loss",
        "variant": None,
        "kind": Kind.CLUSTER,
        "victim": "127.0.0.1:7000",
        "replicas": ["127.0.0.1:7003"],
        "steps": [
            "let the load run for 800 ms",
            "cut replication between node-0 and node-3",
            "the hot user begins to ask for more than the limit",
            "let the load run for 500 ms",
            "wait until the hot user has used the limit up, at most 3 s",
            "SIGKILL node-0 (127.0.0.1:7000)",
            "wait until a replica is promoted, at most 30 s",
            "wait until the promoted node acknowledges, at most 30 s",
            "let the load run for 500 ms",
            "wait until the hot user has used the limit up, at most 10 s",
        ],
        "load": ["majority: 15000 operations/s at most"],
        "expected": [
            "lost at least 1",
            "lost_span_off_ms at most 50",
            "ratio at least 1.9 at most 2",
            "promotions at least 1 at most 1",
            "serve_ms at most 30000",
        ],
        "expected_loss": 7500,
        "breaks": "the replication between one primary and all its replicas, then that primary",
    }


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_step_is_told(scenario: Scenario) -> None:
    found = preview(scenario, CAST[scenario.kind])
    assert len(set(found)) == 10
    steps = found["steps"]
    assert isinstance(steps, list)
    assert len(steps) == len(scenario.actions)
    assert all(steps)


@pytest.mark.parametrize("kind", Kind)
def test_the_loss_is_the_rate_times_the_lag(kind: Kind) -> None:
    clean_up = {one.variant: preview(one, CAST[kind])["expected_loss"] for one in shipped("lag-sweep").for_kind(kind)}
    assert clean_up == {"0ms": 0, "20ms": 300, "100ms": 1500, "500ms": 7500, "1500ms": 22500}


@pytest.mark.parametrize("name", ["crash", "split-brain", "write-loss-wait", "write-loss-min-replicas"])
def test_no_loss_is_foretold_without_a_lag_or_where_writes_wait_for_replicas(name: str) -> None:
    assert preview(shipped(name).for_kind(Kind.CLUSTER)[0], CAST[Kind.CLUSTER])["expected_loss"] is None


NODES = "node-1, node-2, node-3, node-4, node-5"


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (Cut(role=LabRole.VICTIM, flow=Flow.EVERYTHING), f"cut every flow between node-0 and {NODES}"),
        (Pause(role=LabRole.VICTIM), "SIGSTOP node-0 (127.0.0.1:7000)"),
        (Resume(role=LabRole.REPLICA), "SIGCONT node-3 (127.0.0.1:7003)"),
        (Kill(role=LabRole.PROMOTED), "SIGKILL the promoted node"),
        (Failover(how=FailoverKind.TAKEOVER), "order a failover: takeover"),
        (LoadDrillScript(), "load the script on every node of the shard"),
        (
            Await(condition=AwaitedCondition.REFUSED, within_ms=1500),
            "wait until something is refused, at most 1.5 s",
        ),
        (
            Await(condition=AwaitedCondition.RESUMED, within_ms=2000),
            "wait until operations are acknowledged again, at most 2 s",
        ),
    ],
)
def test_one_step(action: Action, text: str) -> None:
    assert describe(action, CAST[Kind.CLUSTER]) == text
