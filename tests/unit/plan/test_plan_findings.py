"""What is wrong with a fleet, finding by finding, and the verdict over them."""

from dataclasses import replace
from functools import partial

import pytest

from rlctl.observe.model import Observed, OnDisk, Peer, Presence, ReplicationLink, Role, SentinelView
from rlctl.plan.finding import Finding, Severity, State
from rlctl.plan.findings import assess, state_of
from rlctl.topology.change import RefusedEdit
from rlctl.topology.model import HostEntry, TargetName, Topology
from rlctl.topology.nodes import NodeId
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
    killed,
    name,
    promoted,
    unmet,
    watched,
    without_slots,
)

ALIEN = Peer(id=NodeId("a" * 40), address="10.0.0.9", port=1, role=Role.REPLICA)
DEGRADED, CRITICAL = Severity.DEGRADED, Severity.CRITICAL


def view(node: str, **facts: object) -> Damage:
    def change(state: Observed) -> Observed:
        own = next(one.sentinel for one in state.nodes if one.name == node)
        return changed(state, node, sentinel=replace(own or SentinelView(), **facts))  # type: ignore[arg-type]

    return change


def fact(node: str, **facts: object) -> Damage:
    return lambda state: changed(state, node, **facts)


def kill(*nodes: str) -> list[Damage]:
    return [partial(killed, node=node) for node in nodes]


def met_alien(state: Observed) -> Observed:
    return changed(state, "node-0", table=(*state.nodes[0].table, ALIEN))


def met_owner(state: Observed) -> Observed:
    owner = replace(ALIEN, role=Role.PRIMARY, slots=((6_000, 6_009),))
    return changed(state, "node-0", table=(*state.nodes[0].table, owner))


def doubting(state: Observed) -> Observed:
    table = tuple(replace(peer, failed=True) for peer in state.nodes[0].table)
    return changed(state, "node-0", table=table)


def found(topology: Topology, damages: list[Damage]) -> list[Finding]:
    return list(assess(desired_of(topology), damaged(healthy(topology), damages)))


