"""Plans of fleets that something happened to: what is done, in which order, and what is said about losses."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType

import pytest

from rlctl.observe.model import Observed, OnDisk, Peer, Presence, Role, Saved
from rlctl.plan import cluster as cluster_phases
from rlctl.plan import sentinel as sentinel_phases
from rlctl.plan.cluster import _has_data, _must_wait
from rlctl.plan.ownership import shards
from rlctl.plan.planner import Plan, make_plan
from rlctl.plan.sentinel import RETURN_MS, believed_primary
from rlctl.plan.steps import danger, describe
from rlctl.topology.model import Kind, PersistenceMode, Topology
from rlctl.topology.nodes import NodeId
from tests.unit.fleets import (
    Damage,
    changed,
    cluster,
    damaged,
    desired_of,
    following,
    healthy,
    hung,
    id_of,
    killed,
    name,
    promoted,
    reset,
    unmet,
    watched,
    wiped,
    without_slots,
)
from tests.unit.proof import prove

AOF, RDB, NONE = PersistenceMode.AOF, PersistenceMode.RDB, PersistenceMode.NONE
EMPTY = "comes back empty: all its counters are lost, every limit in it starts anew"
ALL_FOUR = ("node-0", "node-1", "node-2", "node-3")
ON_DISKS = "writes that node-0 acknowledged and its replicas' disks do not hold are lost"
LAST_SAVE = "comes back as it was at its last save: every count since then is lost"


def kill(*nodes: str, saved: Saved | None = None, mode: PersistenceMode = AOF) -> list[Damage]:
    return [partial(killed, node=node, saved=saved, mode=mode) for node in nodes]


def wipe(*nodes: str) -> list[Damage]:
    return [partial(wiped, node=node) for node in nodes]


def promote(node: str) -> Damage:
    return partial(promoted, node=node)


def plan_of(topology: Topology, damages: Sequence[Damage]) -> Plan:
    return prove(desired_of(topology), damaged(healthy(topology), damages))


def texts(plan: Plan) -> list[str]:
    return [describe(step) for step in plan.steps]


@pytest.mark.parametrize(
    ("topology", "damages", "expected"),
    [
        pytest.param(cluster(), [], [], id="healthy"),
        pytest.param(cluster(), kill("node-3"), ["node-3: start"], id="replica dead"),
        pytest.param(
            cluster(),
            wipe("node-3"),
            [
                "node-3: start as replica of node-0",
                "node-1: meet node-3",
                "node-2: meet node-3",
                "node-3: meet node-4, node-5",
            ],
            id="replica wiped",
        ),
        pytest.param(cluster(), kill("node-0"), ["node-0: start"], id="primary dead with its log"),
        pytest.param(
            cluster(),
            kill(*(f"node-{i}" for i in range(6))),
            [f"node-{i}: start" for i in (0, 3, 1, 4, 2, 5)],
            id="reboot with logs",
        ),
        pytest.param(
            cluster(mode=NONE),
            kill("node-0", mode=NONE),
            ["shard 0: wait until a replica of node-0 has taken over", "node-0: start"],
            id="primary dead without persistence",
        ),
        pytest.param(
            cluster(mode=RDB),
            kill("node-0", mode=RDB),
            ["shard 0: wait until a replica of node-0 has taken over", "node-0: start"],
            id="primary dead with an old snapshot",
        ),
        pytest.param(
            cluster(),
            wipe("node-0"),
            [
                "shard 0: wait until a replica of node-0 has taken over",
                "node-0: start as replica of node-3",
                "node-0: meet node-1, node-2, node-4 and 1 more",
            ],
            id="primary wiped",
        ),
        pytest.param(
            cluster(mode=NONE),
            kill("node-0", "node-1", mode=NONE),
            [
                "node-3: take over shard 0 from node-0 without an election",
                "node-4: take over shard 1 from node-1 without an election",
                "node-0: start",
                "node-1: start",
            ],
            id="no majority left",
        ),
        pytest.param(
            cluster(),
            [*kill("node-3"), *wipe("node-0")],
            [
                "node-3: start",
                "node-3: take over shard 0 from node-0 without an election",
                "node-0: start as replica of node-3",
                "node-0: meet node-1, node-2, node-4 and 1 more",
            ],
            id="primary wiped, replica dead with its log",
        ),
        pytest.param(
            cluster(3, 0, RDB),
            kill("node-0", mode=RDB),
            [f"node-0: start (shard 0 {LAST_SAVE})"],
            id="no replica, a snapshot",
        ),
        pytest.param(
            cluster(3, 0, NONE),
            kill("node-0", mode=NONE),
            [f"node-0: start (shard 0 {EMPTY})"],
            id="no replica, nothing",
        ),
        pytest.param(
            cluster(mode=RDB),
            kill("node-0", "node-3", mode=RDB),
            [f"node-0: start (shard 0 {LAST_SAVE})", "node-3: start"],
            id="both dead with snapshots",
        ),
        pytest.param(
            cluster(mode=RDB),
            [*kill("node-3", saved=Saved.NOTHING), *kill("node-0", mode=RDB)],
            [f"node-0: start (shard 0 {LAST_SAVE})", "node-3: start"],
            id="only the primary has a snapshot",
        ),
        pytest.param(
            cluster(mode=NONE),
            kill("node-0", "node-3", mode=NONE),
            [f"node-0: start (shard 0 {EMPTY})", "node-3: start"],
            id="both dead without persistence",
        ),
        pytest.param(cluster(), [partial(unmet, first="node-1", second="node-4")], ["node-1: meet node-4"], id="unmet"),
        pytest.param(
            cluster(3, 0),
            [partial(without_slots, node="node-1", half=True)],
            ["node-1: own slots 8192-10922"],
            id="half the slots",
        ),
        pytest.param(
            cluster(), [partial(following, node="node-3", primary="node-1")], ["node-3: replicate node-0"], id="strayed"
        ),
        pytest.param(cluster(), [promote("node-3")], [], id="a failover is not undone"),
        pytest.param(
            cluster(),
            [promote("node-3"), *kill("node-3", "node-0")],
            ["node-0: start", "node-3: start"],
            id="reboot after a failover",
        ),
        pytest.param(
            cluster(mode=NONE),
            [*kill("node-0", mode=NONE), promote("node-3")],
            ["node-0: start"],
            id="already failed over",
        ),
        pytest.param(
            cluster(),
            [partial(changed, node="node-2", settings={"maxmemory": "1", "save": ""})],
            ["node-2: set maxmemory to 256mb (was 1b)"],
            id="setting",
        ),
        pytest.param(
            cluster(),
            [partial(changed, node="node-2", acl_revision="old"), partial(changed, node="node-0", acl_revision=None)],
            ["node-0: load the users of this release", "node-2: load the users of this release"],
            id="users",
        ),
        pytest.param(
            cluster(),
            [partial(changed, node="node-2", users_off=frozenset({"limiter"}))],
            ["node-2: load the users of this release"],
            id="users off",
        ),
        pytest.param(watched(), [], [], id="sentinel healthy"),
        pytest.param(watched(), kill("node-1"), ["node-1: start as replica of node-0"], id="sentinel replica dead"),
        pytest.param(watched(), kill("node-0"), ["node-0: start"], id="sentinel primary dead with its log"),
        pytest.param(watched(), kill("sentinel-1"), ["sentinel-1: start and watch node-0"], id="a sentinel dead"),
        pytest.param(
            watched(mode=NONE),
            kill("node-0", "sentinel-2", mode=NONE),
            [
                "sentinel-2: start and watch node-0",
                "shard 0: wait until a replica of node-0 has taken over",
                "node-0: start as replica of node-2",
            ],
            id="sentinel primary dead without persistence",
        ),
        pytest.param(
            watched(1, 1, NONE),
            kill("node-0", "node-1", mode=NONE),
            [f"node-0: start (the fleet {EMPTY})", "node-1: start as replica of node-0"],
            id="sentinel all data nodes dead without persistence",
        ),
        pytest.param(
            watched(1, 1, RDB),
            kill("node-0", "node-1", "sentinel-0", mode=RDB),
            [
                "sentinel-0: start and watch node-0",
                f"node-0: start (the fleet {LAST_SAVE})",
                "node-1: start as replica of node-0",
            ],
            id="sentinel reboot with snapshots",
        ),
        pytest.param(
            watched(1, 1),
            [*kill("node-1"), *wipe("node-0")],
            [
                "node-1: start as replica of node-0",
                f"shard 0: wait until a replica of node-0 has taken over ({ON_DISKS})",
                "node-0: start as replica of node-1",
            ],
            id="sentinel primary wiped, replica dead with its log",
        ),
        pytest.param(
            watched(),
            [partial(changed, node="node-2", role=Role.PRIMARY, follows=None)],
            ["node-2: replicate node-0"],
            id="sentinel a rival",
        ),
        pytest.param(watched(), [promote("node-1")], [], id="sentinel a failover is not undone"),
        pytest.param(
            watched(),
            [promote("node-1"), *kill("node-0", "node-1", "node-2", "sentinel-0", "sentinel-1", "sentinel-2")],
            [
                "node-0: start as replica of node-1",
                "node-1: start",
                "node-2: start as replica of node-1",
                "sentinel-0: start and watch node-1",
                "sentinel-1: start and watch node-1",
                "sentinel-2: start and watch node-1",
            ],
            id="sentinel reboot after a failover",
        ),
    ],
)
def test_repair(topology: Topology, damages: Sequence[Damage], expected: list[str]) -> None:
    assert texts(plan_of(topology, damages)) == expected


@pytest.mark.parametrize(
    ("topology", "damages", "dangers"),
    [
        pytest.param(cluster(), kill("node-0"), (), id="a log loses nothing"),
        pytest.param(cluster(mode=NONE), kill("node-0", mode=NONE), (), id="an election of the fleet's own"),
        pytest.param(
            cluster(mode=NONE),
            kill("node-0", "node-1", mode=NONE),
            (
                "writes that node-0 acknowledged and node-3 does not hold are lost",
                "writes that node-1 acknowledged and node-4 does not hold are lost",
            ),
            id="taken over",
        ),
        pytest.param(cluster(3, 0, RDB), kill("node-0", mode=RDB), (f"shard 0 {LAST_SAVE}",), id="from a snapshot"),
        pytest.param(cluster(3, 0), wipe("node-2"), (f"shard 2 {EMPTY}",), id="from nothing"),
        pytest.param(
            cluster(3, 0),
            kill("node-2", saved=Saved.SNAPSHOT),
            (f"shard 2 {EMPTY}",),
            id="aof mode does not read a snapshot",
        ),
        pytest.param(cluster(mode=NONE), kill("node-3", mode=NONE), (), id="a replica loses nothing"),
        pytest.param(watched(1, 1, NONE), kill("node-0", "node-1", mode=NONE), (f"the fleet {EMPTY}",), id="sentinel"),
    ],
)
def test_exactly_the_steps_that_lose_counts_say_so(
    topology: Topology, damages: Sequence[Damage], dangers: tuple[str, ...]
) -> None:
    plan = plan_of(topology, damages)
    assert plan.dangers == dangers
    assert sum(1 for step in plan.steps if danger(step)) == len(dangers)


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("presence", [Presence.HUNG, Presence.LOADING])
def test_a_primary_without_its_log_stays_down_while_a_replica_keeps_silent(kind: Kind, presence: Presence) -> None:
    """It may hold the only copy; started now, the primary would empty it."""
    topology = cluster(3, 1, NONE) if kind is Kind.CLUSTER else watched(1, 1, NONE)
    replica = "node-3" if kind is Kind.CLUSTER else "node-1"
    state = damaged(healthy(topology), [*kill("node-0", mode=NONE), partial(hung, node=replica, presence=presence)])
    assert make_plan(desired_of(topology), state).steps == ()


def test_a_revived_replica_in_memory_counts_by_its_keys() -> None:
    """rlctl was killed after it had started the replica: the disk is not asked any more."""
    topology = cluster()
    state = damaged(healthy(topology), wipe("node-0"))
    with_counts = changed(state, "node-3", offset=None, keys=3)
    assert texts(make_plan(desired_of(topology), with_counts))[0].startswith("node-3: take over shard 0")
    assert texts(make_plan(desired_of(topology), changed(with_counts, "node-3", keys=0)))[0] == (
        f"node-0: start (shard 0 {EMPTY})"
    )


def test_a_live_member_that_knows_nobody_does_not_hide_what_disks_say() -> None:
    """After a reboot, one wiped node was started and rlctl killed: the others' files still name the owners."""
    topology = cluster(3, 1, NONE)
    state = reset(healthy(topology), "node-5")
    state = damaged(state, kill(*(f"node-{i}" for i in range(5)), mode=NONE))
    plan = prove(desired_of(topology), state)
    assert len(plan.dangers) == 3


