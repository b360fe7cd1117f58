from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from time import perf_counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rlctl.topology.model import ClusterShape, HostEntry, Kind, SentinelShape, TargetName, Topology
from rlctl.topology.nodes import data_nodes, sentinel_nodes
from rlctl.topology.placement import data_hosts, sentinel_hosts, zone_of


def fleet(hosts: Sequence[HostEntry], shards: int = 3, replicas: int = 1) -> Topology:
    shape = ClusterShape(shards=shards, replicas=replicas)
    return Topology(name="limiter", kind=Kind.CLUSTER, target=TargetName.HOSTS, cluster=shape, hosts=tuple(hosts))


def watched(hosts: Sequence[HostEntry], sentinels: int = 3) -> Topology:
    shape = SentinelShape(sentinels=sentinels, quorum=sentinels // 2 + 1)
    return Topology(name="limiter", kind=Kind.SENTINEL, target=TargetName.HOSTS, sentinel=shape, hosts=tuple(hosts))


def hosts_in(*zones: str | None, nodes: int | None = None) -> list[HostEntry]:
    return [HostEntry(address=f"10.0.0.{number}", zone=zone, nodes=nodes) for number, zone in enumerate(zones, 1)]


def placed(topology: Topology) -> tuple[HostEntry, ...]:
    shards = topology.cluster.shards
    return data_hosts(topology, shards, shards * (1 + topology.cluster.replicas))


def faults(chosen: Sequence[HostEntry], shards: int) -> tuple[bool, bool, bool]:
    """Whether a replica shares the host of its primary, or its zone, and whether a zone has a majority of primaries."""
    pairs = [(chosen[index % shards], chosen[index]) for index in range(shards, len(chosen))]
    zones = Counter(host.zone for host in chosen[:shards] if host.zone is not None)
    return (
        any(one.address == other.address for one, other in pairs),
        any(zone_of(one) == zone_of(other) for one, other in pairs),
        shards > 1 and any(count > shards / 2 for count in zones.values()),
    )


def fits(chosen: Sequence[HostEntry]) -> bool:
    count = Counter(host.address for host in chosen)
    return all(host.nodes is None or count[host.address] <= host.nodes for host in chosen)


@st.composite
def small(draw: st.DrawFn) -> Topology:
    zones = st.sampled_from(["a", "b", "c", None])
    limits = st.one_of(st.none(), st.integers(0, 3))
    count = draw(st.integers(1, 4))
    hosts = [
        HostEntry(address=f"10.0.0.{number}", zone=draw(zones), nodes=draw(limits)) for number in range(1, count + 1)
    ]
    shards, replicas = draw(st.sampled_from([(1, 0), (1, 1), (1, 2), (2, 1), (3, 0), (3, 1), (2, 2)]))
    room = sum(99 if host.nodes is None else host.nodes for host in hosts)
    assume(room >= shards * (1 + replicas))
    return fleet(hosts, shards, replicas)


@settings(max_examples=400, deadline=None)
@given(small())
def test_no_placement_of_the_same_shape_keeps_more_of_the_rules(topology: Topology) -> None:
    shards = topology.cluster.shards
    nodes = shards * (1 + topology.cluster.replicas)
    chosen = placed(topology)
    assert fits(chosen)
    best = min(faults(other, shards) for other in product(topology.hosts, repeat=nodes) if fits(other))
    assert faults(chosen, shards) == best


@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 3))
def test_primaries_are_spread_evenly_where_nothing_is_limited(shards: int, count: int, replicas: int) -> None:
    chosen = placed(fleet(hosts_in(*[None] * count), shards, replicas))
    on_host = Counter({f"10.0.0.{number}": 0 for number in range(1, count + 1)})
    on_host.update(host.address for host in chosen[:shards])
    assert max(on_host.values()) - min(on_host.values()) <= 1


@given(st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=1, max_size=9), st.integers(0, 4))
def test_replicas_of_a_shard_share_nothing_where_there_are_zones_enough(zones: list[str | None], more: int) -> None:
    hosts = hosts_in(*zones)
    replicas = len({zone_of(host) for host in hosts}) - 1
    chosen = placed(fleet(hosts, 3 + more, replicas))
    for shard in range(3 + more):
        assert len({zone_of(host) for host in chosen[shard :: 3 + more]}) == replicas + 1


