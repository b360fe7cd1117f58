"""The exact text of static.conf and nodes.conf of data nodes."""

from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from rlctl.observe import parse
from rlctl.observe.model import Role
from rlctl.render.redis_conf import (
    NodeFiles,
    initial_cluster_conf,
    process_title,
    replica_cluster_conf,
    static_conf,
    tunables,
)
from rlctl.render.text import quote
from rlctl.secrets import FleetSecrets, Secret, User
from rlctl.topology.model import (
    Consistency,
    DockerPlace,
    Fsync,
    LocalPlace,
    Persistence,
    PersistenceMode,
    Security,
    TargetName,
    Topology,
)
from rlctl.topology.nodes import data_nodes
from tests.unit.fleets import FLEET_ID, cluster, watched

FILES = NodeFiles(folder=PurePosixPath("/fleet/node-1"))
SECRETS = FleetSecrets(
    name="limiter",
    fleet_id=FLEET_ID,
    passwords={user: Secret(f"password-of-{user}-0000") for user in User},
    authority=None,
)
OPEN = Security(acl=False)
TLS = Security(tls=True)

CLUSTER_TEXT = """\
bind 127.0.0.1
dir /fleet/node-1
pidfile /fleet/node-1/redis.pid
logfile /fleet/node-1/redis.log
daemonize no
protected-mode no
proc-title-template "{title} {listen-addr} {server-mode} rlctl:limiter/node-1"
aclfile /fleet/node-1/users.acl
port 7001
cluster-enabled yes
cluster-config-file nodes.conf
cluster-announce-ip 127.0.0.1
cluster-port 17001
masteruser replica
masterauth password-of-replica-0000
maxmemory 268435456
maxmemory-policy noeviction
proto-max-bulk-len 8388608
appendonly yes
appendfsync everysec
save ""
min-replicas-to-write 0
min-replicas-max-lag 10
repl-diskless-sync-delay 0
cluster-node-timeout 5000
cluster-require-full-coverage no
cluster-allow-replica-migration no
"""
SENTINEL_TEXT = """\
bind 127.0.0.1
dir /fleet/node-1
pidfile /fleet/node-1/redis.pid
logfile /fleet/node-1/redis.log
daemonize no
protected-mode yes
proc-title-template "{title} {listen-addr} {server-mode} rlctl:limiter/node-1"
port 7001
maxmemory 268435456
maxmemory-policy noeviction
proto-max-bulk-len 8388608
appendonly no
appendfsync everysec
save ""
save 3600 1 300 100 60 10000
min-replicas-to-write 0
min-replicas-max-lag 10
repl-diskless-sync-delay 0
"""


def conf(topology: Topology) -> str:
    return static_conf(topology, data_nodes(topology)[1], FILES, SECRETS)


def lines(topology: Topology, prefix: str) -> list[str]:
    return [line for line in conf(topology).splitlines() if line.startswith(prefix)]


@pytest.mark.parametrize(
    ("topology", "text"),
    [
        pytest.param(cluster(), CLUSTER_TEXT, id="cluster"),
        pytest.param(
            replace(watched(mode=PersistenceMode.RDB), security=OPEN), SENTINEL_TEXT, id="sentinel, rdb, no acl"
        ),
    ],
)
def test_whole_file(topology: Topology, text: str) -> None:
    assert conf(topology) == text


def test_tls_of_a_cluster() -> None:
    topology = replace(cluster(), security=TLS)
    assert lines(topology, "port") == ["port 0"]
    assert lines(topology, "tls-") == [
        "tls-port 7001",
        "tls-cert-file /fleet/node-1/tls.crt",
        "tls-key-file /fleet/node-1/tls.key",
        "tls-ca-cert-file /fleet/node-1/ca.crt",
        "tls-auth-clients optional",
        "tls-replication yes",
        "tls-cluster yes",
    ]


def test_tls_of_a_sentinel_fleet_has_no_bus() -> None:
    assert "tls-cluster yes" not in conf(replace(watched(), security=TLS))
    assert "tls-replication yes" in conf(replace(watched(), security=TLS))


@pytest.mark.parametrize("kind", [cluster, watched], ids=["cluster", "sentinel"])
def test_without_acl_no_password_and_no_users(kind: object) -> None:
    text = conf(replace(cluster() if kind is cluster else watched(), security=OPEN))
    assert "password" not in text
    assert "aclfile" not in text
    assert "protected-mode yes" in text