def test_epochs_are_not_set_in_the_middle_of_a_handshake() -> None:
    """The servers refuse it as soon as their table has a second line."""
    topology = cluster(3, 0)
    state = damaged(healthy(topology), [partial(reset, node=f"node-{i}") for i in range(3)])
    table = state.nodes[0].table
    greeted = (*table, *(greeting_of(state, i) for i in (1, 2)))
    plan = make_plan(desired_of(topology), changed(state, "node-0", table=greeted))
    assert "node-0: set configuration epoch 1" not in texts(plan)
    assert "node-1: set configuration epoch 2" in texts(plan)
    assert "node-0: meet node-1, node-2" in texts(plan)


def greeting_of(state: Observed, index: int) -> Peer:
    return replace(state.nodes[index].table[0], handshake=True, id=NodeId(f"{index:040x}"))


def test_a_replica_in_touch_comes_before_one_that_was_revived() -> None:
    """That it is empty is news: the fleet was emptied, and the revived one does not know."""
    topology = cluster(3, 2, NONE)
    state = damaged(healthy(topology), kill("node-0", "node-1", mode=NONE))
    state = changed(changed(state, "node-3", keys=0), "node-6", offset=None, keys=3)
    assert "node-3: take over shard 0 from node-0 without an election" in texts(make_plan(desired_of(topology), state))


