"""Observed: the small questions that everything else asks."""

import pytest

from rlctl.observe.model import NodeFacts, Observed, OnDisk, Presence
from tests.unit.fleets import changed, cluster, fresh, healthy, hung, id_of, killed, name, wiped


@pytest.mark.parametrize(
    ("presence", "running", "dead"),
    [
        pytest.param(Presence.ABSENT, False, True, id="nothing there"),
        pytest.param(Presence.ABSENT, True, False, id="not listening yet"),
        pytest.param(Presence.HUNG, True, False, id="hung"),
        pytest.param(Presence.LOADING, True, False, id="loading"),
        pytest.param(Presence.UP, True, False, id="up"),
    ],
)
def test_dead(presence: Presence, running: bool, dead: bool) -> None:  # noqa: FBT001
    node = NodeFacts(name=name("node-0"), id=id_of("node-0"), presence=presence, disk=OnDisk(running=running))
    assert node.is_dead is dead
    assert node.is_up is (presence is Presence.UP)


@pytest.mark.parametrize(
    ("state", "exists"),
    [
        pytest.param(fresh(cluster()), False, id="fresh"),
        pytest.param(healthy(cluster()), True, id="healthy"),
        pytest.param(killed(healthy(cluster()), "node-0"), True, id="one dead"),
        pytest.param(changed(fresh(cluster()), "node-0", disk=OnDisk(own_id="x")), True, id="files"),
        pytest.param(changed(fresh(cluster()), "node-0", disk=OnDisk(running=True)), True, id="a process"),
        pytest.param(hung(fresh(cluster()), "node-0"), True, id="a silent process"),
        pytest.param(changed(fresh(cluster()), "node-0", presence=Presence.UP), True, id="it answers from elsewhere"),
    ],
)
def test_exists(state: Observed, exists: bool) -> None:  # noqa: FBT001
    assert state.exists is exists


def test_nodes_are_found_by_name_and_by_id() -> None:
    state = wiped(healthy(cluster()), "node-4")
    assert state.node(name("node-4")).presence is Presence.ABSENT
    assert state.by_id()[id_of("node-2")].name == "node-2"
    assert [node.name for node in state.up] == ["node-0", "node-1", "node-2", "node-3", "node-5"]