@pytest.mark.parametrize(
    ("topology", "damages", "code", "severity", "subject", "text"),
    [
        pytest.param(
            cluster(), kill("node-3"), "node-down", DEGRADED, "node-3", "node-3 is down (connection refused)", id="down"
        ),
        pytest.param(
            cluster(),
            [fact("node-3", presence=Presence.ABSENT, disk=OnDisk(running=True))],
            "node-down",
            DEGRADED,
            "node-3",
            "node-3 is down (its process runs but does not listen)",
            id="not listening",
        ),
        pytest.param(
            cluster(),
            [fact("node-3", presence=Presence.ABSENT, disk=OnDisk())],
            "node-down",
            DEGRADED,
            "node-3",
            "node-3 is down",
            id="down without evidence",
        ),
        pytest.param(
            cluster(),
            [partial(hung, node="node-3")],
            "node-hung",
            DEGRADED,
            "node-3",
            "node-3 has a process that does not answer (no answer)",
            id="hung",
        ),
        pytest.param(
            cluster(),
            [partial(hung, node="node-3", presence=Presence.FULL)],
            "node-maxclients",
            DEGRADED,
            "node-3",
            "node-3 runs and accepts no more clients (no answer)",
            id="at maxclients",
        ),
        pytest.param(
            cluster(),
            [partial(hung, node="node-3", presence=Presence.LOADING)],
            "node-loading",
            DEGRADED,
            "node-3",
            "node-3 is loading its data (no answer)",
            id="loading",
        ),
        pytest.param(
            cluster(),
            [fact("node-3", presence=Presence.DENIED)],
            "node-denied",
            DEGRADED,
            "node-3",
            "node-3 rejects this fleet's password",
            id="denied",
        ),
        pytest.param(
            cluster(),
            [fact("node-3", presence=Presence.STRANGER)],
            "node-stranger",
            DEGRADED,
            "node-3",
            "node-3 is down, and another process holds its port",
            id="stranger",
        ),
        pytest.param(
            cluster(),
            [fact("node-3", presence=Presence.FOREIGN)],
            "node-foreign",
            DEGRADED,
            "node-3",
            "node-3 is down, and a node of another fleet holds its port",
            id="foreign",
        ),
        pytest.param(
            cluster(),
            [fact("node-1", settings={"maxmemory": "1"})],
            "setting-drift",
            DEGRADED,
            "node-1",
            "node-1 has maxmemory 1b, the topology says 256mb",
            id="setting",
        ),
        pytest.param(
            cluster(),
            [fact("node-1", acl_revision="old")],
            "users-drift",
            DEGRADED,
            "node-1",
            "node-1 has not loaded the users of this release",
            id="users",
        ),
        pytest.param(
            cluster(),
            [fact("node-1", users_off=frozenset({"replica", "limiter"}))],
            "users-drift",
            DEGRADED,
            "node-1",
            "limiter, replica cannot log in on node-1: disabled, or with another password",
            id="users off",
        ),
        pytest.param(
            cluster(),
            [fact("node-1", flavor="valkey", version="8.0.1")],
            "engine-drift",
            DEGRADED,
            "node-1",
            "node-1 runs valkey 8.0.1",
            id="engine",
        ),
        pytest.param(
            cluster(),
            [fact("node-1", used_bytes=268435456)],
            "memory-full",
            CRITICAL,
            "node-1",
            "node-1 refuses writes (OOM): 268435456 bytes used, maxmemory is 256mb",
            id="out of memory",
        ),
        pytest.param(
            watched(),
            [fact("node-0", used_bytes=10**9)],
            "memory-full",
            CRITICAL,
            "node-0",
            "node-0 refuses writes (OOM): 1000000000 bytes used, maxmemory is 256mb",
            id="the primary out of memory",
        ),
        pytest.param(
            cluster(),
            [partial(without_slots, node="node-1", half=True)],
            "slots-uncovered",
            CRITICAL,
            "fleet",
            "2731 slots have no owner",
            id="nobody's slots",
        ),
        pytest.param(
            cluster(),
            kill("node-1"),
            "slots-uncovered",
            CRITICAL,
            "shard 1",
            "5462 slots belong to node-1, which does not answer",
            id="a dead owner",
        ),
        pytest.param(
            cluster(),
            [
                partial(without_slots, node="node-1"),
                met_owner,
            ],
            "slots-uncovered",
            CRITICAL,
            "fleet",
            "10 slots belong to aaaaaaaa, which does not answer",
            id="an unknown owner",
        ),
        pytest.param(
            cluster(),
            [partial(unmet, first="node-1", second="node-2")],
            "not-joined",
            DEGRADED,
            "node-1",
            "node-1 does not know node-2",
            id="unmet",
        ),
        pytest.param(
            cluster(),
            [met_alien],
            "unknown-member",
            DEGRADED,
            "node-0",
            "node-0 knows aaaaaaaa, not in the topology",
            id="unknown member",
        ),
        pytest.param(
            cluster(3, 1),
            [doubting],
            "views-split",
            DEGRADED,
            "node-0",
            "node-0 marks nodes as failed although they answer: node-0, node-1, node-2, node-3 and 2 more",
            id="split views",
        ),
        pytest.param(
            cluster(),
            [partial(without_slots, node="node-1")],
            "no-primary",
            CRITICAL,
            "shard 1",
            "shard 1 has no node that owns slots",
            id="no primary",
        ),
        pytest.param(
            cluster(),
            [
                partial(without_slots, node="node-1", half=True),
                fact("node-4", role=Role.PRIMARY, slots=((9_000, 10_922),)),
            ],
            "two-primaries",
            CRITICAL,
            "shard 1",
            "node-1 and node-4 both own slots of shard 1",
            id="two primaries",
        ),
        pytest.param(
            cluster(3, 2),
            [partial(following, node="node-4", primary="node-0")],
            "wrong-role",
            DEGRADED,
            "node-4",
            "node-4 is not a replica of node-1",
            id="strayed",
        ),
        pytest.param(
            cluster(),
            kill("node-4"),
            "no-replica",
            DEGRADED,
            "shard 1",
            "shard 1 has no linked replica: if node-1 fails, its counts are lost",
            id="no replica",
        ),
        pytest.param(
            cluster(3, 2),
            [fact("node-4", link=ReplicationLink.DOWN)],
            "link-down",
            DEGRADED,
            "node-4",
            "node-4 has no link to its primary",
            id="link",
        ),
        pytest.param(
            cluster(),
            [fact("node-1", fleet_ok=False), fact("node-4", fleet_ok=False)],
            "cluster-fail",
            CRITICAL,
            "fleet",
            "cluster_state is fail on node-1: writes are refused",
            id="cluster state",
        ),
        pytest.param(
            watched(),
            kill("node-0"),
            "no-primary",
            CRITICAL,
            "fleet",
            "node-0 should be the primary, but does not serve",
            id="watched no primary",
        ),
        pytest.param(
            watched(),
            [fact("node-0", role=Role.REPLICA)],
            "no-primary",
            CRITICAL,
            "fleet",
            "node-0 should be the primary, but does not serve",
            id="watched primary follows",
        ),
        pytest.param(
            watched(),
            [fact("node-1", role=Role.PRIMARY, follows=None, link=ReplicationLink.NONE)],
            "two-primaries",
            CRITICAL,
            "fleet",
            "writes are accepted by node-1, besides the primary node-0",
            id="watched two primaries",
        ),
        pytest.param(
            watched(),
            [partial(following, node="node-2", primary="node-1")],
            "wrong-role",
            DEGRADED,
            "node-2",
            "node-2 is not a replica of node-0",
            id="watched strayed",
        ),
        pytest.param(
            watched(),
            [fact("node-2", link=ReplicationLink.DOWN)],
            "link-down",
            DEGRADED,
            "node-2",
            "node-2 has no link to its primary",
            id="watched link",
        ),
        pytest.param(
            watched(),
            kill("node-1", "node-2"),
            "no-replica",
            DEGRADED,
            "fleet",
            "no linked replica: if node-0 fails, all counts are lost",
            id="watched no replica",
        ),
        pytest.param(
            watched(),
            [view("sentinel-2", primary=("127.0.0.1", 7_001), epoch=-1)],
            "views-split",
            CRITICAL,
            "fleet",
            "sentinels disagree about the primary: 127.0.0.1:7000 (2), 127.0.0.1:7001 (1)",
            id="watched split views",
        ),
        pytest.param(
            watched(),
            kill("sentinel-0", "sentinel-2"),
            "quorum-lost",
            CRITICAL,
            "fleet",
            "1 of 3 sentinels answer: no failover can happen",
            id="quorum",
        ),
        pytest.param(
            watched(),
            [view("sentinel-1", tilt_s=6)],
            "sentinel-tilt",
            DEGRADED,
            "sentinel-1",
            "sentinel-1 is in TILT for about 24 s more, after a stall or a clock jump: "
            "until then it takes no action and its view of other nodes is stale",
            id="tilt",
        ),
        pytest.param(
            watched(),
            [view("sentinel-0", tilt_s=6), view("sentinel-2", tilt_s=9)],
            "sentinel-tilt",
            CRITICAL,
            "fleet",
            "1 of 3 sentinels can act (2 in TILT) and the quorum is 2: no failover can happen for about 24 s",
            id="no quorum out of tilt",
        ),
        pytest.param(
            watched(),
            [view("sentinel-0", tilt_s=31), *kill("sentinel-2")],
            "sentinel-tilt",
            CRITICAL,
            "fleet",
            "1 of 3 sentinels can act (1 in TILT) and the quorum is 2: no failover can happen for about 1 s",
            id="one down, one in tilt that is about to end",
        ),
        pytest.param(
            watched(),
            [fact("sentinel-1", sentinel=SentinelView())],
            "not-watching",
            DEGRADED,
            "sentinel-1",
            "sentinel-1 watches no primary",
            id="not watching",
        ),
        pytest.param(
            watched(),
            [view("sentinel-1", down=True)],
            "primary-doubted",
            DEGRADED,
            "sentinel-1",
            "sentinel-1 marks the primary as down",
            id="doubt",
        ),
        pytest.param(
            watched(),
            [view("sentinel-1", failing_over=True)],
            "failing-over",
            DEGRADED,
            "sentinel-1",
            "sentinel-1 is replacing the primary",
            id="failing over",
        ),
        pytest.param(
            watched(),
            [view("sentinel-1", usable_quorum=False)],
            "quorum-doubted",
            DEGRADED,
            "sentinel-1",
            "sentinel-1 sees no usable quorum",
            id="usable quorum",
        ),
        pytest.param(
            watched(),
            [view("sentinel-1", peers=())],
            "peers",
            DEGRADED,
            "sentinel-1",
            "sentinel-1 reaches 0 other sentinels, not 2",
            id="peers",
        ),
        pytest.param(
            watched(),
            [view("sentinel-1", replicas=(("127.0.0.1", 7_001),))],
            "replicas-unreached",
            DEGRADED,
            "sentinel-1",
            "sentinel-1 does not reach the replicas node-2",
            id="unreached",
        ),
        pytest.param(
            watched(),
            [view("sentinel-1", options={"quorum": "3"})],
            "setting-drift",
            DEGRADED,
            "sentinel-1",
            "sentinel-1 has quorum 3, the topology says 2",
            id="sentinel option",
        ),
    ],
)
def test_finding(
    topology: Topology, damages: list[Damage], code: str, severity: Severity, subject: str, text: str
) -> None:
    findings = found(topology, damages)
    assert Finding(code=code, severity=severity, subject=subject, text=text) in findings


