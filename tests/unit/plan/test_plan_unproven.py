"""Nodes that nothing proves: no false outage, no false promise, and what is critical all the same."""

from dataclasses import replace
from functools import partial

import pytest

from rlctl.errors import Refused
from rlctl.observe.model import NodeFacts, Observed, OnDisk, Presence, SentinelView
from rlctl.plan.failover import FailoverMode
from rlctl.plan.failover_choice import choose
from rlctl.plan.finding import Finding, Severity, State
from rlctl.plan.findings import assess, state_of
from rlctl.plan.planner import make_plan
from rlctl.plan.unproven import describe_unproven
from rlctl.plan.views import views_of
from rlctl.topology.model import HostEntry, TargetName, Topology
from tests.unit.fleets import Damage, changed, cluster, damaged, desired_of, healthy, killed, name, watched

WHY = "10.0.0.12:7000: host h2 did not confirm that its unit holds the port: sudo refused"
HOSTS = tuple(HostEntry(address=f"10.0.0.{number}", name=f"h{number}") for number in (11, 12, 13))


def unproven(*nodes: str) -> Damage:
    """They may serve: what they would say is not known, as they were not asked."""

    def change(state: Observed) -> Observed:
        for node in nodes:
            own = state.node(name(node))
            disk = OnDisk(running=True, own_id=own.id)
            facts = NodeFacts(name=own.name, id=own.id, presence=Presence.UNPROVEN, evidence=WHY, disk=disk)
            state = replace(state, nodes=tuple(facts if one.name == node else one for one in state.nodes))
        return state

    return change


def failed(node: str, by: str) -> Damage:
    """One node holds another for failed."""

    def change(state: Observed) -> Observed:
        doubted, table = state.node(name(node)).id, state.node(name(by)).table
        return changed(state, by, table=tuple(replace(peer, failed=peer.id == doubted) for peer in table))

    return change


def unknown(node: str) -> Damage:
    """No other node has heard of it."""

    def change(state: Observed) -> Observed:
        own = state.node(name(node)).id
        for other in state.nodes:
            state = changed(state, other.name, table=tuple(peer for peer in other.table if peer.id != own))
        return state

    return change


def view(node: str, **facts: object) -> Damage:
    def change(state: Observed) -> Observed:
        own = state.node(name(node)).sentinel or SentinelView()
        return changed(state, node, sentinel=replace(own, **facts))  # type: ignore[arg-type]

    return change


def found(topology: Topology, *damages: Damage) -> tuple[Finding, ...]:
    return assess(desired_of(topology), damaged(healthy(topology), damages))


def critical(findings: tuple[Finding, ...]) -> set[tuple[str, str]]:
    return {(one.code, one.subject) for one in findings if one.severity is Severity.CRITICAL}


ALL_OF_CLUSTER = tuple(f"node-{number}" for number in range(6))
ALL_WATCHED = ("node-0", "node-1", "node-2", "sentinel-0", "sentinel-1", "sentinel-2")


@pytest.mark.parametrize(
    ("topology", "nodes"),
    [
        pytest.param(cluster(), ("node-1",), id="a primary"),
        pytest.param(cluster(), ("node-4",), id="a replica"),
        pytest.param(cluster(), ("node-1", "node-3"), id="a host"),
        pytest.param(cluster(), ("node-1", "node-2", "node-3", "node-5"), id="two hosts"),
        pytest.param(cluster(), ("node-0", "node-1", "node-2"), id="all primaries"),
        pytest.param(cluster(3, 0), ("node-1",), id="a primary without replicas"),
        pytest.param(watched(), ("node-0",), id="the primary behind Sentinel"),
        pytest.param(watched(), ("node-1",), id="a replica behind Sentinel"),
        pytest.param(watched(), ("node-1", "node-2"), id="all replicas behind Sentinel"),
        pytest.param(watched(), ("sentinel-1",), id="a sentinel"),
        pytest.param(watched(), ("sentinel-1", "sentinel-2"), id="most sentinels"),
        pytest.param(watched(), ("node-0", "sentinel-0"), id="the primary and its sentinel"),
        pytest.param(watched(), ("sentinel-0", "sentinel-1", "sentinel-2"), id="all sentinels"),
    ],
)
def test_a_node_that_nothing_proves_is_one_finding_and_no_outage(topology: Topology, nodes: tuple[str, ...]) -> None:
    findings = found(topology, unproven(*nodes))
    assert [(one.code, one.severity, one.subject) for one in findings] == [
        ("node-unproven", Severity.DEGRADED, node) for node in nodes
    ]
    assert all(WHY in one.text for one in findings)
    assert state_of(findings, damaged(healthy(topology), [unproven(*nodes)])) is State.DEGRADED


