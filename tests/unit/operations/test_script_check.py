"""Verifying scripts: which nodes are called with which keys, and which replies are right."""

from dataclasses import replace
from typing import Any

import pytest
from redis.crc import key_slot

from rlctl.observe.model import Observed, Presence, Role
from rlctl.operations.script_check import scratch_key, serving, unserved_shards, verify
from rlctl.system.redis import Closed, CommandFailed
from rlctl.topology.model import Topology
from tests.unit.fleets import changed, cluster, fresh, healthy, killed, name, watched
from tests.unit.servers import RELEASE, Answer, Server, Servers

FIRST = RELEASE.scripts[0]
Command = tuple[Any, ...]


def right() -> Answer:
    """A server that answers each call with the next reply that the manifest names."""
    replies = {script.sha1: iter(script.examples) for script in RELEASE.scripts}
    return lambda command: list(next(replies[command[1]]).reply)


def servers(topology: Topology, **facts: Any) -> Servers:
    found = Servers(topology, healthy(topology), **facts)
    for node in found.observed.nodes:
        found.runtime[node.name] = Server(answer=right())
    return found


def evidence(found: Servers) -> dict[tuple[str, str], str | None]:
    return {(one.node, one.script): one.evidence for one in verify(found.as_fleet(), found.observed)}


@pytest.mark.parametrize(
    ("topology", "primaries"), [(cluster(), ["node-0", "node-1", "node-2"]), (watched(), ["node-0"])], ids=["c", "s"]
)
def test_each_script_is_called_on_each_primary(topology: Topology, primaries: list[str]) -> None:
    fleet = servers(topology)
    assert evidence(fleet) == {(node, script.name): None for node in primaries for script in RELEASE.scripts}
    for node in primaries:
        calls = [command for command in fleet.runtime[node].told if command[0] == "EVALSHA"]
        assert [(call[1], call[4:]) for call in calls] == [
            (script.sha1, example.args) for script in RELEASE.scripts for example in script.examples
        ]
        used = list(dict.fromkeys(call[3] for call in calls))
        assert fleet.admin[node].told == [("UNLINK", key) for key in used]
        assert fleet.runtime[node].is_closed


@pytest.mark.parametrize("topology", [cluster(), watched()], ids=["cluster", "sentinel"])
def test_a_scratch_key_lies_on_its_node(topology: Topology) -> None:
    for node in serving(Servers(topology, healthy(topology)).as_fleet(), healthy(topology)):
        key = scratch_key("gcra", node)
        assert key.startswith("rl:{rlctl-verify-")
        assert key.endswith("}:rlctl-verify:gcra")
        if node.slots:
            assert any(first <= key_slot(key.encode()) <= last for first, last in node.slots)
        else:
            assert key == "rl:{rlctl-verify-0}:rlctl-verify:gcra"


@pytest.mark.parametrize("edge", [0, 1])
def test_a_node_with_one_slot_has_a_scratch_key(edge: int) -> None:
    """Both bounds of a range belong to it."""
    slot = key_slot(b"rlctl-verify-5")
    node = replace(healthy(cluster()).node(name("node-0")), slots=((slot - edge, slot + 1 - edge),))
    owned = {slot - edge, slot + 1 - edge}
    first = next(number for number in range(99_999) if key_slot(f"rlctl-verify-{number}".encode()) in owned)
    assert scratch_key("gcra", node) == f"rl:{{rlctl-verify-{first}}}:rlctl-verify:gcra"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (CommandFailed("NOPERM no"), "NOPERM no"),
        ([0, 0, 0, 0, 0, 7], f"{list(FIRST.examples[0].args)} answered [0, 0, 0, 0, 0, 7], not"),
        (Closed("gone"), "gone"),
    ],
)
def test_a_wrong_answer_is_the_evidence(answer: Any, said: str) -> None:
    well = right()

    def wrong(command: Command) -> object:
        if command[1] != FIRST.sha1:
            return well(command)
        if isinstance(answer, Closed):
            raise answer
        return answer

    fleet = servers(watched())
    fleet.runtime["node-0"].answer = wrong
    found = evidence(fleet)
    assert (found.pop(("node-0", FIRST.name)) or "").startswith(said)
    assert set(found.values()) == {None}
    assert fleet.runtime["node-0"].is_closed


def test_a_key_that_cannot_be_removed_is_evidence() -> None:
    fleet = servers(watched())
    fleet.admin["node-0"].answer = lambda _command: CommandFailed("READONLY")
    assert set(evidence(fleet).values()) == {"READONLY"}


def test_a_verdict_for_programs() -> None:
    [first, *_] = verify(servers(watched()).as_fleet(), healthy(watched()))
    assert first.to_json() == {"node": "node-0", "script": FIRST.name, "ok": True, "evidence": None}
    assert replace(first, evidence="no").to_json()["ok"] is False


SPARE = changed(healthy(cluster()), "node-4", role=Role.PRIMARY)


@pytest.mark.parametrize(
    ("topology", "observed", "nodes", "unserved"),
    [
        pytest.param(cluster(), healthy(cluster()), ["node-0", "node-1", "node-2"], 0, id="a cluster"),
        pytest.param(cluster(), killed(healthy(cluster()), "node-1"), ["node-0", "node-2"], 1, id="a shard is gone"),
        pytest.param(cluster(), SPARE, ["node-0", "node-1", "node-2"], 0, id="a primary without slots"),
        pytest.param(cluster(), fresh(cluster()), [], 3, id="nothing is there"),
        pytest.param(
            cluster(), changed(SPARE, "node-4", slots=((0, 9),)), ["node-0", "node-1", "node-2", "node-4"], 0, id="more"
        ),
        pytest.param(
            cluster(),
            changed(healthy(cluster()), "node-0", presence=Presence.HUNG),
            ["node-1", "node-2"],
            1,
            id="a node that hangs",
        ),
        pytest.param(watched(), healthy(watched()), ["node-0"], 0, id="one primary"),
        pytest.param(watched(), killed(healthy(watched()), "node-0"), [], 1, id="no primary"),
    ],
)
def test_the_nodes_that_decide(topology: Topology, observed: Observed, nodes: list[str], unserved: int) -> None:
    fleet = Servers(topology, observed).as_fleet()
    assert [node.name for node in serving(fleet, observed)] == nodes
    assert unserved_shards(fleet, observed) == unserved
