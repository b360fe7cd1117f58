"""Who takes a shard over when an operator says so, what refuses it, and when it is done."""

from dataclasses import replace
from functools import partial

import pytest

from rlctl.errors import NotFound, Refused
from rlctl.observe.model import Observed, Presence, ReplicationLink, Role, SentinelView
from rlctl.plan.failover import (
    FailoverMode,
    FailoverPlan,
    SyncStats,
    is_complete,
    kept_all_writes,
    new_primary,
    unlinked_nodes,
)
from rlctl.plan.failover_choice import choose
from rlctl.plan.fence import FENCE_SETTING, FENCED_VALUE
from rlctl.topology.model import HostEntry, TargetName, Topology
from tests.unit.fleets import (
    Damage,
    changed,
    cluster,
    damaged,
    desired_of,
    following,
    fresh,
    healthy,
    hung,
    id_of,
    killed,
    name,
    promoted,
    watched,
    without_slots,
)

PLANNED, FORCE, TAKEOVER = FailoverMode.PLANNED, FailoverMode.FORCE, FailoverMode.TAKEOVER
SENTINELS = ("sentinel-0", "sentinel-1", "sentinel-2")


def fact(node: str, **facts: object) -> Damage:
    return lambda state: changed(state, node, **facts)


def dead(node: str) -> Damage:
    return partial(killed, node=node)


def fenced(node: str) -> Damage:
    return lambda state: changed(state, node, settings={**state.node(name(node)).settings, FENCE_SETTING: FENCED_VALUE})


def view(node: str, **facts: object) -> Damage:
    def change(state: Observed) -> Observed:
        own = state.node(name(node)).sentinel or SentinelView()
        return changed(state, node, sentinel=replace(own, **facts))  # type: ignore[arg-type]

    return change


def doubting(node: str, doubted: str) -> Damage:
    def change(state: Observed) -> Observed:
        table = state.node(name(node)).table
        return changed(
            state, node, table=tuple(replace(peer, failed=peer.failed or peer.id == id_of(doubted)) for peer in table)
        )

    return change


def rival(node: str) -> Damage:
    return fact(node, role=Role.PRIMARY, follows=None, link=ReplicationLink.NONE, slots=((4_000, 5_460),), epoch=1)


def chosen(topology: Topology, damages: list[Damage], mode: FailoverMode = PLANNED, shard: int = 0) -> FailoverPlan:
    return choose(desired_of(topology), damaged(healthy(topology), damages), shard, mode)


