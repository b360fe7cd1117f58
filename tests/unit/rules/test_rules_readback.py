"""Which nodes are asked for the rules in force, what each answer means, and how long rlctl waits for them to agree."""

from dataclasses import replace
from typing import Any

import pytest

from rlctl.limits.rule import POINTER_KEY, Version, revision_key
from rlctl.observe.model import Observed, Presence, Role
from rlctl.rules.readback import EVERY_S, NodeRules, read_back, read_nodes
from rlctl.system.redis import Closed, CommandFailed
from rlctl.topology.model import Topology
from tests.unit.fleets import changed, cluster, healthy, id_of, killed, name, promoted, watched
from tests.unit.servers import Server, Servers

THREE = Version(revision=3, digest="three")
FIELDS = {"revision": "3", "digest": "three"}
# The rules of a cluster of three shards lie on node-2, whose replica is node-5.
KEEPER, REPLICA = "node-2", "node-5"


def server(fields: dict[str, str], *, is_stored: bool = True) -> Server:
    return Server(hashes={POINTER_KEY: fields}, texts={revision_key(3): ""} if is_stored else {})


def holding(topology: Topology, observed: Observed | None = None) -> Servers:
    servers = Servers(topology, observed or healthy(topology))
    for node in servers.observed.nodes:
        servers.admin[node.name] = server(FIELDS)
    return servers


def read(servers: Servers) -> tuple[NodeRules, ...]:
    return read_nodes(servers.as_fleet(), servers.observed)


def test_a_shard_of_a_cluster_is_asked() -> None:
    servers = holding(cluster())
    assert [(node.name, node.role, node.port, node.version) for node in read(servers)] == [
        (KEEPER, "primary", 7002, THREE),
        (REPLICA, "replica", 7005, THREE),
    ]
    assert servers.admin[REPLICA].told[0] == ("READONLY",)
    assert {node for node, server in servers.admin.items() if server.told} == {KEEPER, REPLICA}


def test_every_data_node_of_a_sentinel_fleet_is_asked_its_primary_first() -> None:
    servers = holding(watched(), promoted(healthy(watched()), "node-1"))
    assert [node.name for node in read(servers)] == ["node-1", "node-0", "node-2"]
    assert ("READONLY",) not in servers.admin["node-2"].told


def test_without_a_primary_every_data_node_is_asked() -> None:
    observed = killed(killed(healthy(cluster()), KEEPER), REPLICA)
    assert len(read(holding(cluster(), observed))) == 6


def deposed(evidence: str = "") -> Observed:
    """A failover to the replica; the previous primary is back and follows no node yet."""
    state = promoted(healthy(cluster()), REPLICA)
    bare = [
        replace(peer, follows=None, slots=(), role=Role.PRIMARY) if peer.id == id_of(KEEPER) else peer
        for peer in state.node(name(REPLICA)).table
    ]
    state = changed(state, REPLICA, table=tuple(bare))
    return changed(state, KEEPER, evidence=evidence, role=Role.PRIMARY, slots=(), fleet_ok=False)


@pytest.mark.parametrize(
    ("evidence", "said"),
    [("", "was the primary before a failover, and does not follow the new one yet"), ("refused", "refused")],
)
def test_a_primary_that_lost_its_shard_is_named_and_not_asked(evidence: str, said: str) -> None:
    servers = holding(cluster(), deposed(evidence))
    first, last = read(servers)
    assert (first.name, first.version, first.deposed) == (REPLICA, THREE, False)
    assert (last.name, last.role, last.version, last.evidence, last.deposed) == (KEEPER, "primary", None, said, True)
    assert (last.host, last.port) == ("127.0.0.1", 7002)
    assert servers.admin[KEEPER].told == []


def test_a_node_that_follows_is_asked_before_its_primary_knows_it() -> None:
    observed = changed(deposed(), KEEPER, role=Role.REPLICA, follows=id_of(REPLICA))
    assert [(node.name, node.role, node.version) for node in read(holding(cluster(), observed))] == [
        (REPLICA, "primary", THREE),
        (KEEPER, "replica", THREE),
    ]


