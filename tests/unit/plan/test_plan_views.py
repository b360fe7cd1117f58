"""Opinions side by side: whom each node names, who takes writes, who wins, and where they do not fit together."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from rlctl.observe.model import NodeFacts, Observed, ReplicationLink, Role, SentinelView
from rlctl.plan.fence import FENCE_SETTING, FENCED_VALUE
from rlctl.plan.views import ClaimedPrimary, View, Views, views_of
from rlctl.topology.model import Topology
from rlctl.topology.nodes import NodeId
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

KEYS = {"schema", "name", "kind", "agree", "conflicts", "primaries", "views"}
PRIMARY_KEYS = {"node", "shard", "epoch", "offset", "keys", "writable", "fenced", "believed_by", "asked", "wins"}
VIEW_KEYS = {"node", "role", "answers", "ok", "primaries", "failed", "suspected", "unknown", "epoch"}


def seen(topology: Topology, *damages: Damage) -> Views:
    return views_of(desired_of(topology), damaged(healthy(topology), damages))


def view_of(views: Views, node: str) -> View:
    return next(view for view in views.views if view.node == node)


def primary(views: Views, node: str) -> ClaimedPrimary:
    return next(one for one in views.primaries if one.node == node)


def codes(views: Views) -> list[tuple[str, str, str]]:
    return [(one.code, one.severity.value, one.subject) for one in views.conflicts]


def fact(node: str, **facts: object) -> Damage:
    return lambda state: changed(state, node, **facts)


def lacking(node: str, wanted: str, good: int) -> Damage:
    def damage(state: Observed) -> Observed:
        return changed(
            state, node, settings={**state.node(name(node)).settings, FENCE_SETTING: wanted}, good_replicas=good
        )

    return damage


def opinion(node: str, **facts: object) -> Damage:
    def damage(state: Observed) -> Observed:
        view = state.node(name(node)).sentinel or SentinelView()
        return changed(state, node, sentinel=replace(view, **facts))  # type: ignore[arg-type]

    return damage


def split(state: Observed) -> Observed:
    """node-0 and the replica that took over from it on the other side of a cut: each side keeps its own table."""
    after = promoted(state, "node-3")
    old = {node: state.node(name(node)) for node in ("node-0", "node-5")}

    def side(node: NodeFacts) -> NodeFacts:
        return old.get(node.name, node)

    return Observed(nodes=tuple(map(side, after.nodes)))


def rival(state: Observed) -> Observed:
    """A replica behind sentinels, promoted by hand."""
    return changed(state, "node-1", role=Role.PRIMARY, follows=None, link=ReplicationLink.NONE)


@pytest.mark.parametrize("topology", [cluster(), watched()], ids=["cluster", "sentinel"])
def test_a_healthy_fleet_is_of_one_mind(topology: Topology) -> None:
    views = seen(topology)
    assert views.agree
    assert views.conflicts == ()
    assert views.contested == ()
    for one in views.primaries:
        assert (one.writable, one.fenced, one.wins, one.believed_by, one.asked) == (True, False, True, 6, 6)
    for view in views.views:
        assert view.answers
        assert (view.failed, view.suspected, view.unknown) == ((), (), ())
        assert dict(view.primaries) == {one.shard: one.node for one in views.primaries}


def test_the_json_of_views() -> None:
    document = seen(cluster(), partial(killed, node="node-0")).to_json()
    assert set(document) == KEYS
    assert (document["schema"], document["kind"], document["agree"]) == ("rlctl.status-views/1", "cluster", False)
    primaries, views = document["primaries"], document["views"]
    assert isinstance(primaries, list)
    assert isinstance(views, list)
    assert all(set(one) == PRIMARY_KEYS for one in primaries)
    assert all(set(one) == VIEW_KEYS for one in views)
    assert views[0] == {
        "node": "node-0",
        "role": None,
        "answers": False,
        "ok": None,
        "primaries": {},
        "failed": [],
        "suspected": [],
        "unknown": [],
        "epoch": None,
    }
    assert views[1]["primaries"] == {"0": "node-0", "1": "node-1", "2": "node-2"}
    assert views[1]["failed"] == ["node-0"]


def test_a_silent_primary_that_others_name() -> None:
    one = primary(seen(cluster(), partial(killed, node="node-0")), "node-0")
    assert (one.writable, one.wins, one.epoch, one.offset, one.keys) == (None, True, 1, None, None)
    assert (one.believed_by, one.asked) == (5, 5)


def test_a_fleet_that_does_not_exist() -> None:
    views = views_of(desired_of(cluster()), fresh(cluster()))
    assert (views.exists, views.agree, views.conflicts, views.views, views.primaries) == (False, False, (), (), ())


def test_nobody_answers() -> None:
    views = seen(cluster(), *(partial(hung, node=f"node-{index}") for index in range(6)))
    assert codes(views) == [("no-views", "critical", "fleet")]
    assert not views.agree


def test_one_of_two_primaries_that_takes_writes_is_enough() -> None:
    views = seen(cluster(), split, lacking("node-0", FENCED_VALUE, 0))
    assert [primary(views, node).writable for node in ("node-0", "node-3")] == [False, True]
    assert "no-writer" not in {code for code, _severity, _subject in codes(views)}


def test_a_split_cluster() -> None:
    views = seen(cluster(), split)
    assert codes(views) == [("two-writers", "critical", "shard 0"), ("views-split", "degraded", "shard 0")]
    assert views.contested == (0,)
    old, new = primary(views, "node-0"), primary(views, "node-3")
    assert (old.writable, old.wins, old.believed_by) == (True, False, 2)
    assert (new.writable, new.wins, new.believed_by) == (True, True, 4)
    assert views.conflicts[0].text == (
        "node-0, node-3 each accept writes of shard 0: when they reconnect, the writes on node-0 are lost"
    )
    assert views.conflicts[1].text == "views differ on the primary of shard 0: node-0 (2), node-3 (4)"


@pytest.mark.parametrize(
    "stopped",
    [
        pytest.param(fact("node-0", fleet_ok=False), id="its cluster is down"),
        pytest.param(lacking("node-0", "1", 0), id="too few replicas"),
        pytest.param(lacking("node-0", FENCED_VALUE, 1), id="fenced"),
    ],
)
def test_who_refuses_is_no_second_writer(stopped: Damage) -> None:
    views = seen(cluster(), split, stopped)
    assert primary(views, "node-0").writable is False
    assert "two-writers" not in {code for code, _severity, _subject in codes(views)}


def test_between_equal_epochs_the_smaller_id_wins() -> None:
    views = seen(cluster(), split, fact("node-0", epoch=7), fact("node-3", epoch=7))
    winner = min(("node-0", "node-3"), key=id_of)
    assert [one.node for one in views.primaries if one.shard == 0 and one.wins] == [winner]


def test_a_primary_without_slots_is_shown_and_keeps_nothing() -> None:
    views = seen(cluster(), partial(promoted, node="node-3"), fact("node-0", role=Role.PRIMARY, follows=None))
    one = primary(views, "node-0")
    assert (one.writable, one.wins, one.believed_by) == (False, False, 0)
    assert primary(views, "node-3").wins


def test_a_rival_behind_sentinels() -> None:
    views = seen(watched(), rival)
    assert codes(views) == [("two-writers", "critical", "shard 0"), ("views-split", "degraded", "shard 0")]
    assert [(one.node, one.wins, one.believed_by, one.epoch) for one in views.primaries] == [
        ("node-0", True, 5, 0),
        ("node-1", False, 1, None),
    ]


def test_the_newest_sentinels_say_who_wins() -> None:
    address = ("127.0.0.1", 7_001)
    views = seen(watched(), rival, opinion("sentinel-0", primary=address, epoch=1))
    assert ("views-split", "critical", "shard 0") in codes(views)
    assert [(one.node, one.wins, one.epoch) for one in views.primaries] == [("node-0", False, 0), ("node-1", True, 1)]


def test_who_is_doubted_and_answers() -> None:
    def doubting(state: Observed) -> Observed:
        table = tuple(replace(peer, suspected=peer.id == id_of("node-1")) for peer in state.nodes[4].table)
        return changed(state, "node-4", table=table)

    views = seen(cluster(), doubting)
    assert codes(views) == [("doubted", "degraded", "node-1")]
    assert view_of(views, "node-4").suspected == ("node-1",)
    assert views.conflicts[0].text == "node-1 answers, but is marked as failed or suspected by node-4"


@pytest.mark.parametrize(
    ("facts", "failed", "suspected", "unknown", "ok"),
    [
        pytest.param({"down": True}, (), ("node-0",), (), False, id="suspects"),
        pytest.param({"down": True, "failed": True}, ("node-0",), (), (), False, id="failed"),
        pytest.param({"usable_quorum": False}, (), (), (), False, id="no quorum"),
        pytest.param({"tilt_s": 0}, (), (), (), False, id="in TILT"),
        pytest.param(
            {"replicas": (("127.0.0.1", 7_001),), "silent": (("127.0.0.1", 7_002),)},
            *((), ("node-2",), (), True),
            id="a silent replica",
        ),
        pytest.param({"replicas": ()}, (), (), ("node-1", "node-2"), True, id="unknown replicas"),
        pytest.param({"peers": ()}, (), (), ("sentinel-1", "sentinel-2"), True, id="unknown peers"),
        pytest.param(
            {"peers": (), "silent": (("127.0.0.1", 8_001), ("127.0.0.1", 8_002))},
            *((), ("sentinel-1", "sentinel-2"), (), True),
            id="silent peers",
        ),
    ],
)
def test_what_a_sentinel_thinks(
    facts: dict[str, object],
    failed: tuple[str, ...],
    suspected: tuple[str, ...],
    unknown: tuple[str, ...],
    *,
    ok: bool,
) -> None:
    view = view_of(seen(watched(), opinion("sentinel-0", **facts)), "sentinel-0")
    assert (view.failed, view.suspected, view.unknown, view.ok) == (failed, suspected, unknown, ok)


def test_doubts_from_before_a_stall_are_no_conflict() -> None:
    doubts = {"peers": (), "silent": (("127.0.0.1", 8_001), ("127.0.0.1", 8_002)), "down": True}
    names = ["node-0", "sentinel-1", "sentinel-2"]
    assert codes(seen(watched(), opinion("sentinel-0", **doubts))) == [("doubted", "degraded", name) for name in names]
    views = seen(watched(), opinion("sentinel-0", **doubts, tilt_s=0))
    assert codes(views) == [("sentinel-tilt", "degraded", "sentinel-0")]
    assert view_of(views, "sentinel-0").suspected == tuple(names)
    assert not views.is_settled


def test_a_sentinel_that_watches_nothing() -> None:
    view = view_of(seen(watched(), opinion("sentinel-0", primary=None)), "sentinel-0")
    assert (view.ok, dict(view.primaries)) == (False, {})
    assert len(view.unknown) == 5


@pytest.mark.parametrize("strange", [{"id": NodeId("e" * 40)}, {"handshake": True}], ids=["stranger", "handshake"])
def test_a_table_with_a_node_that_is_no_member(strange: dict[str, Any]) -> None:
    """Nobody's opinion counts it: a primary by that name is none, and a member in a handshake is not known yet."""
    state = healthy(cluster())
    lines = [
        replace(peer, **strange, epoch=99) if peer.id == id_of("node-1") else peer
        for peer in state.node(name("node-0")).table
    ]
    view = view_of(views_of(desired_of(cluster()), changed(state, "node-0", table=tuple(lines))), "node-0")
    assert (view.unknown, view.primaries) == (("node-1",), {0: "node-0", 2: "node-2"})