@pytest.mark.parametrize(
    ("topology", "damages", "outage"),
    [
        pytest.param(
            cluster(),
            [failed("node-1", by="node-0"), unproven("node-1")],
            ("slots-uncovered", "shard 1"),
            id="one living node holds it for failed",
        ),
        pytest.param(
            cluster(),
            [*(failed("node-1", by=node) for node in ("node-0", "node-2", "node-4")), unproven("node-1", "node-3")],
            ("slots-uncovered", "shard 1"),
            id="all living nodes hold it for failed",
        ),
        pytest.param(
            watched(), [view("sentinel-0", down=True), unproven("node-0")], ("no-primary", "fleet"), id="held down"
        ),
        pytest.param(
            watched(),
            [view("sentinel-2", down=True, failed=True), unproven("node-0")],
            ("no-primary", "fleet"),
            id="agreed to be down",
        ),
        pytest.param(
            watched(),
            [
                view("sentinel-0", silent=(("127.0.0.1", 8_001), ("127.0.0.1", 8_002))),
                unproven("sentinel-1", "sentinel-2"),
            ],
            ("quorum-lost", "fleet"),
            id="sentinels that the living one does not reach",
        ),
    ],
)
def test_what_living_nodes_hold_for_failed_stays_critical(
    topology: Topology, damages: list[Damage], outage: tuple[str, str]
) -> None:
    findings = found(topology, *damages)
    assert critical(findings) == {outage}
    assert "node-unproven" in {one.code for one in findings}


def test_the_text_of_a_shard_whose_primary_is_held_for_failed() -> None:
    findings = found(cluster(), failed("node-1", by="node-0"), unproven("node-1"))
    texts = [one.text for one in findings if one.code == "slots-uncovered"]
    assert texts == ["5462 slots belong to node-1, which is not proven and which other nodes mark as failed"]


@pytest.mark.parametrize(
    ("damages", "outage"),
    [
        pytest.param([partial(killed, node="node-1")], {("slots-uncovered", "shard 1")}, id="another primary is dead"),
        pytest.param(
            [lambda state: changed(state, "node-1", fleet_ok=False)],
            {("cluster-fail", "fleet")},
            id="a cluster that fails",
        ),
    ],
)
def test_an_outage_elsewhere_is_told_beside_an_unproven_node(
    damages: list[Damage], outage: set[tuple[str, str]]
) -> None:
    assert critical(found(cluster(), *damages, unproven("node-2"))) == outage


def test_slots_that_living_nodes_give_to_no_node_are_uncovered() -> None:
    """They know the unproven node, and it has none."""

    def without_slots(state: Observed) -> Observed:
        owner = state.node(name("node-1")).id
        for node in state.nodes:
            table = tuple(replace(peer, slots=() if peer.id == owner else peer.slots) for peer in node.table)
            state = changed(state, node.name, table=table)
        return state

    assert critical(found(cluster(), without_slots, unproven("node-1"))) == {
        ("slots-uncovered", "fleet"),
        ("no-primary", "shard 1"),
    }


def test_what_a_node_owns_of_which_no_living_node_has_heard_is_not_known() -> None:
    assert critical(found(cluster(), unknown("node-1"), unproven("node-1"))) == set()


