"""The exact text of static.conf and the initial sentinel.conf of sentinels."""

from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from rlctl.render.redis_conf import NodeFiles
from rlctl.render.sentinel_conf import InitialMonitor, initial_sentinel_conf, sentinel_login, sentinel_static_conf
from rlctl.secrets import FleetSecrets, Secret, User
from rlctl.topology.model import Security, SentinelShape, Topology
from rlctl.topology.nodes import data_nodes, sentinel_nodes
from tests.unit.fleets import FLEET_ID, id_of, watched

FILES = NodeFiles(folder=PurePosixPath("/fleet/sentinel-0"))
SECRETS = FleetSecrets(
    name="limiter",
    fleet_id=FLEET_ID,
    passwords={user: Secret(f"password-of-{user}-0000") for user in User},
    authority=None,
)
STATIC = """\
bind 127.0.0.1
dir /fleet/sentinel-0
pidfile /fleet/sentinel-0/redis.pid
logfile /fleet/sentinel-0/redis.log
daemonize no
protected-mode no
proc-title-template "{title} {listen-addr} {server-mode} rlctl:limiter/sentinel-0"
aclfile /fleet/sentinel-0/users.acl
port 8000
sentinel sentinel-user sentinel
sentinel sentinel-pass password-of-sentinel-0000
"""
FIRST = f"""\
sentinel myid {id_of("sentinel-0")}
sentinel monitor limiter 127.0.0.1 7000 2
sentinel down-after-milliseconds limiter 5000
sentinel failover-timeout limiter 30000
sentinel parallel-syncs limiter 1
sentinel auth-user limiter sentinel
sentinel auth-pass limiter password-of-sentinel-0000
sentinel known-replica limiter 127.0.0.1 7001
sentinel known-sentinel limiter 127.0.0.1 8001 {id_of("sentinel-1")}
"""


def first(topology: Topology) -> str:
    primary, *replicas = data_nodes(topology)
    peer = sentinel_nodes(topology)[1]
    monitor = InitialMonitor(primary=primary, replicas=replicas, peers=[(peer, id_of(peer.name))])
    return initial_sentinel_conf(topology, id_of("sentinel-0"), monitor, SECRETS)


def static(topology: Topology) -> str:
    return sentinel_static_conf(topology, sentinel_nodes(topology)[0], FILES, SECRETS)


def test_static() -> None:
    assert static(watched(1, 2)) == STATIC


def test_first() -> None:
    assert first(watched(1, 2)) == FIRST


def test_without_acl_there_is_no_login() -> None:
    topology = replace(watched(1, 2), security=Security(acl=False))
    assert "password" not in static(topology) + first(topology)
    assert "auth-user" not in first(topology)
    assert "protected-mode yes" in static(topology)


def test_tls_is_for_replication_links_too() -> None:
    """Sentinel uses tls-replication for its own connections."""
    text = static(replace(watched(), security=Security(tls=True)))
    assert "port 0\ntls-port 8000\n" in text
    assert "tls-replication yes\n" in text


@pytest.mark.parametrize(
    ("shape", "line"),
    [
        pytest.param(SentinelShape(quorum=1), "sentinel monitor limiter 127.0.0.1 7000 1", id="quorum"),
        pytest.param(SentinelShape(down_after_ms=900), "sentinel down-after-milliseconds limiter 900", id="down after"),
        pytest.param(SentinelShape(failover_timeout_ms=9), "sentinel failover-timeout limiter 9", id="timeout"),
    ],
)
def test_timers(shape: SentinelShape, line: str) -> None:
    assert line in first(replace(watched(), sentinel=shape)).splitlines()


def test_a_sentinel_logs_in_as_itself() -> None:
    assert sentinel_login(SECRETS) == (("auth-user", "sentinel"), ("auth-pass", "password-of-sentinel-0000"))