def test_a_rival_with_slots_is_not_made_a_replica() -> None:
    """The servers would refuse it, and its counts would be gone."""
    topology = cluster(3, 1)
    state = damaged(healthy(topology), [partial(without_slots, node="node-1", half=True)])
    state = changed(state, "node-4", role=Role.PRIMARY, follows=None, slots=((8_192, 10_922),), epoch=9)
    assert make_plan(desired_of(topology), state).steps == ()


def test_the_most_advanced_replica_takes_over() -> None:
    topology = cluster(3, 2, NONE)
    state = damaged(healthy(topology), kill("node-0", "node-1", mode=NONE))
    state = changed(state, "node-3", offset=9_000)
    assert "node-3: take over shard 0 from node-0 without an election" in texts(make_plan(desired_of(topology), state))
    state = changed(state, "node-6", offset=9_001)
    assert "node-6: take over shard 0 from node-0 without an election" in texts(make_plan(desired_of(topology), state))


@pytest.mark.parametrize(
    ("damages", "expected"),
    [
        pytest.param([], "node-0", id="followed by most"),
        pytest.param(
            [partial(following, node=f"node-{i}", primary="node-1") for i in (2, 3)],
            "node-0",
            id="a chain has its root",
        ),
        pytest.param(
            [partial(changed, node=f"node-{i}", role=Role.PRIMARY, follows=None, keys=i) for i in range(4)],
            "node-1",
            id="who has counts",
        ),
        pytest.param(kill(*ALL_FOUR, saved=Saved.NOTHING), "node-0", id="nobody knows"),
        pytest.param(
            [*kill(*ALL_FOUR[:2], saved=Saved.NOTHING), *kill(*ALL_FOUR[2:], saved=Saved.SNAPSHOT)],
            "node-2",
            id="who has a snapshot",
        ),
        pytest.param(
            [*kill("node-0", saved=Saved.SNAPSHOT), *kill("node-1"), *wipe("node-2", "node-3")],
            "node-1",
            id="who has a log",
        ),
    ],
)
def test_without_sentinels_the_primary_is_found_by_other_signs(damages: Sequence[Damage], expected: str) -> None:
    topology = watched(3)
    state = damaged(healthy(topology), [*wipe("sentinel-0", "sentinel-1", "sentinel-2"), *damages])
    assert f"sentinel-0: start and watch {expected}" in texts(make_plan(desired_of(topology), state))


