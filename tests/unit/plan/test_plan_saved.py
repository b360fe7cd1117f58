"""Saved plans: accepted while nothing has moved, else refused with what has."""

import json
from dataclasses import replace

import pytest

from rlctl.errors import Exit, InvalidFile, StalePlan
from rlctl.observe.model import Observed, ReplicationLink, Saved
from rlctl.plan.planner import fingerprint, make_plan
from rlctl.plan.saved import SavedPlan, to_text
from rlctl.topology.model import Topology
from tests.unit.fleets import changed, cluster, desired_of, fresh, healthy, killed, promoted, watched

PRINTS = {"topology": "t", "observed": "o"}


def saved(topology: Topology, state: Observed) -> SavedPlan:
    return SavedPlan.from_text(to_text(make_plan(desired_of(topology), state)), "plan.json")


def test_a_plan_fits_the_fleet_it_was_made_for() -> None:
    saved(cluster(), fresh(cluster())).check(make_plan(desired_of(cluster()), fresh(cluster())))


@pytest.mark.parametrize(
    ("topology", "state", "moved"),
    [
        pytest.param(replace(cluster(), name="other"), fresh(cluster()), "the fleet's name", id="name"),
        pytest.param(replace(cluster(), redis=(("hz", "20"),)), fresh(cluster()), "the topology", id="topology"),
        pytest.param(cluster(), healthy(cluster()), "the fleet", id="fleet"),
    ],
)
def test_stale(topology: Topology, state: Observed, moved: str) -> None:
    with pytest.raises(StalePlan, match=f"^the saved plan is stale: {moved} has changed since$") as caught:
        saved(cluster(), fresh(cluster())).check(make_plan(desired_of(topology), state))
    assert caught.value.exit_code is Exit.GUARD


def test_stale_when_rlctl_itself_would_do_something_else() -> None:
    plan = make_plan(desired_of(cluster()), fresh(cluster()))
    with pytest.raises(StalePlan, match="the list of steps has changed"):
        saved(cluster(), fresh(cluster())).check(replace(plan, steps=plan.steps[1:]))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="torn"),
        pytest.param("[]", id="a list"),
        pytest.param("null", id="null"),
        pytest.param('"plan"', id="a text"),
        pytest.param("{}", id="no keys"),
        pytest.param(json.dumps({"fleet": "f", "fingerprints": [], "steps": []}), id="fingerprints"),
        pytest.param(
            json.dumps({"fleet": "f", "fingerprints": {"topology": "t", "observed": "o"}, "steps": 1}), id="steps"
        ),
        pytest.param("[" * 100_000, id="deep"),
    ],
)
def test_garbage_is_an_invalid_file(text: str) -> None:
    with pytest.raises(InvalidFile, match=r"^plan\.json:1: this is not a plan written by rlctl$") as caught:
        SavedPlan.from_text(text, "plan.json")
    assert "--plan-out" in caught.value.hint


@pytest.mark.parametrize("topology", [cluster(), watched()], ids=["cluster", "sentinel"])
def test_the_fingerprint_ignores_what_always_moves(topology: Topology) -> None:
    state = healthy(topology)
    moved = changed(
        state,
        "node-1",
        offset=9,
        lag_bytes=7,
        pid=4,
        run_id="x",
        used_bytes=8,
        keys=99,
        link=ReplicationLink.DOWN,
        evidence="slow",
    )
    assert fingerprint(moved) == fingerprint(state)


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(killed(healthy(cluster()), "node-0"), id="dead"),
        pytest.param(killed(healthy(cluster()), "node-0", saved=Saved.NOTHING), id="dead without its files"),
        pytest.param(promoted(healthy(cluster()), "node-3"), id="failed over"),
        pytest.param(changed(healthy(cluster()), "node-0", settings={}), id="settings"),
        pytest.param(changed(healthy(cluster()), "node-0", acl_revision="x"), id="users"),
        pytest.param(changed(healthy(cluster()), "node-0", users_off=frozenset({"limiter"})), id="users off"),
        pytest.param(changed(healthy(cluster()), "node-0", table=()), id="members"),
        pytest.param(healthy(watched()), id="another kind"),
        pytest.param(promoted(healthy(watched()), "node-1"), id="sentinels name another"),
        pytest.param(fresh(cluster()), id="nothing there"),
    ],
)
def test_the_fingerprint_tells_apart(state: Observed) -> None:
    others = [healthy(cluster()), killed(healthy(cluster()), "node-1")]
    assert fingerprint(state) not in {fingerprint(other) for other in others}


def test_the_fingerprint_knows_what_a_dead_node_has_on_its_disk() -> None:
    states = [killed(healthy(cluster()), "node-0", saved=saved) for saved in Saved]
    assert len({fingerprint(state) for state in states}) == len(states)


def test_before_the_first_deploy_ids_mean_nothing() -> None:
    state = fresh(cluster())
    assert fingerprint(state) == fingerprint(changed(state, "node-0", id="another"))