@pytest.mark.parametrize(
    ("topology", "damages", "mode", "old", "new"),
    [
        pytest.param(cluster(), [], PLANNED, "node-0", "node-3", id="the only replica"),
        pytest.param(cluster(3, 2), [fact("node-3", offset=9_000)], PLANNED, "node-0", "node-3", id="highest offset"),
        pytest.param(
            cluster(3, 2),
            [fact("node-3", offset=9_000, link=ReplicationLink.DOWN)],
            PLANNED,
            "node-0",
            "node-6",
            id="planned wants a link",
        ),
        pytest.param(
            cluster(3, 2),
            [dead("node-0"), fact("node-3", offset=9_000)],
            FORCE,
            "node-0",
            "node-3",
            id="by force without a link",
        ),
        pytest.param(
            cluster(3, 2), [fact("node-6", offset=None)], FORCE, "node-0", "node-3", id="one that was in touch"
        ),
        pytest.param(
            cluster(), [dead("node-0"), dead("node-1")], TAKEOVER, "node-0", "node-3", id="a takeover needs no votes"
        ),
        pytest.param(cluster(), [partial(hung, node="node-0")], FORCE, "node-0", "node-3", id="a hung primary"),
        pytest.param(cluster(), [partial(promoted, node="node-3")], PLANNED, "node-3", "node-0", id="and back"),
        pytest.param(watched(), [fact("node-2", offset=9_000)], PLANNED, "node-0", "node-2", id="behind Sentinel"),
        pytest.param(
            watched(),
            [fact(node, offset=9, priority=1, run_id=run_id) for node, run_id in (("node-1", "b"), ("node-2", None))],
            PLANNED,
            "node-0",
            "node-2",
            id="a run id that was not read is the smallest",
        ),
        pytest.param(
            watched(),
            [fact("node-1", priority=1, offset=1), fact("node-2", priority=100)],
            PLANNED,
            "node-0",
            "node-1",
            id="priority comes first",
        ),
        pytest.param(
            watched(),
            [fact("node-2", priority=0, offset=9_000)],
            PLANNED,
            "node-0",
            "node-1",
            id="priority 0 is never elected",
        ),
        pytest.param(
            watched(),
            [fact("node-1", run_id="b", offset=1), fact("node-2", run_id="a", offset=1)],
            PLANNED,
            "node-0",
            "node-2",
            id="the lower run id last",
        ),
        pytest.param(
            watched(),
            [fact("node-2", priority=0, link=ReplicationLink.DOWN)],
            PLANNED,
            "node-0",
            "node-1",
            id="one without a link that is never elected",
        ),
        pytest.param(
            cluster(3, 2),
            [fact("node-3", offset=9_000), fenced("node-3")],
            PLANNED,
            "node-0",
            "node-6",
            id="not the fenced one",
        ),
        pytest.param(
            watched(),
            [fact("node-2", priority=0), fenced("node-2")],
            PLANNED,
            "node-0",
            "node-1",
            id="a fenced one that is never elected",
        ),
        pytest.param(watched(), [dead("node-0")], FORCE, "node-0", "node-2", id="a dead primary behind Sentinel"),
        pytest.param(
            watched(),
            [dead("sentinel-0"), view("sentinel-1", usable_quorum=False), view("sentinel-2", usable_quorum=False)],
            FORCE,
            "node-0",
            "node-2",
            id="force needs no quorum",
        ),
    ],
)
def test_who_takes_over(topology: Topology, damages: list[Damage], mode: FailoverMode, old: str, new: str) -> None:
    order = chosen(topology, damages, mode)
    assert (order.old, order.new, order.mode, order.shard) == (old, new, mode, 0)


