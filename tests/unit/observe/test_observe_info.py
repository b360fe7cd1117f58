"""INFO and CLUSTER INFO as real servers answer, with missing fields, and with values that are none."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.observe.info import ClusterInfo, CommandStats, ServerInfo, cluster_info
from rlctl.observe.model import ReplicationLink, Role
from rlctl.observe.parse import BadReply, required

DATA = Path(__file__).parents[2] / "data"
PROPERTIES = {name: part.fget for name, part in vars(ServerInfo).items() if isinstance(part, property) and part.fget}
# These need no number, and are BadReply or a default where the field is missing.
WORDS = {"flavor", "version", "run_id", "is_loading", "role", "link", "keys", "eviction_policy"}
LONG = "9" * 5_000


def read(name: str) -> ServerInfo:
    return ServerInfo((DATA / name).read_text(encoding="utf-8"))


def test_a_primary() -> None:
    info = read("info-primary.txt")
    assert (info.role, info.link, info.primary_address, info.is_loading) == (
        Role.PRIMARY,
        ReplicationLink.NONE,
        None,
        False,
    )
    assert (info.flavor, info.version, info.keys) == ("redis", "7.0.15", 2)
    assert info.offset == info.written_offset


def test_a_replica() -> None:
    info = read("info-replica.txt")
    assert (info.role, info.link, info.keys) == (Role.REPLICA, ReplicationLink.UP, 2)
    assert info.primary_address == ("127.0.0.1", 21_102)
    assert info.offset == info.received_offset


def test_a_replica_that_never_reached_its_primary_has_no_offset() -> None:
    info = read("info-replica-never-linked.txt")
    assert (info.link, info.link_down_s, info.offset) == (ReplicationLink.DOWN, -1, None)


def test_values_may_hold_colons_and_lines_may_be_odd() -> None:
    info = ServerInfo("# Server\r\nmaxmemory_policy:a:b\r\n\r\nodd line\r\nrun_id:\r\n")
    assert (info.eviction_policy, info.run_id) == ("a:b", "")


@pytest.mark.parametrize(
    ("text", "family"),
    [
        pytest.param("redis_version:7.0.15", ("redis", "7.0.15"), id="redis"),
        pytest.param(
            "redis_version:7.2.4\nserver_name:valkey\nvalkey_version:8.0.1",
            ("valkey", "8.0.1"),
            id="valkey names the redis version it is compatible with",
        ),
    ],
)
def test_flavor_and_version(text: str, family: tuple[str, str]) -> None:
    info = ServerInfo(text)
    assert (info.flavor, info.version) == family


@pytest.mark.parametrize(
    ("keyspace", "count"),
    [
        pytest.param("# Keyspace", 0, id="empty"),
        pytest.param("db0:keys=2,expires=1,avg_ttl=999", 2, id="one database"),
        pytest.param("db0:keys=2,expires=1,avg_ttl=9,subexpiry=0\ndb9:keys=40,expires=0,avg_ttl=0", 42, id="two"),
    ],
)
def test_keys(keyspace: str, count: int) -> None:
    assert ServerInfo(keyspace).keys == count


@pytest.mark.parametrize(
    ("text", "tilt_s"),
    [
        pytest.param("sentinel_masters:1\r\nsentinel_tilt:0\r\nsentinel_tilt_since_seconds:-1\r\n", None, id="none"),
        pytest.param("sentinel_tilt:1\r\nsentinel_tilt_since_seconds:7\r\n", 7, id="since 7 s"),
        pytest.param("sentinel_tilt:1\r\n", 0, id="a server that does not say since when"),
        pytest.param("sentinel_tilt:1\r\nsentinel_tilt_since_seconds:-9\r\n", 0, id="a clock that was set back"),
        pytest.param("redis_version:7.0.15\r\n", None, id="not reported"),
    ],
)
def test_tilt(text: str, tilt_s: int | None) -> None:
    assert ServerInfo(text).tilt_s == tilt_s


def test_a_time_in_tilt_that_is_no_number() -> None:
    with pytest.raises(BadReply, match="not a number"):
        _ = ServerInfo("sentinel_tilt:1\nsentinel_tilt_since_seconds:long").tilt_s


def test_command_statistics() -> None:
    line = "cmdstat_evalsha:calls=7,usec=21,usec_per_call=3.00,rejected_calls=2,failed_calls=1\r\n"
    info = ServerInfo(f"# Commandstats\r\n{line}cmdstat_config|get:calls=1,usec=5\r\n")
    assert info.command("evalsha") == CommandStats(calls=7, failed=1, rejected=2, usec=21)
    assert info.command("config|get") == CommandStats(calls=1, usec=5)
    assert info.command("eval") == CommandStats()


def test_processor_time() -> None:
    info = ServerInfo("used_cpu_sys:1.5\nused_cpu_user:2.25\nused_cpu_sys_main_thread:0.5\n")
    assert (info.cpu_s, info.main_thread_cpu_s) == (3.75, None)


def test_cluster_info() -> None:
    text = (DATA / "cluster-info.txt").read_text(encoding="utf-8")
    assert cluster_info(text) == ClusterInfo(is_ok=True, slots_assigned=16_384, known_nodes=6)
    assert cluster_info("cluster_state:fail") == ClusterInfo(is_ok=False, slots_assigned=0, known_nodes=0)


@pytest.mark.parametrize("name", sorted(set(PROPERTIES) - WORDS))
def test_a_missing_number_is_none(name: str) -> None:
    assert getattr(ServerInfo("# Nothing"), name) is None


def test_a_missing_version_is_no_version() -> None:
    with pytest.raises(BadReply, match="not the version of a server"):
        _ = ServerInfo("").version


@pytest.mark.parametrize("value", ["", "-", "x", "\u00b2", LONG, "1e9", "nan", "0x1f", "1.2.3"])
@pytest.mark.parametrize(
    "read",
    [
        lambda value: ServerInfo(f"used_memory:{value}").used_bytes,
        lambda value: ServerInfo(f"expired_stale_perc:{value}").expired_stale_percent,
        lambda value: ServerInfo(f"used_cpu_sys:{value}\nused_cpu_user:1").cpu_s,
        lambda value: ServerInfo(f"db0:keys={value}").keys,
        lambda value: ServerInfo(f"cmdstat_get:calls={value}").command("get"),
        lambda value: ServerInfo(f"role:slave\nmaster_port:{value}").primary_address,
        lambda value: cluster_info(f"cluster_known_nodes:{value}"),
    ],
)
def test_a_malformed_number_is_refused_in_few_words(read: Callable[[str], object], value: str) -> None:
    with pytest.raises(BadReply) as raised:
        read(value)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("reply", [None, 7, [], ["role:master"], "x" * (5 << 20)], ids=lambda reply: repr(reply)[:12])
def test_only_a_text_of_reasonable_length_is_an_answer(reply: object) -> None:
    for parse in (ServerInfo, cluster_info):
        with pytest.raises(BadReply):
            parse(reply)


@given(st.text(alphabet=st.sampled_from("0123456789abdkeys=: ,.-\n\x00\u00b2")))
def test_any_text_is_read_or_refused(text: str) -> None:
    info = ServerInfo(text)
    for read in PROPERTIES.values():
        with suppress(BadReply):
            read(info)


def test_a_required_value() -> None:
    assert required(0, "used_memory") == 0
    with pytest.raises(BadReply, match="a field is missing: 'used_memory'"):
        required(None, "used_memory")
