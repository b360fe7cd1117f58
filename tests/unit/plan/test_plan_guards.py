"""When deploy refuses: the error's class, its text and its way out."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from rlctl.errors import AccessDenied, Exit, Refused, RlctlError
from rlctl.observe.model import Observed, OnDisk, Peer, Presence, Role
from rlctl.plan.planner import make_plan
from rlctl.topology.model import Topology
from rlctl.topology.nodes import NodeId
from tests.unit.fleets import changed, cluster, desired_of, fresh, healthy, killed, watched

ALIEN = Peer(id=NodeId("a" * 40), address="10.0.0.9", port=7000, role=Role.PRIMARY)
Damage = Callable[[Observed], Observed]


def met_alien(state: Observed, *, handshake: bool = False) -> Observed:
    table = (*state.nodes[0].table, replace(ALIEN, handshake=handshake))
    return changed(state, "node-0", table=table)


def watching(state: Observed, address: tuple[str, int]) -> Observed:
    view = state.nodes[-1].sentinel
    assert view is not None
    return changed(state, state.nodes[-1].name, sentinel=replace(view, primary=address))


def refusal(topology: Topology, state: Observed) -> RlctlError:
    with pytest.raises(RlctlError) as caught:
        make_plan(desired_of(topology), state)
    return caught.value


@pytest.mark.parametrize(
    ("topology", "state", "message", "hint"),
    [
        pytest.param(
            cluster(),
            changed(
                fresh(cluster()), "node-1", presence=Presence.STRANGER, evidence="127.0.0.1:7001: no Redis answers"
            ),
            "node-1: another process holds 127.0.0.1:7001 (no Redis answers)",
            "rlctl touches no process that it did not start",
            id="stranger",
        ),
        pytest.param(
            cluster(),
            changed(healthy(cluster()), "node-1", presence=Presence.UNPROVEN, evidence="another certificate"),
            "node-1: the server at 127.0.0.1:7001 is not proven to be this node: another certificate",
            "",
            id="unproven",
        ),
        pytest.param(
            cluster(),
            changed(fresh(cluster()), "node-2", disk=OnDisk(port_taken=17_002)),
            "node-2: another process holds port 17002, which 127.0.0.1:7002 needs",
            "another base_port",
            id="bus port",
        ),
        pytest.param(
            cluster(),
            changed(fresh(cluster()), "node-2", disk=OnDisk(misfit="its container was made from a, not b")),
            "node-2: its container was made from a, not b",
            "rolling restarts are not available yet",
            id="misfit",
        ),
        pytest.param(
            cluster(),
            changed(fresh(cluster()), "node-0", presence=Presence.FOREIGN, evidence="its node id is abc, expected def"),
            "node-0: 127.0.0.1:7000 is not a node of this fleet: its node id is abc, expected def",
            "leaves it untouched",
            id="foreign",
        ),
        pytest.param(
            cluster(),
            met_alien(healthy(cluster())),
            "the fleet has a node aaaaaaaa at 10.0.0.9:7000 that is not in the topology",
            "removing nodes is not available yet",
            id="unknown member",
        ),
        pytest.param(
            watched(),
            watching(healthy(watched()), ("10.0.0.9", 6379)),
            "sentinels name 10.0.0.9:6379 as the primary, which is not in the topology",
            "does not take over a primary",
            id="foreign primary",
        ),
        pytest.param(
            cluster(),
            changed(healthy(cluster()), "node-0", flavor="valkey", version="8.0.1"),
            "node-0 runs valkey 8.0.1, the topology says redis",
            "needs a new fleet",
            id="engine",
        ),
        pytest.param(
            replace(cluster(), redis=(("io-threads", "4"),)),
            changed(healthy(replace(cluster(), redis=(("io-threads", "4"),))), "node-5", settings={"io-threads": "1"}),
            "node-5: io-threads is 1, the topology says 4",
            "rolling restarts are not available yet",
            id="needs a restart",
        ),
    ],
)
def test_refused(topology: Topology, state: Observed, message: str, hint: str) -> None:
    error = refusal(topology, state)
    assert type(error) is Refused
    assert error.exit_code is Exit.GUARD
    assert error.message == message
    assert hint in error.hint


def test_a_refused_password_is_a_matter_of_access() -> None:
    evidence = "127.0.0.1:7003: WRONGPASS"
    state = changed(healthy(cluster()), "node-3", presence=Presence.DENIED, evidence=evidence)
    error = refusal(cluster(), state)
    assert isinstance(error, AccessDenied)
    assert error.message == "node-3: 127.0.0.1:7003 rejects this fleet's password (WRONGPASS)"
    assert "rlctl secrets import" in error.hint


def test_a_server_at_maxclients_is_not_to_be_stopped() -> None:
    evidence = "127.0.0.1:7003: ERR max number of clients + cluster connections reached"
    state = changed(healthy(cluster()), "node-3", presence=Presence.FULL, evidence=evidence)
    error = refusal(cluster(), state)
    assert type(error) is Refused
    assert "node-3: 127.0.0.1:7003 accepts no more clients (ERR max number of clients + cluster" in error.message
    assert "stop" not in error.hint


def test_the_gravest_obstacle_is_told_with_all_of_its_kind() -> None:
    state = fresh(cluster())
    for node in ("node-4", "node-1"):
        state = changed(state, node, presence=Presence.STRANGER, evidence="HTTP")
    error = refusal(cluster(), changed(state, "node-0", presence=Presence.FOREIGN, evidence="another id"))
    assert error.message == (
        "node-1: another process holds 127.0.0.1:7001 (HTTP); node-4: another process holds 127.0.0.1:7004 (HTTP)"
    )


@pytest.mark.parametrize(
    ("topology", "state"),
    [
        pytest.param(cluster(), met_alien(healthy(cluster()), handshake=True), id="a handshake is no member"),
        pytest.param(watched(), killed(healthy(watched()), "sentinel-0"), id="a dead sentinel names our primary"),
        pytest.param(
            replace(cluster(), redis=(("maxmemory-clients", "1g"),)),
            changed(healthy(cluster()), "node-0", settings={"maxmemory-clients": "0"}),
            id="a live setting",
        ),
    ],
)
def test_not_refused(topology: Topology, state: Observed) -> None:
    make_plan(desired_of(topology), state)