def test_a_sentinel_that_watches_nothing_is_told_whom_to_watch() -> None:
    topology = watched()
    state = healthy(topology)
    view = type(state.nodes[4].sentinel)()
    plan = prove(desired_of(topology), changed(state, "sentinel-1", sentinel=view))
    assert texts(plan)[0] == "sentinel-1: monitor node-0"


def test_nothing_is_replicated_while_sentinels_fail_over() -> None:
    """Until they are done, the heir looks like a rival."""
    topology = watched()
    state = changed(healthy(topology), "node-1", role=Role.PRIMARY, follows=None)
    view = state.nodes[3].sentinel
    assert view is not None
    assert (
        make_plan(desired_of(topology), changed(state, "sentinel-0", sentinel=replace(view, failing_over=True))).steps
        == ()
    )
    assert texts(make_plan(desired_of(topology), state)) == ["node-1: replicate node-0"]


def test_a_primary_that_is_being_replaced_stays_down_until_it_is() -> None:
    """Back now, it would take writes that end with the failover; the heir follows nobody already."""
    topology = watched(1, 3)
    state = damaged(healthy(topology), kill("node-0"))
    state = changed(state, "node-1", role=Role.PRIMARY, follows=None)
    view = state.nodes[2].sentinel
    assert view is not None
    busy = changed(state, "sentinel-0", sentinel=replace(view, failing_over=True))
    plan = prove(desired_of(topology), busy)
    assert texts(plan) == [
        "shard 0: wait until a replica of node-0 has taken over",
        "node-0: start as replica of node-1",
    ]
    assert plan.dangers == ()


