"""Who owns which slots when nodes disagree, lag behind or are gone."""

from dataclasses import replace
from pathlib import Path

import pytest

from rlctl.observe import parse
from rlctl.observe.model import NodeFacts, Observed, OnDisk, Peer, Presence, Role
from rlctl.plan.ownership import missing_slots, ownership, shards
from rlctl.topology.nodes import NodeId
from tests.unit.fleets import cluster, healthy, id_of, killed, name, promoted, without_slots

DATA = Path(__file__).parents[2] / "data"
SOME = (0, 99)


def line(node: str, *slots: tuple[int, int], epoch: int, role: Role = Role.PRIMARY, handshake: bool = False) -> Peer:
    return Peer(id=id_of(node), address="", port=0, role=role, slots=slots, epoch=epoch, handshake=handshake)


def live(node: str, *slots: tuple[int, int], epoch: int, table: tuple[Peer, ...] = ()) -> NodeFacts:
    own = line(node, *slots, epoch=epoch)
    return NodeFacts(
        name=name(node),
        id=id_of(node),
        presence=Presence.UP,
        role=Role.PRIMARY,
        slots=slots,
        epoch=epoch,
        table=(own, *table),
    )


def dead(node: str, *table: Peer) -> NodeFacts:
    return NodeFacts(name=name(node), id=id_of(node), presence=Presence.ABSENT, disk=OnDisk(table=table))


A_OLD, B_NEW = line("a", SOME, epoch=1), line("b", SOME, epoch=7)


@pytest.mark.parametrize(
    ("nodes", "owner"),
    [
        pytest.param((live("a", SOME, epoch=1), live("b", SOME, epoch=7)), "b", id="the higher epoch"),
        pytest.param((live("b", SOME, epoch=7), live("a", SOME, epoch=1)), "b", id="in any order"),
        pytest.param((dead("a"), live("c", epoch=3, table=(A_OLD,))), "a", id="a dead owner others speak of"),
        pytest.param((dead("a", A_OLD), live("b", SOME, epoch=7)), "b", id="a dead claim is older"),
        pytest.param((live("a", SOME, epoch=1), dead("b", B_NEW)), "b", id="a dead claim is newer"),
        pytest.param(
            (dead("a"), dead("b"), live("c", epoch=3, table=(A_OLD,)), live("d", epoch=4, table=(B_NEW,))),
            "b",
            id="a stale view",
        ),
        pytest.param(
            (dead("a", A_OLD), dead("b", B_NEW, line("a", epoch=7, role=Role.REPLICA))),
            "b",
            id="a replica's line shows its primary's epoch",
        ),
        pytest.param((dead("a", A_OLD), live("c", epoch=0)), "a", id="a live node that knows nobody"),
        pytest.param((live("a", epoch=1), live("c", epoch=3, table=(A_OLD,))), None, id="a live one speaks for itself"),
        pytest.param((dead("a"), live("c", epoch=3, table=(replace(A_OLD, handshake=True),))), None, id="a handshake"),
        pytest.param((dead("a", A_OLD), live("c", epoch=3, table=(line("a", epoch=9),))), None, id="given up since"),
        pytest.param((live("a", SOME, epoch=1), live("b", SOME, epoch=1)), "highest id", id="a tie is settled as ever"),
    ],
)
def test_owner(nodes: tuple[NodeFacts, ...], owner: str | None) -> None:
    claims = ownership(Observed(nodes=nodes)).claims
    owners = [node_id for node_id, slots in claims.items() if 50 in slots]
    expected = max(node.id for node in nodes) if owner == "highest id" else owner and id_of(owner)
    assert owners == ([expected] if expected else [])


def test_two_views_of_one_epoch_add_up() -> None:
    nodes = (dead("a"), live("b", epoch=2, table=(line("a", (0, 9), epoch=1),)))
    other = live("c", epoch=3, table=(line("a", (5, 19), epoch=1),))
    assert ownership(Observed(nodes=(*nodes, other))).claims[id_of("a")] == frozenset(range(20))


def test_after_a_reboot_the_files_name_the_promoted_node() -> None:
    """As a real failover left them: the old primary's file is stale, the new one's shows both."""
    texts = [(DATA / f"nodes-conf-{one}.txt").read_text() for one in ("stale", "promoted")]
    old, new = (NodeId(parse.myself(text) or "") for text in texts)
    nodes = tuple(
        NodeFacts(name=name(f"node-{index}"), id=node, presence=Presence.ABSENT, disk=OnDisk(table=table))
        for index, (node, table) in enumerate(zip((old, new), map(parse.table, texts), strict=True))
    )
    claims = ownership(Observed(nodes=nodes)).claims
    assert len(claims[new]) == 16_383 - 10_923 + 1
    assert claims[old] == frozenset()


def test_a_shard_names_its_owner_rivals_and_live_replicas() -> None:
    topology = cluster(3, 2)
    first = shards(topology, healthy(topology))[0]
    assert first.owner is not None
    assert first.owner.name == "node-0"
    assert [node.name for node in first.others] == ["node-3", "node-6"]
    assert [node.name for node in first.live_replicas()] == ["node-3", "node-6"]
    assert first.rivals == ()


def test_a_shard_after_a_failover_has_another_owner() -> None:
    state = promoted(killed(healthy(cluster()), "node-0"), "node-3")
    owner = shards(cluster(), state)[0].owner
    assert owner is not None
    assert owner.name == "node-3"


def test_two_members_with_slots_are_rivals_and_the_live_one_comes_first() -> None:
    state = without_slots(healthy(cluster()), "node-0", half=True)
    rest = NodeFacts(name=name("node-3"), id=id_of("node-3"), presence=Presence.UP, slots=((4_000, 5_460),), epoch=1)
    state = Observed(nodes=tuple(rest if node.name == "node-3" else node for node in state.nodes))
    shard = shards(cluster(), killed(state, "node-0"))[0]
    assert shard.owner is not None
    assert shard.owner.name == "node-3"
    assert [node.name for node in shard.rivals] == ["node-0"]


def test_missing_slots_are_told_by_shard_as_ranges() -> None:
    topology = cluster(3, 0)
    state = without_slots(without_slots(healthy(topology), "node-0", half=True), "node-2")
    assert missing_slots(topology, ownership(state)) == {0: ((2_731, 5_460),), 2: ((10_923, 16_383),)}


def test_holes_are_ranges_of_their_own() -> None:
    owned = ownership(Observed(nodes=(live("a", (0, 9), (11, 11), (13, 16_383), epoch=1),)))
    assert missing_slots(cluster(), owned) == {0: ((10, 10), (12, 12))}