@pytest.mark.parametrize(
    ("topology", "damages", "mode", "guard", "says", "way_on"),
    [
        pytest.param(
            cluster(), [dead("node-0")], PLANNED, "primary-silent", "does not answer", "0 --force", id="dead primary"
        ),
        pytest.param(
            cluster(),
            [dead("node-0"), dead("node-1")],
            PLANNED,
            "primary-silent",
            "node-0",
            "0 --takeover",
            id="dead primaries",
        ),
        pytest.param(
            watched(), [dead("node-0")], PLANNED, "primary-silent", "does not answer", "--force", id="dead and watched"
        ),
        pytest.param(
            watched(),
            [partial(following, node="node-0", primary="node-1")],
            PLANNED,
            "primary-silent",
            "answers as a replica",
            "deploy",
            id="the named primary is none",
        ),
        pytest.param(
            cluster(), [dead("node-1"), dead("node-2")], PLANNED, "no-majority", "votes", "--takeover", id="no majority"
        ),
        pytest.param(
            cluster(4), [dead("node-1"), dead("node-2")], PLANNED, "no-majority", "votes", "--takeover", id="a half"
        ),
        pytest.param(
            cluster(),
            [dead("node-0"), dead("node-1")],
            FORCE,
            "no-majority",
            "votes",
            "--takeover",
            id="force without a majority",
        ),
        pytest.param(cluster(), [dead("node-3")], PLANNED, "no-replica", "link up", "deploy", id="dead replica"),
        pytest.param(
            cluster(),
            [fact("node-3", link=ReplicationLink.DOWN)],
            PLANNED,
            "no-replica",
            "link up",
            "deploy",
            id="no link",
        ),
        pytest.param(
            cluster(), [dead("node-3")], FORCE, "no-replica", "synchronised", "deploy", id="force, no replica"
        ),
        pytest.param(
            cluster(), [dead("node-3")], TAKEOVER, "no-replica", "synchronised", "deploy", id="takeover likewise"
        ),
        pytest.param(
            cluster(),
            [partial(without_slots, node="node-0", half=True), rival("node-3")],
            PLANNED,
            "two-primaries",
            "node-3 claims",
            "status",
            id="two primaries",
        ),
        pytest.param(
            watched(),
            [fact("node-1", role=Role.PRIMARY, follows=None)],
            PLANNED,
            "two-primaries",
            "node-1 claims",
            "status",
            id="two primaries behind Sentinel",
        ),
        pytest.param(
            cluster(),
            [doubting("node-1", "node-0")],
            PLANNED,
            "failing-over",
            "node-1",
            "status",
            id="an election may run",
        ),
        pytest.param(
            watched(),
            [view("sentinel-1", failing_over=True)],
            PLANNED,
            "failing-over",
            "sentinel-1",
            "status",
            id="Sentinel is at it",
        ),
        pytest.param(
            watched(),
            [view("sentinel-2", primary=("127.0.0.1", 1))],
            PLANNED,
            "views-split",
            "127.0.0.1:1 (1)",
            "agree",
            id="sentinels disagree",
        ),
        pytest.param(
            watched(),
            [view("sentinel-2", primary=("127.0.0.1", 7_001))],
            PLANNED,
            "views-split",
            "127.0.0.1:7001 (1)",
            "agree",
            id="sentinels name two nodes of the fleet",
        ),
        pytest.param(
            watched(),
            [view(one, primary=("127.0.0.1", 1)) for one in SENTINELS],
            PLANNED,
            "views-split",
            "127.0.0.1:1 (3)",
            "agree",
            id="sentinels name a stranger",
        ),
        pytest.param(
            watched(),
            [view(one, usable_quorum=False) for one in SENTINELS],
            PLANNED,
            "no-quorum",
            "node-0",
            "--force",
            id="no usable quorum",
        ),
        pytest.param(
            watched(),
            [
                *(view(one, usable_quorum=False) for one in SENTINELS),
                *(view(one, tilt_s=0) for one in SENTINELS[1:]),
            ],
            PLANNED,
            "no-quorum",
            "node-0",
            "--force",
            id="no usable quorum for the one out of TILT",
        ),
        pytest.param(
            watched(), [dead(one) for one in SENTINELS], PLANNED, "no-quorum", "quorum", "deploy", id="no sentinel"
        ),
        pytest.param(
            watched(), [dead(one) for one in SENTINELS], FORCE, "no-sentinel", "living", "deploy", id="not by force"
        ),
        pytest.param(
            watched(),
            [fact("node-1", link=ReplicationLink.DOWN)],
            PLANNED,
            "out-of-touch",
            "node-1 has no link",
            "link is up",
            id="one that Sentinel may promote lags",
        ),
        pytest.param(
            watched(),
            [fact("node-1", priority=0), fact("node-2", priority=0)],
            PLANNED,
            "no-replica",
            "replica-priority 0",
            "deploy",
            id="nobody may be elected",
        ),
        pytest.param(
            cluster(),
            [partial(without_slots, node="node-0")],
            PLANNED,
            "no-primary",
            "no node owns",
            "deploy",
            id="a shard without an owner",
        ),
        *(
            pytest.param(
                cluster(),
                [fenced("node-3"), *more],
                mode,
                "fenced-heir",
                "node-3 is fenced",
                "rlctl unfence node-3",
                id=f"only a fenced replica, {mode}",
            )
            for mode, more in ((PLANNED, []), (FORCE, [dead("node-0")]), (TAKEOVER, [dead("node-0"), dead("node-1")]))
        ),
        *(
            pytest.param(
                watched(),
                [fenced("node-1")],
                mode,
                "fenced-heir",
                "node-1 is fenced",
                "rlctl unfence node-1",
                id=f"Sentinel may promote the fenced one, {mode}",
            )
            for mode in (PLANNED, FORCE)
        ),
    ],
)
def test_what_refuses(
    topology: Topology, damages: list[Damage], mode: FailoverMode, guard: str, says: str, way_on: str
) -> None:
    with pytest.raises(Refused, match=f"guard {guard}: ") as refused:
        chosen(topology, damages, mode)
    assert says in refused.value.message
    assert way_on in refused.value.hint


@pytest.mark.parametrize(
    ("topology", "shard", "hint"),
    [(cluster(), 3, "there are 0 to 2"), (cluster(), -1, "0 to 2"), (watched(), 1, "there is only shard 0")],
)
def test_a_shard_that_is_not_there(topology: Topology, shard: int, hint: str) -> None:
    with pytest.raises(NotFound) as missing:
        chosen(topology, [], shard=shard)
    assert hint in missing.value.hint