@pytest.mark.parametrize(
    ("topology", "damages"),
    [
        pytest.param(cluster(), [], id="cluster"),
        pytest.param(cluster(3, 0), [], id="cluster without replicas"),
        pytest.param(cluster(3, 2), [], id="cluster with two replicas"),
        pytest.param(cluster(), [partial(promoted, node="node-4")], id="cluster after a failover"),
        pytest.param(watched(), [], id="sentinel"),
        pytest.param(watched(1, 1), [], id="one sentinel"),
        pytest.param(cluster(), [fact("node-0", flavor=None)], id="flavor unread"),
        pytest.param(cluster(), [fact("node-3", fleet_ok=False)], id="a replica has not caught up with the gossip"),
    ],
)
def test_nothing_to_find(topology: Topology, damages: list[Damage]) -> None:
    assert found(topology, damages) == []


STALE = {"down": True, "usable_quorum": False, "peers": (), "replicas": ()}


@pytest.mark.parametrize(
    ("damages", "codes"),
    [
        pytest.param(
            [view("sentinel-1", **STALE)],
            {"primary-doubted", "quorum-doubted", "peers", "replicas-unreached"},
            id="out of tilt",
        ),
        pytest.param([view("sentinel-1", **STALE, tilt_s=0)], {"sentinel-tilt"}, id="stale in tilt"),
        pytest.param(
            [view("sentinel-1", failing_over=True, tilt_s=0)], {"sentinel-tilt", "failing-over"}, id="its own failover"
        ),
        pytest.param(
            [view("sentinel-1", primary=("127.0.0.1", 7_001), epoch=-1, tilt_s=0)],
            {"sentinel-tilt", "views-split"},
            id="the primary that clients are sent to",
        ),
        pytest.param(
            [view("sentinel-1", options={"quorum": "3"}, tilt_s=0)],
            {"sentinel-tilt", "setting-drift"},
            id="its settings",
        ),
        pytest.param(
            [fact("sentinel-1", sentinel=SentinelView(tilt_s=99))],
            {"not-watching"},
            id="without a primary tilt never ends",
        ),
    ],
)
def test_what_is_still_true_of_a_sentinel_in_tilt(damages: list[Damage], codes: set[str]) -> None:
    assert {finding.code for finding in found(watched(), damages)} == codes


