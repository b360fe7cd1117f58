"""The status of a fleet in the words of the contract (design section 4)."""

from dataclasses import replace
from functools import partial

import pytest

from rlctl.observe.model import Observed, Presence, SentinelView
from rlctl.operations.status import FleetStatus, NodeStatus, status_of
from rlctl.topology.model import Topology
from tests.unit.fleets import (
    Damage,
    changed,
    cluster,
    damaged,
    desired_of,
    fresh,
    healthy,
    hung,
    id_of,
    killed,
    name,
    promoted,
    watched,
)

NODE_KEYS = {
    *("id", "role", "shard", "host", "port", "slots", "link"),
    *("lag_bytes", "version", "alive", "unproven", "scripts_missing"),
}

NOT_OK = partial(changed, node="node-0", fleet_ok=False)


def opinion(**facts: object) -> Damage:
    def change(state: Observed) -> Observed:
        view = state.node(name("sentinel-0")).sentinel or SentinelView()
        return changed(state, "sentinel-0", sentinel=replace(view, **facts))  # type: ignore[arg-type]

    return change


def status(topology: Topology, *damages: Damage) -> FleetStatus:
    return status_of(desired_of(topology), damaged(healthy(topology), damages))


def node_of(result: FleetStatus, name: str) -> NodeStatus:
    return next(node for node in result.nodes if node.name == name)


def test_the_document() -> None:
    document = status(cluster()).to_json()
    assert list(document) == ["schema", "name", "kind", "state", "findings", "nodes"]
    assert (document["schema"], document["name"], document["kind"]) == ("rlctl.status/1", "limiter", "cluster")
    assert (document["state"], document["findings"]) == ("healthy", [])


@pytest.mark.parametrize("topology", [cluster(), watched()], ids=["cluster", "sentinel"])
def test_the_keys_of_every_node(topology: Topology) -> None:
    for node in status(topology).nodes:
        document = node.to_json()
        assert set(document) >= NODE_KEYS
        assert not {key for key in document if "password" in key or "secret" in key}
        assert document["role"] in {"primary", "replica", "sentinel"}
        assert document["link"] in {"up", "down", "none"}


def test_a_node() -> None:
    document = node_of(status(cluster()), "node-4").to_json()
    expected = {"id": id_of("node-4"), "role": "replica", "shard": 1, "host": "127.0.0.1", "port": 7_004, "slots": 0}
    expected |= {"link": "up", "lag_bytes": 0, "version": "7.0.15", "alive": True}
    assert {key: document[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("presence", "unproven"), [(Presence.UNPROVEN, True), (Presence.HUNG, False)], ids=["unproven", "hung"]
)
def test_a_node_that_was_not_asked_is_told_from_one_that_is_silent(*, presence: Presence, unproven: bool) -> None:
    document = node_of(status(cluster(), partial(hung, node="node-4", presence=presence)), "node-4").to_json()
    assert (document["alive"], document["unproven"]) == (False, unproven)


def test_an_absent_fleet_has_a_document_without_nodes() -> None:
    document = status_of(desired_of(cluster()), fresh(cluster())).to_json()
    assert (document["state"], document["nodes"], document["findings"]) == ("absent", [], [])


def test_findings_are_told_as_json() -> None:
    document = status(cluster(), partial(killed, node="node-3")).to_json()
    assert document["state"] == "degraded"
    assert {"code": "node-down", "severity": "degraded", "subject": "node-3"}.items() <= dict(
        next(one for one in document["findings"] if one["code"] == "node-down")  # type: ignore[attr-defined]
    ).items()


@pytest.mark.parametrize(
    ("topology", "damages", "node", "role", "slots"),
    [
        pytest.param(cluster(), [partial(killed, node="node-1")], "node-1", "primary", 5_462, id="a dead primary"),
        pytest.param(cluster(), [partial(killed, node="node-4")], "node-4", "replica", 0, id="a dead replica"),
        pytest.param(
            cluster(),
            [partial(killed, node="node-1"), partial(promoted, node="node-4")],
            "node-1",
            "replica",
            0,
            id="a dead primary that was replaced",
        ),
        pytest.param(watched(), [partial(killed, node="node-0")], "node-0", "primary", 0, id="a dead watched primary"),
        pytest.param(watched(), [partial(killed, node="node-1")], "node-1", "replica", 0, id="a dead watched replica"),
        pytest.param(watched(), [partial(hung, node="sentinel-2")], "sentinel-2", "sentinel", 0, id="a hung sentinel"),
    ],
)
def test_a_silent_node_is_described_by_the_others(
    topology: Topology, damages: list[Damage], node: str, role: str, slots: int
) -> None:
    found = node_of(status(topology, *damages), node)
    assert (found.role, found.slots, found.alive, found.link, found.lag_bytes) == (role, slots, False, "none", None)


@pytest.mark.parametrize(
    ("topology", "damages", "node", "view"),
    [
        pytest.param(cluster(), [], "node-0", "ok, knows 6", id="cluster"),
        pytest.param(
            cluster(), [partial(changed, node="node-0", fleet_ok=False)], "node-0", "fail, knows 6", id="fail"
        ),
        pytest.param(cluster(), [partial(killed, node="node-0")], "node-0", None, id="dead"),
        pytest.param(watched(), [], "sentinel-0", "node-0", id="a sentinel"),
        pytest.param(watched(), [partial(promoted, node="node-2")], "sentinel-0", "node-2", id="after a failover"),
        pytest.param(watched(), [], "node-0", None, id="a data node has no view"),
        pytest.param(watched(), [opinion(down=True)], "sentinel-0", "node-0 (down)", id="a doubt"),
        pytest.param(watched(), [opinion(down=True, tilt_s=0)], "sentinel-0", "node-0 (TILT)", id="in TILT"),
    ],
)
def test_view(topology: Topology, damages: list[Damage], node: str, view: str | None) -> None:
    assert node_of(status(topology, *damages), node).view == view


def test_shards_and_ports_come_from_the_topology() -> None:
    state: Observed = healthy(watched())
    found = status_of(desired_of(watched()), state)
    assert [(node.name, node.shard, node.port) for node in found.nodes] == [
        ("node-0", 0, 7_000),
        ("node-1", 0, 7_001),
        ("node-2", 0, 7_002),
        ("sentinel-0", None, 8_000),
        ("sentinel-1", None, 8_001),
        ("sentinel-2", None, 8_002),
    ]