@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=8), st.integers(0, 3))
def test_more_replicas_only_append_where_nothing_is_limited(zones: list[str | None], replicas: int) -> None:
    hosts = hosts_in(*zones)
    few, many = placed(fleet(hosts, 4, replicas)), placed(fleet(hosts, 4, replicas + 1))
    assert many[: len(few)] == few


@settings(max_examples=300)
@given(
    st.lists(
        st.builds(
            HostEntry,
            address=st.sampled_from(["10.0.0.1", "10.0.0.2"]),
            zone=st.sampled_from(["a", "b", None]),
            nodes=st.one_of(st.none(), st.integers(1, 4)),
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 2),
)
def test_limits_are_kept_also_where_one_machine_is_named_twice(hosts: list[HostEntry], replicas: int) -> None:
    entries = [replace(host, port=22 + index) for index, host in enumerate(hosts)]
    assume(sum(99 if host.nodes is None else host.nodes for host in entries) >= 3 * (1 + replicas))
    count = Counter(placed(fleet(entries, 3, replicas)))
    assert all(host.nodes is None or count[host] <= host.nodes for host in entries)
    assert count.total() == 3 * (1 + replicas)


def test_others_make_room_where_only_they_can() -> None:
    # Three nodes on each host: the last replicas fit only if an earlier one moves.
    hosts = hosts_in("a", "a", "b", "b", nodes=3)
    chosen = placed(fleet(hosts, 4, 2))
    assert faults(chosen, 4) == (False, False, False)


def test_a_replica_that_is_placed_already_moves_where_only_that_makes_room() -> None:
    hosts = [replace(host, nodes=nodes) for host, nodes in zip(hosts_in("a", "b", "b"), (1, 4, 1), strict=True)]
    chosen = placed(fleet(hosts, 2, 1))
    assert fits(chosen)
    assert not faults(chosen, 2)[0]


@pytest.mark.parametrize("limit", [None, 10, 11])
@pytest.mark.parametrize("zones", [1, 3, 100])
def test_a_thousand_nodes_on_a_hundred_hosts_are_placed_quickly(zones: int, limit: int | None) -> None:
    hosts = hosts_in(*[f"z{number % zones}" for number in range(100)], nodes=limit)
    started = perf_counter()
    chosen = placed(fleet(hosts, 250, 3))
    assert perf_counter() - started < 10
    assert fits(chosen)
    assert faults(chosen, 250) == (False, zones == 1, zones == 1)


def test_the_same_topology_is_placed_the_same_way_and_its_nodes_name_their_hosts() -> None:
    topology = fleet([replace(host, name=f"h{host.zone}") for host in hosts_in("a", "b", "c")])
    assert [(spec.host, spec.address) for spec in data_nodes(topology)] == [
        ("ha", "10.0.0.1"),
        ("hb", "10.0.0.2"),
        ("hc", "10.0.0.3"),
        ("hb", "10.0.0.2"),
        ("hc", "10.0.0.3"),
        ("ha", "10.0.0.1"),
    ]
    assert placed(topology) == placed(replace(topology, name="other"))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=4), st.integers(1, 5))
def test_no_zone_has_most_sentinels_where_that_can_be(zones: list[str | None], count: int) -> None:
    hosts = hosts_in(*zones)

    def most(chosen: Sequence[HostEntry]) -> bool:
        return count > 1 and max(Counter(map(zone_of, chosen)).values()) > count / 2

    chosen = sentinel_hosts(watched(hosts, count))
    assert len(chosen) == count
    assert most(chosen) == min(most(other) for other in product(hosts, repeat=count))
    if not most(chosen) or count <= len(hosts):
        assert max(Counter(host.address for host in chosen).values()) <= -(-count // len({zone_of(h) for h in hosts}))


def test_a_host_that_takes_no_sentinel_has_none() -> None:
    first, *others = hosts_in("a", "b", "c", "d")
    nodes = sentinel_nodes(watched([replace(first, sentinel=False), *others]))
    assert [spec.address for spec in nodes] == [host.address for host in others]