def test_nothing_is_replicated_behind_a_primary_that_says_it_is_none() -> None:
    topology = watched()
    state = changed(healthy(topology), "node-0", role=Role.REPLICA, follows=id_of("node-1"))
    assert make_plan(desired_of(topology), changed(state, "node-2", follows=None)).steps == ()


def test_a_drifted_sentinel_is_set_right() -> None:
    topology = watched()
    state = healthy(topology)
    view = state.nodes[3].sentinel
    assert view is not None
    drifted = replace(view, options={**view.options, "quorum": "9"})
    plan = prove(desired_of(topology), changed(state, "sentinel-0", sentinel=drifted))
    assert texts(plan) == ["sentinel-0: set quorum to 2 (was 9)"]


DOWN_AFTER_MS = watched().sentinel.down_after_ms
LATEST_MS = DOWN_AFTER_MS - RETURN_MS
STARTS, FAILS_OVER = "node-0: start", "shard 0: wait until a replica of node-0 has taken over"


@pytest.mark.parametrize(
    ("view", "first"),
    [
        pytest.param({"silence_ms": LATEST_MS}, STARTS, id="it is back before they give it up"),
        pytest.param({"silence_ms": LATEST_MS + 1}, FAILS_OVER, id="a start would be too late"),
        pytest.param({"silence_ms": LATEST_MS + 1, "usable_quorum": False}, STARTS, id="too few sentinels to decide"),
        pytest.param({"failing_over": True}, FAILS_OVER, id="they are at it"),
    ],
)
def test_a_primary_starts_only_while_sentinels_still_wait_for_it(view: dict[str, object], first: str) -> None:
    """Started later, it would take writes that the failover throws away."""
    topology = watched()
    state = killed(healthy(topology), "node-0")
    own = state.node(name("sentinel-1")).sentinel
    assert own is not None
    seen = changed(state, "sentinel-1", sentinel=replace(own, **view))  # type: ignore[arg-type]
    assert texts(make_plan(desired_of(topology), seen))[0] == first


def test_a_dead_sentinels_last_view_hurries_no_failover() -> None:
    topology = watched()
    state = killed(healthy(topology), "node-0")
    own = state.node(name("sentinel-1")).sentinel
    assert own is not None
    late = changed(state, "sentinel-1", sentinel=replace(own, silence_ms=LATEST_MS + 1), presence=Presence.HUNG)
    assert texts(make_plan(desired_of(topology), late))[0] == STARTS


