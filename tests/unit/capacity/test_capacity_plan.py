"""From users to memory, and back."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlctl.capacity.plan import Mix, Reserve, on_shards, plan, shards_for
from rlctl.topology.model import MIB
from tests.unit.capacity.asked import STATES, ask

GIB = 1024 * MIB
PARTS = ("data", "table_doubling", "fragmentation", "copy_on_write", "replication_backlog", "client_buffers")
ALL_PARTS = (*PARTS, "cluster_slots", "baseline")


def mix(*lines: dict[str, Any], **more: object) -> Mix:
    return Mix(requests=tuple(ask(**line, **more) for line in lines), states=STATES)


COUNTERS: dict[str, Any] = {"algorithm": "sliding_counter", "users": 10_000_000}
LOGS: dict[str, Any] = {"algorithm": "rolling_window", "users": 100_000, "limit": 100}


def test_a_total_is_the_sum_of_its_parts() -> None:
    document: dict[str, Any] = plan(mix(COUNTERS, LOGS), Reserve(), shards=4, ram=None).to_json()
    for shard in (document["per_shard"], document["after_losing_one"]):
        assert shard["total"] == sum(shard[name] for name in ALL_PARTS)
        assert shard.keys() == {"users", "total", *ALL_PARTS}
    assert document["servers"] == 8
    assert document["fits"] is document["users_that_fit"] is None


def test_maxmemory_leaves_out_what_the_server_does_not_count() -> None:
    found = plan(mix(COUNTERS), Reserve(), shards=4, ram=None)
    worst = found.after_losing_one
    assert worst is not None
    counted = worst.total - worst.fragmentation - worst.copy_on_write
    assert counted <= worst.maxmemory < counted + MIB
    assert worst.maxmemory % MIB == 0


def test_losing_one_puts_its_users_on_the_others() -> None:
    found = plan(mix(COUNTERS), Reserve(), shards=4, ram=None)
    three = plan(mix(COUNTERS), Reserve(), shards=3, ram=None)
    assert found.after_losing_one == three.per_shard
    assert plan(mix(COUNTERS), Reserve(), shards=1, ram=None).after_losing_one is None


def test_logs_are_copied_whole_and_counters_by_a_quarter() -> None:
    logs = plan(mix(LOGS), Reserve(), shards=1, ram=None).per_shard
    counters = plan(mix(COUNTERS), Reserve(), shards=1, ram=None).per_shard
    assert logs.copy_on_write == logs.data
    assert counters.copy_on_write == pytest.approx(counters.data / 4, abs=1)


def test_stale_keys_clients_and_backlog_are_added() -> None:
    bare = plan(mix(COUNTERS), Reserve(), shards=2, ram=None).per_shard
    more = plan(
        mix(COUNTERS), Reserve(stale=0.5, clients=7, client_bytes=11, backlog_bytes=13), shards=2, ram=None
    ).per_shard
    assert more.data == pytest.approx(1.5 * bare.data, abs=2)
    assert (more.client_buffers, more.replication_backlog) == (77, 13)
    assert plan(mix(COUNTERS), Reserve(replicas=0), shards=2, ram=None).per_shard.replication_backlog == 0


def test_a_doubling_needs_the_arrays_of_the_next_size() -> None:
    found = plan(mix(COUNTERS, server="redis-7.0"), Reserve(), shards=1, ram=None).per_shard
    # Ten million keys lie in two arrays of 2^24 places; the next ones have 2^25.
    assert found.table_doubling == 2 * 8 * 2**25


def test_slots_are_counted_once_for_all_rules() -> None:
    one = plan(mix(COUNTERS, cluster=True), Reserve(), shards=3, ram=None).per_shard
    many = [COUNTERS | {"users": 2_500_000}] * 4
    four = plan(mix(*many, cluster=True), Reserve(), shards=3, ram=None).per_shard
    assert four.cluster_slots == pytest.approx(one.cluster_slots, rel=0.01)
    assert four.data == pytest.approx(one.data, rel=0.01)
    # 2.6 KB for each of 5462 slots, all of them in use.
    assert one.cluster_slots == pytest.approx(5462 * 2640, rel=0.01)


@pytest.mark.parametrize("ram", [200 * MIB, GIB, 64 * GIB])
def test_as_few_shards_as_fit_and_no_fewer(ram: int) -> None:
    asked = mix(COUNTERS, LOGS)
    found = plan(asked, Reserve(), shards=None, ram=ram)
    assert found.fits is True
    if found.shards > 1:
        assert plan(asked, Reserve(), shards=found.shards - 1, ram=ram).fits is False


def test_what_does_not_fit_names_the_changes_that_would() -> None:
    asked = mix(COUNTERS)
    found = plan(asked, Reserve(), shards=3, ram=300 * MIB)
    assert found.fits is False
    more, ram, users = found.changes
    assert plan(asked, Reserve(), shards=int(more.split()[1]), ram=300 * MIB).fits is True
    assert plan(asked, Reserve(), shards=3, ram=int(ram.split()[1].removesuffix("mb")) * MIB).fits is True
    assert int(users.split()[0]) == found.users_that_fit


def test_where_no_number_of_shards_helps_it_says_so() -> None:
    asked = mix(COUNTERS)
    assert shards_for(asked, Reserve(), 8 * MIB, least=1) is None
    found = plan(asked, Reserve(), shards=None, ram=8 * MIB)
    assert (found.fits, found.users_that_fit) == (False, 0)
    assert [change.split()[0] for change in found.changes] == ["--ram"]


@settings(max_examples=40)
@given(st.integers(1, 30), st.integers(100, 4_000))
def test_the_users_that_fit_do_fit_and_one_more_does_not(shards: int, ram_mb: int) -> None:
    asked = mix(COUNTERS)
    most = plan(asked, Reserve(), shards=shards, ram=ram_mb * MIB).users_that_fit
    assert most is not None
    for users, fits in ((most, True), (most + 1, False)):
        if users:
            again = plan(mix(COUNTERS | {"users": users}), Reserve(), shards=shards, ram=ram_mb * MIB)
            assert again.fits is fits


@settings(max_examples=60)
@given(st.integers(1, 50_000_000), st.integers(1, 20_000_000), st.integers(1, 40), st.booleans())
def test_more_users_never_need_less(users: int, more: int, shards: int, cluster: bool) -> None:  # noqa: FBT001
    before, after = (
        plan(mix(COUNTERS | {"users": count}, cluster=cluster), Reserve(), shards=shards, ram=None).worst.total
        for count in (users, users + more)
    )
    assert after >= before * (1 - 1e-5)


def test_items_tell_the_fleets_users() -> None:
    document: dict[str, Any] = plan(mix(COUNTERS, LOGS), Reserve(), shards=4, ram=None).to_json()
    assert [item["users"] for item in document["items"]] == [10_000_000, 100_000]
    data = sum(item["total_bytes"] for item in document["items"]) / 4
    assert document["per_shard"]["data"] == pytest.approx(data, rel=0.001)


def test_on_other_shards_the_same_users_need_what_a_plan_for_them_says() -> None:
    found, three = (plan(mix(COUNTERS), Reserve(), shards=count, ram=None) for count in (7, 3))
    needs = f"maxmemory {three.worst.maxmemory // MIB}mb on servers of {three.ram // MIB}mb"
    assert on_shards(found, 3) == (f"--shards 3 holds these {COUNTERS['users']} users with {needs}",)
    fitting = plan(mix(COUNTERS), Reserve(), shards=None, ram=GIB)
    assert fitting.fits
    tight = plan(mix(COUNTERS), Reserve(), shards=3, ram=GIB)
    assert on_shards(fitting, 3)[1:] == (f"3 shards on servers of 1024mb hold {tight.users_that_fit} users",)
    assert len(on_shards(fitting, fitting.shards)) == 1
