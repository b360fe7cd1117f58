"""Every step: its name, its line, its danger and its JSON."""

import json
from typing import get_args

import pytest

from rlctl.plan.planner import Plan
from rlctl.plan.simulate import simulate
from rlctl.plan.steps import (
    AssignSlots,
    AwaitFailover,
    Configure,
    LoadScripts,
    LoadUsers,
    Meet,
    MonitorPrimary,
    PreparePlace,
    Replicate,
    SetEpoch,
    StartNode,
    StartSentinel,
    Step,
    TakeOver,
    danger,
    describe,
    format_slots,
    kind,
    place,
)
from tests.unit.fleets import changed, cluster, desired_of, healthy, name

A, B = name("node-0"), name("node-1")
TABLE: list[tuple[Step, str, str, str | None]] = [
    (PreparePlace(host="h1", changes=("Place",)), "prepare-place", "host h1: 1 change: Place", None),
    (
        PreparePlace(host="h1", changes=("Make a user, a group", "b", "c", "d", "e")),
        "prepare-place",
        "host h1: 5 changes: Make a user, a group; b; c; and 2 more",
        None,
    ),
    (StartNode(node=A), "start-node", "node-0: start", None),
    (StartNode(node=A, follow=B), "start-node", "node-0: start as replica of node-1", None),
    (StartNode(node=A, loss="all is lost"), "start-node", "node-0: start (all is lost)", "all is lost"),
    (StartSentinel(node=A, primary=B), "start-sentinel", "node-0: start and watch node-1", None),
    (
        AwaitFailover(node=A, shard=2),
        "await-failover",
        "shard 2: wait until a replica of node-0 has taken over",
        None,
    ),
    (
        AwaitFailover(node=A, shard=2, loss="some is lost"),
        "await-failover",
        "shard 2: wait until a replica of node-0 has taken over (some is lost)",
        "some is lost",
    ),
    (
        TakeOver(node=A, dead=B, shard=1),
        "take-over",
        "node-0: take over shard 1 from node-1 without an election",
        "writes that node-1 acknowledged and node-0 does not hold are lost",
    ),
    (SetEpoch(node=A, epoch=3), "set-epoch", "node-0: set configuration epoch 3", None),
    (Meet(node=A, peers=(B,)), "meet", "node-0: meet node-1", None),
    (AssignSlots(node=A, slots=((0, 5), (7, 7))), "assign-slots", "node-0: own slots 0-5, 7", None),
    (Replicate(node=A, primary=B), "replicate", "node-0: replicate node-1", None),
    (MonitorPrimary(node=A, primary=B), "monitor-primary", "node-0: monitor node-1", None),
    (PreparePlace(host="h1", changes=("a", "b")), "prepare-place", "host h1: 2 changes: a; b", None),
    (LoadScripts(node=A, scripts=("gcra", "concurrent")), "load-scripts", "node-0: load 2 scripts", None),
    (LoadScripts(node=A, scripts=("gcra",)), "load-scripts", "node-0: load 1 script", None),
    (LoadUsers(node=A, revision="abc"), "load-users", "node-0: load the users of this release", None),
    (Configure(node=A, setting="hz", value="20", was="10"), "configure", "node-0: set hz to 20 (was 10)", None),
    (
        Configure(node=A, setting="save", value="", was="60 1"),
        "configure",
        "node-0: set save to nothing (was 60 1)",
        None,
    ),
]


@pytest.mark.parametrize(("step", "word", "line", "loss"), TABLE, ids=[line for _step, _word, line, _loss in TABLE])
def test_step(step: Step, word: str, line: str, loss: str | None) -> None:
    assert kind(step) == word
    assert describe(step) == line
    assert danger(step) == loss


def test_the_table_has_every_member_of_the_union() -> None:
    assert {type(step) for step, *_rest in TABLE} == set(get_args(Step))


def test_kinds_are_unique() -> None:
    kinds = {type(step): word for step, word, *_rest in TABLE}
    assert len(set(kinds.values())) == len(kinds)


def test_many_peers_are_counted() -> None:
    peers = tuple(name(f"node-{number}") for number in range(1, 7))
    assert describe(Meet(node=A, peers=peers)) == "node-0: meet node-1, node-2, node-3 and 3 more"
    assert describe(Meet(node=A, peers=peers[:3])) == "node-0: meet node-1, node-2, node-3"


@pytest.mark.parametrize("step", [step for step, *_rest in TABLE], ids=lambda step: type(step).__name__)
def test_a_step_is_carried_out_on_a_node_or_a_host(step: Step) -> None:
    assert place(step) == (step.host if isinstance(step, PreparePlace) else step.node)


def test_no_slots_are_no_text() -> None:
    assert format_slots(()) == ""


def test_the_json_of_a_plan_has_kinds_and_texts_and_nothing_else() -> None:
    steps = tuple(step for step, *_rest in TABLE)
    document = Plan(fleet="limiter", topology="t", observed="o", steps=steps).to_json()
    assert list(document) == ["schema", "fleet", "fingerprints", "steps"]
    assert document["schema"] == "rlctl.plan/1"
    assert document["steps"] == [{"kind": word, "text": line} for _step, word, line, _loss in TABLE]
    # The revision is a hash over password hashes: not even that is told.
    assert "abc" not in json.dumps(document)


def test_a_danger_is_told_once() -> None:
    step = StartNode(node=A, loss="all is lost")
    assert Plan(fleet="f", topology="t", observed="o", steps=(step, step)).dangers == ("all is lost",)


@pytest.mark.parametrize(
    ("owned", "more", "joined"),
    [
        pytest.param(((0, 9),), ((10, 19),), ((0, 19),), id="next to each other"),
        pytest.param(((0, 9),), ((11, 19),), ((0, 9), (11, 19)), id="a slot between them"),
        pytest.param(((10, 19),), ((0, 9),), ((0, 19),), id="in another order"),
        pytest.param(((0, 19),), ((5, 9),), ((0, 19),), id="one in the other"),
        pytest.param((), ((5, 5),), ((5, 5),), id="the first"),
    ],
)
def test_slots_that_are_assigned_join_those_that_were(
    owned: tuple[tuple[int, int], ...], more: tuple[tuple[int, int], ...], joined: tuple[tuple[int, int], ...]
) -> None:
    topology = cluster()
    state = changed(healthy(topology), "node-0", slots=owned)
    after = simulate(desired_of(topology), state, AssignSlots(node=name("node-0"), slots=more))
    assert after.node(name("node-0")).slots == joined