@pytest.mark.parametrize("others", [("node-1", "node-0", "node-0"), ("node-1", "node-1", "node-0")])
def test_most_sentinels_of_one_epoch_are_believed(others: tuple[str, ...]) -> None:
    topology = watched()
    desired, state = desired_of(topology), healthy(topology)
    for index, named in enumerate(others):
        own, spec = state.node(name(f"sentinel-{index}")).sentinel, desired.specs[name(named)]
        assert own is not None
        state = changed(state, f"sentinel-{index}", sentinel=replace(own, primary=(spec.address, spec.port)))
    assert believed_primary(desired, state).name == others[1]


def following_a_dead_node() -> Observed:
    """The sentinels are gone; two nodes follow the third, which is dead and empty."""
    state = damaged(healthy(watched()), [partial(wiped, node=f"sentinel-{index}") for index in range(3)])
    state = killed(state, "node-2", Saved.NOTHING)
    return damaged(state, [partial(following, node=node, primary="node-2") for node in ("node-0", "node-1")])


def test_without_sentinels_the_node_that_replicas_follow_is_the_primary() -> None:
    assert believed_primary(desired_of(watched()), following_a_dead_node()).name == "node-2"


def test_a_sentinel_that_hangs_has_no_opinion() -> None:
    before = healthy(watched()).node(name("sentinel-0"))
    state = changed(following_a_dead_node(), "sentinel-0", presence=Presence.HUNG, sentinel=before.sentinel)
    assert believed_primary(desired_of(watched()), state).name == "node-2"


@pytest.mark.parametrize(
    ("mode", "saved", "waits"),
    [
        (PersistenceMode.AOF, Saved.LOG, False),
        (PersistenceMode.AOF, Saved.SNAPSHOT, True),
        (PersistenceMode.AOF, Saved.NOTHING, True),
        (PersistenceMode.RDB, Saved.SNAPSHOT, True),
        (PersistenceMode.RDB, Saved.LOG, True),
        (PersistenceMode.NONE, Saved.LOG, True),
    ],
)
def test_only_a_log_that_is_read_has_all_counts(mode: PersistenceMode, saved: Saved, *, waits: bool) -> None:
    """An owner that comes back with less than its replicas hold empties them."""
    topology = cluster(mode=mode)
    state = killed(healthy(topology), "node-0", saved)
    first = shards(topology, state)[0]
    assert first.owner is not None
    assert _must_wait(desired_of(topology), first, first.owner) is waits
    assert not _must_wait(desired_of(topology), first, first.others[0])


@pytest.mark.parametrize(
    ("topology", "phases"), [(cluster(mode=NONE), cluster_phases), (watched(mode=NONE), sentinel_phases)]
)
def test_a_loss_is_only_for_a_primary_that_nobody_can_replace(topology: Topology, phases: ModuleType) -> None:
    """The phase says so by itself, whatever the phases before it did."""
    others = [node.name for node in healthy(topology).nodes if node.role is Role.REPLICA]
    state = killed(healthy(topology), "node-0", mode=NONE)
    assert list(phases.start_with_loss(desired_of(topology), state)) == []
    for other in others:
        state = killed(state, other, mode=NONE)
    [step] = phases.start_with_loss(desired_of(topology), state)
    assert (step.node, bool(step.loss)) == ("node-0", True)


@pytest.mark.parametrize(("keys", "brings"), [(0, False), (1, True), (None, True)])
def test_one_key_in_memory_is_a_count(keys: int | None, *, brings: bool) -> None:
    """What is in memory counts; only where that is not known the disk does."""
    state = changed(healthy(cluster()), "node-3", keys=keys, disk=OnDisk(saved=Saved.LOG))
    assert _has_data(desired_of(cluster()), state.node(name("node-3"))) is brings


def test_a_node_that_calls_itself_a_primary_is_no_live_replica() -> None:
    state = changed(healthy(cluster()), "node-3", role=Role.PRIMARY)
    assert [node.name for node in shards(cluster(), healthy(cluster()))[0].live_replicas()] == ["node-3"]
    assert list(shards(cluster(), state)[0].live_replicas()) == []