def test_another_shard() -> None:
    order = chosen(cluster(), [], shard=2)
    assert (order.old, order.new, order.text) == ("node-2", "node-5", "node-5: take over shard 2 from node-2 (planned)")


@pytest.mark.parametrize(("mode", "new"), [(PLANNED, "node-0"), (FORCE, "node-6")])
def test_a_planned_one_prefers_a_replica_on_another_host(mode: FailoverMode, new: str) -> None:
    entries = tuple(HostEntry(address=f"10.0.0.{number}") for number in (1, 2))
    topology = replace(cluster(3, 2), target=TargetName.HOSTS, hosts=entries)
    specs = desired_of(topology).specs
    assert [specs[name(node)].host for node in ("node-0", "node-3", "node-6")] == ["10.0.0.1", "10.0.0.2", "10.0.0.2"]
    order = chosen(topology, [partial(promoted, node="node-3"), fact("node-6", offset=9_000)], mode)
    assert (order.old, order.new) == ("node-3", new)


def test_all_linked_replicas_are_waited_for() -> None:
    assert chosen(watched(), []).replicas == ("node-1", "node-2")
    assert chosen(watched(), [dead("node-1")]).replicas == ("node-2",)


@pytest.mark.parametrize(
    ("damages", "sentinel"),
    [
        pytest.param([], "sentinel-0", id="any"),
        pytest.param([dead("sentinel-0")], "sentinel-1", id="a living one"),
        pytest.param([view("sentinel-0", usable_quorum=False)], "sentinel-1", id="one with a quorum"),
        pytest.param([view("sentinel-0", replicas=())], "sentinel-1", id="one that reaches the heir"),
        pytest.param([view("sentinel-0", primary=None)], "sentinel-1", id="one that watches"),
        pytest.param([view("sentinel-0", tilt_s=0)], "sentinel-1", id="one out of TILT"),
        pytest.param(
            [view(one, tilt_s=0, usable_quorum=False) for one in SENTINELS], "sentinel-0", id="all in TILT: it waits"
        ),
    ],
)
def test_which_sentinel_is_ordered(damages: list[Damage], sentinel: str) -> None:
    assert chosen(watched(), damages).sentinel == sentinel
    assert chosen(cluster(), []).sentinel is None


@pytest.mark.parametrize(
    ("damages", "mode", "says"),
    [
        pytest.param([], PLANNED, None, id="planned loses nothing"),
        pytest.param([fact("node-3", lag_bytes=77)], FORCE, "77 bytes behind", id="as far as known"),
        pytest.param([fact("node-3", lag_bytes=None)], FORCE, "how many is unknown", id="not known"),
        pytest.param(
            [dead("node-0"), fact("node-3", lag_bytes=None)], TAKEOVER, "how many is unknown", id="a dead one"
        ),
    ],
)
def test_what_may_be_lost(damages: list[Damage], mode: FailoverMode, says: str | None) -> None:
    order = chosen(cluster(), damages, mode)
    assert (order.loss is None) == (says is None)
    assert (says or "") in (order.loss or "")
    assert order.behind_bytes == damaged(healthy(cluster()), damages).node(name("node-3")).lag_bytes


def test_nothing_has_changed_yet() -> None:
    for topology in (cluster(), watched()):
        state, desired = healthy(topology), desired_of(topology)
        order = choose(desired, state, 0, PLANNED)
        assert new_primary(desired, state, order) is None
        assert not is_complete(desired, state, order)