def test_a_bare_node_of_another_shard_is_not_of_these_rules() -> None:
    state = healthy(cluster())
    bare = [
        replace(peer, follows=None, slots=()) if peer.id in {id_of("node-0"), id_of("node-3")} else peer
        for peer in state.node(name(KEEPER)).table
    ]
    servers = holding(cluster(), changed(state, KEEPER, table=tuple(bare)))
    assert [node.name for node in read(servers)] == [KEEPER, REPLICA]


@pytest.mark.parametrize(
    ("asked", "version", "evidence"),
    [
        pytest.param(server(FIELDS), THREE, "", id="in force"),
        pytest.param(server({}), None, "", id="no rules"),
        pytest.param(server({"revision": "3"}), Version(revision=3, digest=""), "", id="no digest"),
        pytest.param(server(FIELDS | {"revision": "x"}), None, "the pointer has revision 'x', which is no", id="torn"),
        pytest.param(
            server(FIELDS, is_stored=False), None, "the pointer has revision 3, which is missing", id="missing"
        ),
        pytest.param(Server(answer=lambda _command: CommandFailed("LOADING")), None, "LOADING", id="loading"),
    ],
)
def test_what_a_node_says(asked: Server, version: Version | None, evidence: str) -> None:
    servers = holding(cluster())
    servers.admin[REPLICA] = asked
    first, found = read(servers)
    assert (first.version, first.evidence) == (THREE, "")
    assert (found.version, found.name, found.role, found.port) == (version, REPLICA, "replica", 7005)
    assert found.evidence.startswith(evidence)
    assert bool(found.evidence) is bool(evidence)
    document = found.to_json(THREE)
    assert document["reachable"] is not bool(evidence)
    assert document["evidence"] == (found.evidence or None)
    assert document["current"] is (version == THREE)
    assert (document["revision"], document["digest"]) == ((3, version.digest) if version else (None, None))


def test_a_node_that_is_gone_has_no_role() -> None:
    def gone(_command: object) -> object:
        raise Closed("connection refused")

    servers = holding(cluster(), changed(killed(healthy(cluster()), REPLICA), REPLICA, role=None))
    servers.admin[REPLICA] = Server(answer=gone)
    assert read(servers)[1].to_json(None) == {
        "name": REPLICA,
        "role": None,
        "host": "127.0.0.1",
        "port": 7005,
        "reachable": False,
        "evidence": "connection refused",
        "revision": None,
        "digest": None,
        "current": False,
    }


class Late(Server):
    """A replica that has the new rules after some reads."""

    def __init__(self, rounds: int) -> None:
        super().__init__(texts={revision_key(3): ""})
        self.rounds = rounds

    def _own_answer(self, command: tuple[Any, ...]) -> object:
        if command[0] != "HMGET":
            return super()._own_answer(command)
        self.rounds -= 1
        return ["3", "three"] if self.rounds <= 0 else ["2", "two"]


@pytest.mark.parametrize(("rounds", "waits", "is_there"), [(1, 0, True), (3, 2, True), (99, 10, False)])
def test_rules_are_read_until_all_nodes_agree(rounds: int, waits: int, *, is_there: bool) -> None:
    servers = holding(cluster())
    late = servers.admin[REPLICA] = Late(rounds)
    late.texts[revision_key(2)] = ""
    found = read_back(servers.as_fleet(), servers.observed, THREE, EVERY_S * 9.5)
    assert (found[1].version == THREE) is is_there
    assert round(servers.clock.now_s / EVERY_S) == waits


def test_nothing_waits_for_a_primary_that_lost_its_shard() -> None:
    servers = holding(cluster(), deposed())
    assert len(read_back(servers.as_fleet(), servers.observed, THREE, 5.0)) == 2
    assert servers.clock.now_s == 0


def test_a_node_that_hangs_is_waited_for() -> None:
    servers = holding(cluster(), changed(healthy(cluster()), REPLICA, presence=Presence.HUNG))
    servers.admin[REPLICA] = Server(answer=lambda _command: CommandFailed("BUSY"))
    found = read_back(servers.as_fleet(), servers.observed, THREE, 1.0)
    assert [node.evidence for node in found] == ["", "BUSY"]
    assert servers.clock.now_s >= 1
