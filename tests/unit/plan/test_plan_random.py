"""Random damage to random fleets: every plan ends at rest, from every prefix, and loses nothing without a word."""

import os
from functools import reduce

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rlctl.observe.model import NodeFacts, Observed, Role, Saved
from rlctl.topology.model import PersistenceMode
from rlctl.topology.nodes import NodeName
from tests.unit.fleets import (
    SAVED,
    changed,
    cluster,
    desired_of,
    following,
    healthy,
    killed,
    promoted,
    reset,
    unmet,
    watched,
    wiped,
    without_slots,
)
from tests.unit.proof import prove

Event = tuple[str, ...]
AOF, RDB, NONE = PersistenceMode.AOF, PersistenceMode.RDB, PersistenceMode.NONE
MODES = st.sampled_from([AOF, RDB, NONE])
# `make soak` tries more of them.
EXAMPLES = settings(
    max_examples=int(os.environ.get("RLCTL_EXAMPLES", "200")), suppress_health_check=[HealthCheck.too_slow]
)
FATES = st.sampled_from(["outlived", "killed", "killed", "killed empty", "wiped", "settings", "users", "off"])
CLUSTER_NODES = st.integers(0, 8).map("node-{}".format)
WATCHED_NODES = st.sampled_from(["node-0", "node-1", "node-2", "sentinel-0", "sentinel-1", "sentinel-2"])


def fates(nodes: st.SearchStrategy[str]) -> st.SearchStrategy[list[Event]]:
    return st.lists(st.tuples(FATES, nodes), max_size=9, unique_by=lambda event: event[1])


CLUSTER_STORIES = st.tuples(
    st.lists(st.tuples(st.just("promoted"), CLUSTER_NODES), max_size=2),
    st.lists(st.tuples(st.just("unmet"), CLUSTER_NODES, CLUSTER_NODES), max_size=2),
    fates(CLUSTER_NODES),
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["reset", "half"]), CLUSTER_NODES),
            st.tuples(st.just("strayed"), CLUSTER_NODES, CLUSTER_NODES),
        ),
        max_size=1,
    ),
).map(lambda parts: [event for part in parts for event in part])
WATCHED_STORIES = st.tuples(
    st.lists(st.tuples(st.just("promoted"), WATCHED_NODES), max_size=1), fates(WATCHED_NODES)
).map(lambda parts: [event for part in parts for event in part])


def befall(state: Observed, event: Event, mode: PersistenceMode) -> Observed:  # noqa: C901 - one line an event
    """The state after the event; what cannot happen to this node does not."""
    what, name, *others = event
    node = next((one for one in state.nodes if one.name == name), None)
    if node is None or not node.is_up or not all(_is_up(state, other) for other in others):
        return state
    match what:
        case "promoted" if node.follows is not None:
            return promoted(state, name)
        case "killed":
            return killed(state, name, SAVED[mode], mode)
        case "killed empty":
            return killed(state, name, Saved.NOTHING, mode)
        case "outlived" if node.slots and (replica := _live_replica(state, node)) is not None:
            # The table on its disk still claims the slots, at an epoch that the fleet has left behind.
            return promoted(killed(state, name, SAVED[mode], mode), replica)
        case "wiped" if node.sentinel is None or _others_watch(state, name):
            return wiped(state, name)
        case "settings" if node.sentinel is None:
            return changed(state, name, settings={"maxmemory": "1"})
        case "users":
            return changed(state, name, acl_revision="another")
        case "off":
            return changed(state, name, users_off=frozenset({"replica"}))
        case "unmet" if others != [name]:
            return unmet(state, name, others[0])
        case "reset" if node.role is Role.REPLICA:
            return reset(state, name)
        case "half" if node.slots:
            return without_slots(state, name, half=True)
        case "strayed" if node.role is Role.REPLICA and state.node(NodeName(others[0])).slots:
            return following(state, name, others[0])
    return state


def _live_replica(state: Observed, primary: NodeFacts) -> str | None:
    return next((node.name for node in state.up if node.follows == primary.id and node.role is Role.REPLICA), None)


def _is_up(state: Observed, name: str) -> bool:
    return any(node.is_up for node in state.nodes if node.name == name)


def _others_watch(state: Observed, name: str) -> bool:
    """With the files of all sentinels gone nobody can tell a fleet that was used from one that never was."""
    others = (node for node in state.nodes if node.name.startswith("sentinel") and node.name != name)
    return any(node.is_up or node.disk.monitors for node in others)


@EXAMPLES
@given(st.integers(3, 4), st.integers(0, 2), MODES, CLUSTER_STORIES)
@example(3, 1, NONE, [("killed", "node-0"), ("killed", "node-3")])
@example(3, 1, NONE, [("outlived", "node-0"), ("wiped", "node-3")])
@example(3, 1, AOF, [("outlived", "node-0"), ("wiped", "node-3")])
@example(3, 1, AOF, [("outlived", "node-0"), ("killed", "node-3")])
@example(4, 2, AOF, [("promoted", "node-7"), ("outlived", "node-0"), ("killed", "node-7"), ("outlived", "node-4")])
def test_a_damaged_cluster_comes_to_rest(shards: int, replicas: int, mode: PersistenceMode, story: list[Event]) -> None:
    topology = cluster(shards, replicas, mode)
    prove(desired_of(topology), reduce(lambda state, event: befall(state, event, mode), story, healthy(topology)))


@EXAMPLES
@given(st.integers(1, 3), st.sampled_from([1, 3]), MODES, WATCHED_STORIES)
@example(2, 3, RDB, [("promoted", "node-1"), ("killed", "node-1"), ("wiped", "node-0")])
def test_a_damaged_sentinel_fleet_comes_to_rest(
    replicas: int, sentinels: int, mode: PersistenceMode, story: list[Event]
) -> None:
    topology = watched(replicas, sentinels, mode)
    prove(desired_of(topology), reduce(lambda state, event: befall(state, event, mode), story, healthy(topology)))