@pytest.mark.parametrize(
    ("quorum", "tilted", "is_critical"),
    [(2, 3, False), (2, 4, True), (3, 3, True), (4, 1, False), (4, 2, True)],
)
def test_the_quorum_decides_whether_a_failover_can_happen(quorum: int, tilted: int, *, is_critical: bool) -> None:
    """Sentinels in TILT vote: a majority of them out of TILT is not needed."""
    topology = watched(2, 5)
    topology = replace(topology, sentinel=replace(topology.sentinel, quorum=quorum))
    findings = found(topology, [view(f"sentinel-{number}", tilt_s=0) for number in range(tilted)])
    assert [one.subject for one in findings if one.severity is CRITICAL] == (["fleet"] if is_critical else [])
    assert {one.code for one in findings} == {"sentinel-tilt"}


def test_a_lost_quorum_says_more_than_tilt() -> None:
    findings = found(watched(), [*kill("sentinel-0", "sentinel-2"), view("sentinel-1", tilt_s=0)])
    assert [one.code for one in findings if one.severity is CRITICAL] == ["quorum-lost"]


def test_a_half_of_the_sentinels_doubts_the_quorum_for_a_reason_that_is_told_once() -> None:
    findings = found(watched(2, 4), [*kill("sentinel-0", "sentinel-2"), view("sentinel-1", usable_quorum=False)])
    assert {one.code for one in findings} & {"quorum-lost", "quorum-doubted"} == {"quorum-lost"}