@pytest.mark.parametrize(
    ("topology", "damages", "subject"),
    [
        pytest.param(cluster(), [failed("node-4", by="node-1"), unproven("node-4")], "shard 1", id="cluster"),
        pytest.param(
            watched(),
            [view("sentinel-0", silent=(("127.0.0.1", 7_001), ("127.0.0.1", 7_002))), unproven("node-1", "node-2")],
            "fleet",
            id="sentinel",
        ),
    ],
)
def test_a_replica_that_is_held_for_failed_is_no_replica(
    topology: Topology, damages: list[Damage], subject: str
) -> None:
    assert ("no-replica", subject) in {(one.code, one.subject) for one in found(topology, *damages)}


@pytest.mark.parametrize(
    ("topology", "nodes"), [(cluster(), ALL_OF_CLUSTER), (watched(), ALL_WATCHED)], ids=["cluster", "sentinel"]
)
def test_a_fleet_of_which_nothing_is_proven_is_no_outage_and_says_what_to_do(
    topology: Topology, nodes: tuple[str, ...]
) -> None:
    on_hosts = replace(topology, target=TargetName.HOSTS, hosts=HOSTS)
    findings = found(on_hosts, unproven(*nodes))
    assert critical(findings) == set()
    assert [one.subject for one in findings if one.code == "node-unproven"] == ["fleet", *nodes]
    told = findings[0].text
    assert "cannot tell whether the fleet serves" in told
    assert "repair ssh and sudo to the host" in told
    assert "`security: {tls: true}`" in told


@pytest.mark.parametrize("topology", [cluster(), watched()], ids=["cluster", "sentinel"])
def test_a_dead_primary_among_unproven_nodes_may_have_been_replaced(topology: Topology) -> None:
    others = tuple(node.name for node in healthy(topology).nodes if node.name != "node-0")
    findings = found(topology, partial(killed, node="node-0"), unproven(*others))
    assert critical(findings) == set()
    assert {(one.code, one.subject) for one in findings} >= {("node-unproven", "fleet"), ("node-down", "node-0")}


# --- status --views -------------------------------------------------------------------------------------------------


def conflicts(topology: Topology, *damages: Damage) -> list[tuple[str, str, str]]:
    views = views_of(desired_of(topology), damaged(healthy(topology), damages))
    return [(one.code, one.severity.value, one.subject) for one in views.conflicts]


@pytest.mark.parametrize(
    ("topology", "nodes"),
    [
        pytest.param(cluster(), ("node-1",), id="a primary"),
        pytest.param(cluster(), ("node-1", "node-4"), id="a whole shard"),
        pytest.param(cluster(), ("node-0", "node-1", "node-2"), id="all primaries"),
        pytest.param(watched(), ("node-0",), id="the primary behind Sentinel"),
        pytest.param(watched(), ("node-0", "sentinel-0"), id="the primary and a sentinel"),
    ],
)
def test_views_do_not_say_that_no_node_takes_writes_of_an_unproven_primary(
    topology: Topology, nodes: tuple[str, ...]
) -> None:
    assert conflicts(topology, unproven(*nodes)) == []


@pytest.mark.parametrize(
    ("topology", "damages", "outage"),
    [
        pytest.param(
            cluster(),
            [failed("node-1", by="node-0"), unproven("node-1")],
            ("no-writer", "critical", "shard 1"),
            id="cluster",
        ),
        pytest.param(
            watched(),
            [view("sentinel-0", down=True), unproven("node-0")],
            ("no-writer", "critical", "shard 0"),
            id="sentinel",
        ),
    ],
)
def test_views_say_so_where_a_living_node_holds_it_for_failed(
    topology: Topology, damages: list[Damage], outage: tuple[str, str, str]
) -> None:
    assert outage in conflicts(topology, *damages)


@pytest.mark.parametrize(
    ("topology", "nodes"), [(cluster(), ALL_OF_CLUSTER), (watched(), ALL_WATCHED)], ids=["cluster", "sentinel"]
)
def test_views_of_a_fleet_of_which_nothing_is_proven(topology: Topology, nodes: tuple[str, ...]) -> None:
    views = views_of(desired_of(topology), damaged(healthy(topology), [unproven(*nodes)]))
    [conflict] = views.conflicts
    assert (conflict.code, conflict.severity) == ("no-views", Severity.DEGRADED)
    assert conflict.text.startswith("no node is proven")
    assert all(view.is_unproven for view in views.views)