@pytest.mark.parametrize(
    ("persistence", "expected"),
    [
        pytest.param(Persistence(), ["appendonly yes", "appendfsync everysec", 'save ""'], id="aof"),
        pytest.param(
            Persistence(fsync=Fsync.ALWAYS), ["appendonly yes", "appendfsync always", 'save ""'], id="aof, always"
        ),
        pytest.param(
            Persistence(mode=PersistenceMode.RDB),
            ["appendonly no", "appendfsync everysec", 'save ""', "save 3600 1 300 100 60 10000"],
            id="rdb",
        ),
        pytest.param(
            Persistence(mode=PersistenceMode.NONE), ["appendonly no", "appendfsync everysec", 'save ""'], id="none"
        ),
    ],
)
def test_persistence(persistence: Persistence, expected: list[str]) -> None:
    text = conf(replace(cluster(), persistence=persistence))
    assert [line for line in text.splitlines() if line.startswith(("append", "save"))] == expected


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        pytest.param("hz", "20", "hz 20", id="a number"),
        pytest.param("notify-keyspace-events", "", 'notify-keyspace-events ""', id="empty"),
        pytest.param(
            "client-output-buffer-limit",
            "replica 256mb 64mb 60",
            "client-output-buffer-limit replica 256mb 64mb 60",
            id="several words",
        ),
        pytest.param("repl-diskless-sync-delay", "1", "repl-diskless-sync-delay 1", id="a default of ours"),
    ],
)
def test_further_directives(name: str, value: str, line: str) -> None:
    assert lines(replace(cluster(), redis=((name, value),)), f"{name} ") == [line]


def test_min_replicas_are_counted_in_seconds() -> None:
    topology = replace(cluster(), consistency=Consistency(min_replicas=1, max_lag_ms=2_000))
    assert lines(topology, "min-replicas") == ["min-replicas-to-write 1", "min-replicas-max-lag 2"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(TargetName.LOCAL, ["bind 127.77.0.2", "bind-source-addr 127.77.0.2"], id="local"),
        pytest.param(TargetName.DOCKER, ["bind 172.16.0.3"], id="docker has addresses anyway"),
    ],
)
def test_spread_nodes_speak_from_their_own_address(target: TargetName, expected: list[str]) -> None:
    topology = replace(
        cluster(), target=target, local=LocalPlace(spread=True), docker=DockerPlace(subnet="172.16.0.0/24")
    )
    assert lines(topology, "bind") == expected


def test_a_folder_with_spaces_is_quoted() -> None:
    files = NodeFiles(folder=PurePosixPath('/my "fleets"/node-1'))
    text = static_conf(cluster(), data_nodes(cluster())[1], files, SECRETS)
    assert r'dir "/my \"fleets\"/node-1"' in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("plain-1.0/x:y", "plain-1.0/x:y", id="plain"),
        pytest.param("", '""', id="empty"),
        pytest.param("two words", '"two words"', id="space"),
        pytest.param('say "x"', r'"say \"x\""', id="quotes"),
        pytest.param("back\\slash", r'"back\\slash"', id="backslash"),
    ],
)
def test_quote(value: str, text: str) -> None:
    assert quote(value) == text


def test_tunables_of_a_sentinel_fleet_know_no_cluster() -> None:
    assert not [name for name in tunables(watched()) if name.startswith("cluster-")]


def test_the_first_table_names_only_the_node_itself() -> None:
    assert initial_cluster_conf("ab" * 20) == (
        f"{'ab' * 20} :0@0 myself,master - 0 0 0 connected\nvars currentEpoch 0 lastVoteEpoch 0\n"
    )


def test_a_replica_that_lost_its_table_knows_whom_it_follows() -> None:
    leader, spec = data_nodes(cluster())[0], data_nodes(cluster())[3]
    text = replica_cluster_conf("a" * 40, spec, "b" * 40, leader)
    assert text == (
        f"{'a' * 40} 127.0.0.1:7003@17003 myself,slave {'b' * 40} 0 0 0 connected\n"
        f"{'b' * 40} 127.0.0.1:7000@17000 master - 0 0 0 connected\n"
        "vars currentEpoch 0 lastVoteEpoch 0\n"
    )
    own, other = parse.table(text)
    assert (own.role, own.follows, other.id, other.slots) == (Role.REPLICA, other.id, "b" * 40, ())
    assert parse.myself(text) == own.id


def test_a_process_is_named_after_fleet_and_node() -> None:
    assert process_title("limiter", "node-1") == "rlctl:limiter/node-1"


def test_files_are_all_in_the_nodes_own_folder() -> None:
    names = (
        "node_conf",
        "static_conf",
        "sentinel_conf",
        "cluster_conf",
        "acl",
        "pid",
        "log",
        "certificate",
        "key",
        "ca",
    )
    paths = [getattr(FILES, name) for name in names]
    assert {path.parent for path in paths} == {FILES.folder}
    assert len(set(paths)) == len(paths)