def test_a_primary_that_hangs_serves_nobody_whatever_it_was() -> None:
    findings = found(watched(), [fact("node-0", presence=Presence.HUNG, role=Role.PRIMARY)])
    assert "no-primary" in {one.code for one in findings}


def test_a_lost_quorum_is_told_once_and_not_by_every_sentinel() -> None:
    findings = found(watched(), [*kill("sentinel-0", "sentinel-2"), view("sentinel-1", usable_quorum=False)])
    assert "quorum-doubted" not in {finding.code for finding in findings}


def test_the_gravest_come_first_then_subject_and_code() -> None:
    damages = [
        *kill("node-1"),
        fact("node-5", acl_revision="x", settings={"maxmemory": "1"}),
        fact("node-3", link=ReplicationLink.DOWN),
    ]
    keys = [(finding.severity, finding.subject, finding.code) for finding in found(cluster(), damages)]
    assert keys == [
        (CRITICAL, "shard 1", "slots-uncovered"),
        (DEGRADED, "node-1", "node-down"),
        (DEGRADED, "node-3", "link-down"),
        (DEGRADED, "node-4", "link-down"),
        (DEGRADED, "node-5", "setting-drift"),
        (DEGRADED, "node-5", "users-drift"),
        (DEGRADED, "shard 0", "no-replica"),
    ]


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        pytest.param(fresh(cluster()), State.ABSENT, id="absent"),
        pytest.param(healthy(cluster()), State.HEALTHY, id="healthy"),
        pytest.param(killed(healthy(cluster()), "node-3"), State.DEGRADED, id="degraded"),
        pytest.param(killed(healthy(cluster()), "node-0"), State.CRITICAL, id="critical"),
        pytest.param(changed(fresh(cluster()), "node-0", disk=OnDisk(own_id="x")), State.CRITICAL, id="files"),
        pytest.param(changed(fresh(cluster()), "node-0", disk=OnDisk(running=True)), State.CRITICAL, id="a process"),
    ],
)
def test_state(state: Observed, verdict: State) -> None:
    findings = assess(desired_of(cluster()), state)
    assert state_of(findings, state) is verdict
    assert bool(findings) is (verdict in {State.DEGRADED, State.CRITICAL})