# --- what is refused, and what to do ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "proof_hint"),
    [
        pytest.param(TargetName.HOSTS, "repair ssh and sudo to the host", id="hosts"),
        pytest.param(TargetName.LOCAL, "end the process that listens there", id="local"),
        pytest.param(TargetName.DOCKER, "end the process that listens there", id="docker"),
    ],
)
def test_deploy_refuses_and_says_what_to_do(target: TargetName, proof_hint: str) -> None:
    topology = replace(cluster(), target=target, hosts=HOSTS if target is TargetName.HOSTS else ())
    with pytest.raises(Refused) as caught:
        make_plan(desired_of(topology), damaged(healthy(topology), [unproven("node-1")]))
    assert "is not proven to be this node" in caught.value.message
    assert "sudo refused" in caught.value.message
    assert caught.value.hint.startswith(proof_hint)
    assert "`security: {tls: true}`" in caught.value.hint


@pytest.mark.parametrize(
    ("topology", "damages", "mode", "guard"),
    [
        pytest.param(cluster(), [unproven("node-0")], FailoverMode.PLANNED, "primary-silent: node-0", id="the primary"),
        pytest.param(
            cluster(), [unproven("node-1", "node-2")], FailoverMode.PLANNED, "no-majority", id="most primaries"
        ),
        pytest.param(cluster(), [unproven("node-1", "node-2")], FailoverMode.FORCE, "no-majority", id="by force too"),
        pytest.param(cluster(), [unproven("node-3")], FailoverMode.PLANNED, "no-replica", id="the replica"),
        pytest.param(
            watched(), [unproven("node-0")], FailoverMode.PLANNED, "primary-silent: node-0", id="behind Sentinel"
        ),
        pytest.param(
            watched(), [unproven("node-1", "node-2")], FailoverMode.PLANNED, "no-replica", id="replicas there"
        ),
        pytest.param(
            watched(),
            [unproven("sentinel-0", "sentinel-1", "sentinel-2")],
            FailoverMode.PLANNED,
            "no-quorum",
            id="sentinels",
        ),
        pytest.param(
            watched(),
            [unproven("sentinel-0", "sentinel-1", "sentinel-2")],
            FailoverMode.FORCE,
            "no-sentinel",
            id="none to ask",
        ),
    ],
)
def test_failover_asks_for_the_proof_before_it_asks_for_losses(
    topology: Topology, damages: list[Damage], mode: FailoverMode, guard: str
) -> None:
    """`--force` and `--takeover` lose writes of a primary that may serve well."""
    on_hosts = replace(topology, target=TargetName.HOSTS, hosts=HOSTS)
    with pytest.raises(Refused, match=f"guard {guard}") as caught:
        choose(desired_of(on_hosts), damaged(healthy(on_hosts), damages), 0, mode)
    assert caught.value.hint.startswith("repair ssh and sudo to the host")
    assert not any(word in caught.value.hint for word in ("--force", "--takeover", "deploy"))


def test_the_refusal_calls_an_unproven_primary_so() -> None:
    with pytest.raises(Refused) as caught:
        choose(desired_of(cluster()), damaged(healthy(cluster()), [unproven("node-0")]), 0, FailoverMode.PLANNED)
    assert caught.value.message == f"guard primary-silent: node-0, the primary of shard 0, is not proven ({WHY})"


def test_a_primary_that_is_held_for_failed_can_be_moved_past() -> None:
    with pytest.raises(Refused) as caught:
        choose(
            desired_of(cluster()),
            damaged(healthy(cluster()), [failed("node-0", by="node-1"), unproven("node-0")]),
            0,
            FailoverMode.PLANNED,
        )
    assert "`rlctl failover 0 --force`" in caught.value.hint


def test_the_nodes_that_were_not_asked_are_listed() -> None:
    assert describe_unproven(healthy(cluster())) == ""
    state = damaged(healthy(cluster()), [unproven("node-1", "node-4")])
    assert describe_unproven(state) == f"node-1 is not proven ({WHY}); node-4 is not proven ({WHY})"