def test_a_replica_of_a_stranger() -> None:
    views = seen(watched(), fact("node-1", follows=None, follows_address=("10.0.0.9", 6379)))
    assert view_of(views, "node-1").primaries == {0: "10.0.0.9:6379"}
    assert codes(views) == [("views-split", "degraded", "shard 0")]


def test_a_fence_is_a_conflict() -> None:
    views = seen(cluster(), lacking("node-0", FENCED_VALUE, 1))
    assert codes(views) == [("no-writer", "critical", "shard 0"), ("node-fenced", "degraded", "node-0")]
    assert (primary(views, "node-0").fenced, primary(views, "node-0").writable) == (True, False)


@pytest.mark.parametrize(
    "forget",
    [pytest.param(lambda state: changed(state, "node-0", table=state.nodes[0].table[:-1]), id="unknown member")],
)
def test_whom_a_member_does_not_know(forget: Callable[[Observed], Observed]) -> None:
    assert view_of(seen(cluster(), forget), "node-0").unknown == ("node-5",)


def test_whom_sentinels_promote_wins_before_they_name_it() -> None:
    rival = fact("node-1", role=Role.PRIMARY, follows=None, follows_address=None, link=ReplicationLink.NONE)
    before = seen(watched(), rival)
    assert (primary(before, "node-0").wins, primary(before, "node-1").wins) == (True, False)
    meanwhile = seen(watched(), rival, opinion("sentinel-2", failing_over=True))
    assert (primary(meanwhile, "node-0").wins, primary(meanwhile, "node-1").wins) == (False, True)
    assert primary(seen(watched(), opinion("sentinel-2", failing_over=True)), "node-0").wins


def test_a_shard_without_a_writer() -> None:
    views = seen(cluster(), partial(killed, node="node-0"))
    assert codes(views) == [("no-writer", "critical", "shard 0")]
    assert views.conflicts[0].text == "no node accepts writes of shard 0: node-0 does not"
    assert not views.is_settled


def test_a_fence_that_stays_is_settled() -> None:
    views = seen(cluster(), lacking("node-3", FENCED_VALUE, 0))
    assert (views.agree, views.is_settled) == (False, True)
