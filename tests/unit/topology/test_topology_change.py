"""Edits that deploy refuses on a deployed fleet, and the topology that other commands use meanwhile."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from rlctl.topology.change import RefusedEdit, as_deployed, refused_edits, summary
from rlctl.topology.model import (
    MIB,
    ClusterShape,
    DockerPlace,
    Engine,
    Flavor,
    HostEntry,
    Kind,
    LocalPlace,
    Memory,
    Security,
    SentinelShape,
    TargetName,
    Topology,
)
from rlctl.topology.nodes import all_nodes
from tests.unit.fleets import cluster, watched

Edit = Callable[[Topology], Topology]
LOCAL, SENTINEL = cluster(), watched()
DOCKER = replace(LOCAL, target=TargetName.DOCKER, docker=DockerPlace(subnet="172.28.0.0/24"))
HOSTS = replace(
    LOCAL, target=TargetName.HOSTS, hosts=tuple(HostEntry(address=f"10.0.0.{number}") for number in (1, 2, 3))
)


def of_cluster(**changes: int) -> Edit:
    return lambda topology: replace(topology, cluster=replace(topology.cluster, **changes))


def of_sentinel(**changes: int) -> Edit:
    return lambda topology: replace(topology, sentinel=replace(topology.sentinel, **changes))


def of_local(**changes: object) -> Edit:
    return lambda topology: replace(topology, local=LocalPlace(**changes))  # type: ignore[arg-type]


REFUSED = [
    pytest.param(LOCAL, of_cluster(shards=4), "cluster.shards 3; the topology now says 4", id="more shards"),
    pytest.param(cluster(4), of_cluster(shards=3), "cluster.shards 4; the topology now says 3", id="fewer shards"),
    pytest.param(LOCAL, of_cluster(replicas=0), "cluster.replicas 1; the topology now says 0", id="fewer replicas"),
    pytest.param(SENTINEL, of_sentinel(replicas=1), "sentinel.replicas 2; the topology now says 1", id="replicas"),
    pytest.param(SENTINEL, of_sentinel(sentinels=1, quorum=1), "sentinel.sentinels 3; the topology now says 1", id="s"),
    pytest.param(LOCAL, lambda one: replace(one, kind=Kind.SENTINEL), "kind cluster", id="kind"),
    pytest.param(LOCAL, lambda one: replace(one, target=TargetName.DOCKER), "target local", id="target"),
    pytest.param(LOCAL, of_local(base_port=8000), "local.base_port 7000; the topology now says 8000", id="port"),
    pytest.param(LOCAL, of_local(address="127.0.0.9"), "local.address 127.0.0.1", id="address"),
    pytest.param(LOCAL, of_local(spread=True), "local.spread false; the topology now says true", id="spread"),
    pytest.param(LOCAL, lambda one: replace(one, security=Security(tls=True)), "security.tls false", id="tls"),
    pytest.param(LOCAL, lambda one: replace(one, security=Security(acl=False)), "security.acl true", id="acl"),
    pytest.param(LOCAL, lambda one: replace(one, engine=Engine(flavor=Flavor.VALKEY)), "engine.flavor redis", id="eng"),
    pytest.param(
        DOCKER,
        lambda one: replace(one, docker=DockerPlace(subnet="172.29.0.0/24")),
        "node-0 at 172.28.0.2:7000; the topology now says 172.29.0.2:7000",
        id="subnet",
    ),
    pytest.param(HOSTS, lambda one: replace(one, hosts=one.hosts[:2]), "is deployed with node-", id="a host less"),
]
POSSIBLE = [
    pytest.param(LOCAL, lambda one: one, id="none"),
    pytest.param(LOCAL, of_cluster(replicas=2), id="more replicas"),
    pytest.param(DOCKER, of_cluster(replicas=2), id="more containers"),
    pytest.param(SENTINEL, of_sentinel(replicas=3), id="more replicas behind sentinels"),
    pytest.param(SENTINEL, of_sentinel(quorum=3), id="quorum"),
    pytest.param(SENTINEL, of_cluster(shards=9, replicas=0), id="a section that the kind ignores"),
    pytest.param(DOCKER, of_local(spread=True), id="a section that the target ignores"),
    pytest.param(DOCKER, lambda one: replace(one, docker=DockerPlace()), id="auto means where it is"),
    pytest.param(LOCAL, lambda one: replace(one, memory=Memory(maxmemory_bytes=64 * MIB)), id="memory"),
]


@pytest.mark.parametrize(("deployed", "edit", "says"), REFUSED)
def test_what_deploy_refuses(deployed: Topology, edit: Edit, says: str) -> None:
    wanted = edit(deployed)
    found = refused_edits(deployed, wanted)
    assert says in summary(found)
    assert all(refusal.hint for refusal in found)
    assert all_nodes(as_deployed(wanted, deployed)) == all_nodes(deployed)
    assert refused_edits(deployed, as_deployed(wanted, deployed)) == ()


@pytest.mark.parametrize(("deployed", "edit"), POSSIBLE)
def test_what_deploy_can_do(deployed: Topology, edit: Edit) -> None:
    assert refused_edits(deployed, edit(deployed)) == ()


def test_settings_that_deploy_can_change_are_judged_by_the_file() -> None:
    wanted = replace(
        of_cluster(replicas=0, node_timeout_ms=1_500)(LOCAL),
        memory=Memory(maxmemory_bytes=64 * MIB),
        redis=(("hz", "50"),),
    )
    judged = as_deployed(wanted, LOCAL)
    assert (judged.memory, judged.redis) == (wanted.memory, wanted.redis)
    assert judged.cluster == ClusterShape(shards=3, replicas=1, node_timeout_ms=1_500)


def test_sentinels_that_stay_keep_their_quorum() -> None:
    wanted = of_sentinel(sentinels=1, quorum=1, down_after_ms=9_000)(SENTINEL)
    assert as_deployed(wanted, SENTINEL).sentinel == SentinelShape(
        replicas=2, sentinels=3, quorum=2, down_after_ms=9_000
    )


def test_of_another_kind_nothing_is_taken() -> None:
    deployed = of_cluster(node_timeout_ms=1_500)(LOCAL)
    assert as_deployed(watched(), deployed).cluster == deployed.cluster


def test_a_long_list_is_cut() -> None:
    found = [RefusedEdit(text=f"text {number}", hint="") for number in range(5)]
    assert summary(found) == "text 0; text 1; text 2 (+2 more)"
    assert summary(found[:3]) == "text 0; text 1; text 2"