@pytest.mark.parametrize(
    ("topology", "new", "after", "settled"),
    [
        pytest.param(cluster(), "node-3", [], True, id="cluster"),
        pytest.param(watched(), "node-2", [], True, id="behind Sentinel"),
        pytest.param(cluster(), "node-3", [fact("node-0", link=ReplicationLink.DOWN)], False, id="no link yet"),
        pytest.param(cluster(), "node-3", [fact("node-0", presence=Presence.LOADING)], False, id="still loading"),
        pytest.param(cluster(), "node-3", [dead("node-0")], True, id="it has died meanwhile"),
        pytest.param(cluster(), "node-3", [fact("node-3", presence=Presence.HUNG)], False, id="the new one is silent"),
        pytest.param(
            watched(), "node-2", [view("sentinel-1", primary=("127.0.0.1", 7_000))], False, id="sentinels disagree"
        ),
        pytest.param(
            watched(), "node-2", [fact("node-0", follows=id_of("node-1"))], False, id="it follows somebody else"
        ),
    ],
)
def test_when_it_is_done(topology: Topology, new: str, after: list[Damage], *, settled: bool) -> None:
    desired, state = desired_of(topology), healthy(topology)
    order = choose(desired, state, 0, PLANNED)
    assert is_complete(desired, damaged(promoted(state, new), after), order) == settled


def test_a_primary_that_was_silent_is_not_waited_for() -> None:
    desired, state = desired_of(cluster()), hung(healthy(cluster()), "node-0")
    order = choose(desired, state, 0, FORCE)
    assert not order.is_old_up
    after = hung(promoted(healthy(cluster()), "node-3"), "node-0")
    assert is_complete(desired, after, order)


BEFORE = SyncStats(run_id="a", full=3, promoted_at=-2)


@pytest.mark.parametrize(
    ("before", "after", "paused_at", "kept"),
    [
        pytest.param(BEFORE, replace(BEFORE, promoted_at=500), None, True, id="no full copy was needed"),
        pytest.param(BEFORE, replace(BEFORE, full=4, promoted_at=500), None, False, id="somebody started anew"),
        pytest.param(BEFORE, replace(BEFORE, run_id="b", promoted_at=500), None, False, id="it was restarted"),
        pytest.param(None, replace(BEFORE, promoted_at=500), None, False, id="nobody looked before"),
        pytest.param(BEFORE, replace(BEFORE, full=4, promoted_at=500), 500, True, id="all before the pause is there"),
        pytest.param(BEFORE, replace(BEFORE, full=4, promoted_at=499), 500, False, id="a byte is missing"),
    ],
)
def test_what_proves_that_nothing_is_lost(
    before: SyncStats | None, after: SyncStats, paused_at: int | None, *, kept: bool
) -> None:
    assert kept_all_writes(before, after, paused_at) == kept


def test_a_fleet_that_is_not_there_is_refused_as_well() -> None:
    with pytest.raises(Refused, match="no-primary"):
        choose(desired_of(cluster()), fresh(cluster()), 0, FORCE)


def seeing(node: str, other: str, **marks: object) -> Damage:
    """What one node's table says of another."""

    def change(state: Observed) -> Observed:
        table = state.node(name(node)).table
        return changed(
            state, node, table=tuple(replace(peer, **marks) if peer.id == id_of(other) else peer for peer in table)
        )

    return change


@pytest.mark.parametrize(
    ("damages", "unlinked"),
    [
        pytest.param([], (), id="all linked"),
        pytest.param([seeing("node-1", "node-3", linked=False)], ("node-1",), id="a voter is not linked to it"),
        pytest.param([seeing("node-3", "node-2", linked=False)], ("node-2",), id="it is not linked to a voter"),
        pytest.param([seeing("node-1", "node-3", failed=True)], ("node-1",), id="held for failed"),
        pytest.param([seeing("node-1", "node-3", suspected=True)], ("node-1",), id="suspected"),
        pytest.param([seeing("node-3", "node-4", handshake=True)], ("node-4",), id="not known for good"),
        pytest.param([fact("node-5", table=())], ("node-5",), id="unknown"),
        pytest.param([seeing("node-0", "node-3", follows=None)], ("node-0",), id="its primary does not know it yet"),
        pytest.param([seeing("node-2", "node-3", follows=id_of("node-1"))], ("node-2",), id="an older view of it"),
        pytest.param([seeing("node-1", "node-5", linked=False)], (), id="a link between others"),
        pytest.param([dead("node-5"), seeing("node-3", "node-5", linked=False)], (), id="a dead node has no vote"),
    ],
)
def test_nodes_without_a_bus_link(damages: list[Damage], unlinked: tuple[str, ...]) -> None:
    assert unlinked_nodes(damaged(healthy(cluster()), damages), name("node-3")) == unlinked
