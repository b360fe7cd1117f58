"""INFO, and what two of them say about the time to full."""

from dataclasses import replace

import pytest

from rlctl.capacity.request import ServerVersion
from rlctl.capacity.server_memory import ServerMemory, forecast, server_memory
from rlctl.observe.info import ServerInfo
from rlctl.topology.model import EvictionPolicy
from rlctl.topology.nodes import NodeName

INFO = """\
# ServerVersion
redis_version:7.0.15
run_id:abc
uptime_in_seconds:1000
# Memory
used_memory:50000000
used_memory_rss:60000000
used_memory_startup:1000000
maxmemory:100000000
maxmemory_policy:noeviction
mem_clients_normal:20000
mem_total_replication_buffers:980000
mem_not_counted_for_evict:1000000
# Stats
expired_stale_perc:12.50
# Replication
role:master
# Keyspace
db0:keys=70,expires=70,avg_ttl=1
"""
A, B = NodeName("a"), NodeName("b")


def memory_of(text: str, at_s: float = 0.0) -> ServerMemory:
    return server_memory(ServerInfo(text), "", at_s)


def reading(at_s: float = 0.0, **changes: object) -> ServerMemory:
    return replace(memory_of(INFO, at_s), **changes)  # type: ignore[arg-type]


def test_a_primary_tells_all() -> None:
    one = memory_of(INFO, 5.0)
    assert (one.server, one.version, one.keys, one.is_primary) == (ServerVersion.REDIS_7_0, "redis-7.0.15", 70, True)
    assert one.headroom_bytes == 51_000_000
    assert one.fragmentation == pytest.approx(1.2)
    assert one.stale_share == pytest.approx(0.125)
    assert one.policy is EvictionPolicy.NOEVICTION
    assert one.state_bytes == 49_000_000
    assert one.allocator is None


def test_what_a_server_does_not_tell_is_nothing() -> None:
    """A server before 7.2, or a module of another vendor, leaves lines out."""
    kept = ("redis_version", "used_memory:", "# Keyspace", "db0")
    one = memory_of("".join(f"{line}\n" for line in INFO.splitlines() if line.startswith(kept)))
    assert (one.state_bytes, one.used_bytes, one.counted_bytes) == (50_000_000, 50_000_000, 50_000_000)
    assert (one.rss_bytes, one.maxmemory_bytes, one.uptime_s, one.grstate_bytes) == (None, 0, 0, None)
    assert (one.policy, one.stale_share, one.is_primary, one.run_id) == (None, None, False, "")


def test_growth_is_what_the_state_takes() -> None:
    assert memory_of(INFO).grstate_bytes == 48_000_000
    assert memory_of(INFO.replace("startup:1000000", "startup:90000000")).grstate_bytes == 0


def test_a_replica_does_not_know_what_is_stale() -> None:
    assert memory_of(INFO.replace("role:master", "role:slave")).stale_share is None


def test_without_maxmemory_there_is_no_headroom() -> None:
    assert memory_of(INFO.replace("maxmemory:100000000", "maxmemory:0")).headroom_bytes is None


@pytest.mark.parametrize(
    ("lines", "server"),
    [
        ("redis_version:7.2.4\nvalkey_version:8.1.1", ServerVersion.VALKEY_8_1),
        ("redis_version:8.0.2", ServerVersion.REDIS_8_0),
        ("redis_version:7.2.4", None),
        ("redis_version:7.2.4\nvalkey_version:9.0.0", None),
    ],
)
def test_a_family_is_known_or_not(lines: str, server: ServerVersion | None) -> None:
    assert memory_of(INFO.replace("redis_version:7.0.15", lines)).server is server


def test_growth_fills_the_first_shard_first() -> None:
    series = {
        A: [reading(0.0), reading(10.0, state_bytes=50_000_000)],
        B: [reading(0.0), reading(10.0, state_bytes=51_000_000)],
    }
    found = forecast(series)
    assert found is not None
    assert found.bytes_per_s == pytest.approx(300_000)
    assert found.full_in_s == pytest.approx(51_000_000 / 200_000)
    assert found.source == "samples"


def test_a_fleet_that_does_not_grow_is_never_full() -> None:
    found = forecast({A: [reading(0.0), reading(10.0, state_bytes=48_000_000)]})
    assert found is not None
    assert found.bytes_per_s < 0
    assert found.full_in_s is None


def test_housekeeping_is_no_growth() -> None:
    found = forecast({A: [reading(0.0), reading(10.0, state_bytes=49_060_000)]})
    assert found is not None
    assert (found.bytes_per_s, found.full_in_s) == (0, None)


@pytest.mark.parametrize(
    "readings",
    [
        pytest.param([reading(0.0)], id="one reading"),
        pytest.param([reading(0.0), reading(10.0, run_id="def")], id="restarted"),
        pytest.param([reading(0.0), reading(10.0, is_primary=False)], id="no primary any more"),
    ],
)
def test_else_the_growth_since_the_start_speaks(readings: list[ServerMemory]) -> None:
    found = forecast({A: readings})
    assert found is not None
    assert found.source == "uptime"
    assert found.bytes_per_s == pytest.approx(48_000)


def test_where_nothing_is_known_nothing_is_said() -> None:
    assert forecast({}) is None
    assert forecast({A: [reading(0.0, grstate_bytes=None)]}) is None