def test_json_of_a_finding() -> None:
    finding = Finding(code="peers", severity=DEGRADED, subject="sentinel-1", text="...")
    assert finding.to_json() == {"code": "peers", "severity": "degraded", "subject": "sentinel-1", "text": "..."}


HOSTS = tuple(HostEntry(address=f"10.0.0.{number}", name=f"h{number}") for number in (11, 12, 13))


def silent(state: Observed, *nodes: str) -> Observed:
    """Their hosts tell of the processes, which do not answer us."""
    for node in nodes:
        state = changed(hung(state, node), node, disk=OnDisk(running=True, pid=7))
    return state


def test_who_is_shut_out_by_a_firewall_knows_nothing_of_slots() -> None:
    on_hosts = replace(cluster(), target=TargetName.HOSTS, hosts=HOSTS)
    nodes = [f"node-{number}" for number in range(6)]
    (one,) = assess(desired_of(on_hosts), silent(healthy(on_hosts), *nodes))
    assert (one.code, one.severity, one.subject) == ("node-unknown", DEGRADED, "fleet")
    assert "`rlctl deploy` adds a rule for it" in one.text


@pytest.mark.parametrize("target", [TargetName.HOSTS, TargetName.LOCAL])
def test_a_fleet_that_hangs_is_told_by_its_nodes(target: TargetName) -> None:
    """One that still takes connections, or one node alone that is silent, is no matter of a firewall."""
    topology = replace(cluster(), target=target, hosts=HOSTS)
    state = healthy(topology)
    for node in (f"node-{number}" for number in range(6)):
        state = hung(state, node)
    for case in (state, silent(healthy(topology), "node-0")):
        codes = {one.code for one in assess(desired_of(topology), case)}
        assert "node-hung" in codes
        assert "node-unknown" not in codes


@pytest.mark.parametrize("topology", [cluster(), watched()], ids=["cluster", "sentinel"])
def test_an_edit_that_deploy_refuses_is_one_finding(topology: Topology) -> None:
    refusals = tuple(RefusedEdit(text=f"edit {number}", hint="undo it") for number in (1, 2))
    desired = replace(desired_of(topology), refusals=refusals)
    [finding] = assess(desired, healthy(topology))
    assert (finding.code, finding.severity, finding.subject) == ("topology-differs", Severity.DEGRADED, "fleet")
    assert finding.text == "deploy would refuse: edit 1; edit 2"
    assert assess(desired, fresh(topology)) == ()


@pytest.mark.parametrize(
    ("node", "facts"),
    [
        ("node-1", {"used_bytes": 268435455}),
        ("node-1", {"used_bytes": None}),
        ("node-4", {"used_bytes": 10**9}),
    ],
    ids=["room left", "not read", "a replica"],
)
def test_what_refuses_no_write_is_not_full(node: str, facts: dict[str, object]) -> None:
    state = changed(healthy(cluster()), node, **facts)
    assert "memory-full" not in {finding.code for finding in assess(desired_of(cluster()), state)}


@pytest.mark.parametrize("setting", [{"maxmemory": "0"}, {"maxmemory-policy": "allkeys-lru"}], ids=str)
def test_without_a_bound_or_with_eviction_nothing_is_refused(setting: dict[str, str]) -> None:
    state = healthy(cluster())
    own = state.node(name("node-1"))
    state = changed(state, "node-1", used_bytes=10**9, settings={**own.settings, **setting})
    assert "memory-full" not in {finding.code for finding in assess(desired_of(cluster()), state)}
