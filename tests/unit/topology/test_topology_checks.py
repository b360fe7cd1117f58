from dataclasses import replace
from typing import Any

import pytest

from rlctl.topology.advice import warnings
from rlctl.topology.checks import check
from rlctl.topology.directives import OWNED
from rlctl.topology.model import (
    ClusterShape,
    Consistency,
    DockerPlace,
    Engine,
    EvictionPolicy,
    Flavor,
    HostEntry,
    Kind,
    LocalPlace,
    Memory,
    Persistence,
    PersistenceMode,
    Security,
    SentinelShape,
    TargetName,
    Topology,
)

CLUSTER = Topology(name="limiter", kind=Kind.CLUSTER, target=TargetName.LOCAL)
SENTINEL = replace(CLUSTER, kind=Kind.SENTINEL)
DOCKER = replace(CLUSTER, target=TargetName.DOCKER)
HOSTS = replace(CLUSTER, target=TargetName.HOSTS)


def hosts(*entries: dict[str, Any]) -> tuple[HostEntry, ...]:
    return tuple(HostEntry(**{"address": f"10.0.0.{index}", **entry}) for index, entry in enumerate(entries, 1))


POSSIBLE = [
    pytest.param(CLUSTER, id="default-cluster"),
    pytest.param(SENTINEL, id="default-sentinel"),
    pytest.param(DOCKER, id="default-docker"),
    pytest.param(replace(HOSTS, hosts=hosts({})), id="one-host"),
    pytest.param(replace(CLUSTER, cluster=ClusterShape(shards=500, replicas=1)), id="1000-nodes"),
    pytest.param(replace(CLUSTER, local=LocalPlace(base_port=55_530)), id="last-base-port"),
    pytest.param(replace(SENTINEL, local=LocalPlace(base_port=64_533)), id="last-sentinel-base-port"),
    pytest.param(replace(SENTINEL, sentinel=SentinelShape(sentinels=1, quorum=1)), id="one-sentinel"),
    pytest.param(replace(SENTINEL, consistency=Consistency(min_replicas=2)), id="all-replicas"),
    pytest.param(
        replace(CLUSTER, security=Security(acl=False), local=LocalPlace(address="127.9.9.9")),
        id="open-loopback",
    ),
    pytest.param(replace(CLUSTER, local=LocalPlace(spread=True)), id="spread"),
    pytest.param(
        replace(CLUSTER, security=Security(acl=False), local=LocalPlace(spread=True)),
        id="open-spread",
    ),
    pytest.param(replace(CLUSTER, engine=Engine(flavor=Flavor.VALKEY)), id="the-image-of-another-target"),
    pytest.param(replace(CLUSTER, engine=Engine(version="7")), id="any-seven"),
    pytest.param(
        replace(DOCKER, engine=Engine(version="8.0.2"), docker=DockerPlace(image="redis:8.0")),
        id="prefix-of-tag",
    ),
    pytest.param(
        replace(DOCKER, engine=Engine(version="8"), docker=DockerPlace(image="bitnami/redis:8.0.1-debian-12")),
        id="prefix-of-version",
    ),
    pytest.param(
        replace(DOCKER, engine=Engine(version="8.0"), docker=DockerPlace(image="acme/our-redis:1.2")),
        id="a-tag-that-is-not-the-server's-version",
    ),
    pytest.param(replace(DOCKER, docker=DockerPlace(image="redis:latest")), id="latest"),
    pytest.param(replace(DOCKER, docker=DockerPlace(image=f"acme/cache@sha256:{'a' * 64}")), id="digest"),
    pytest.param(
        replace(DOCKER, engine=Engine(flavor=Flavor.VALKEY), docker=DockerPlace(image="redis-team/valkey:8.1")),
        id="only-the-last-part-names-the-flavor",
    ),
    pytest.param(replace(DOCKER, docker=DockerPlace(subnet="172.31.255.240/28")), id="small-subnet"),
    pytest.param(
        replace(HOSTS, hosts=hosts({"address": "10.0.0.1"}, {"address": "10.0.0.1", "port": 23, "name": "b"})),
        id="two-ssh-ports-of-one-address",
    ),
    pytest.param(
        replace(
            HOSTS,
            hosts=hosts({"address": "10.0.0.1"}, {"address": "10.0.0.1", "port": 23, "name": "b", "base_port": 8_000}),
        ),
        id="base-ports-far-apart",
    ),
    pytest.param(replace(HOSTS, hosts=hosts({"nodes": 1}, {})), id="a-host-without-limit"),
]


@pytest.mark.parametrize("topology", POSSIBLE)
def test_possible(topology: Topology) -> None:
    assert check(topology) == ()


def shaped(**shape: int) -> Topology:
    return replace(CLUSTER, cluster=ClusterShape(**shape))


def watched(**shape: int) -> Topology:
    return replace(SENTINEL, sentinel=SentinelShape(**shape))


def placed(address: str = "127.0.0.1", base_port: int = 7_000) -> Topology:
    return replace(CLUSTER, local=LocalPlace(address=address, base_port=base_port))


def dockered(image: str = "redis:8.0", subnet: str = "auto", version: str | None = None) -> Topology:
    return replace(DOCKER, docker=DockerPlace(image=image, subnet=subnet), engine=Engine(version=version))


def on_hosts(*entries: dict[str, Any], base: Topology = HOSTS) -> Topology:
    return replace(base, target=TargetName.HOSTS, hosts=hosts(*entries))


NO_ADDRESS = "write an address such as 10.0.0.11, not a host name"
NO_NETWORK = "write auto, or a network such as 172.28.0.0/24"
LABEL = "write up to 63 letters, digits, dots, dashes or underscores"

IMPOSSIBLE = [
    ("two-shards", shaped(shards=2), "cluster.shards: 2 is out of range; write 3 to 1000"),
    ("no-replicas-below-zero", shaped(replicas=-1), "cluster.replicas: -1 is out of range; write 0 to 100"),
    (
        "too-many-nodes",
        shaped(shards=500, replicas=2),
        ("cluster.shards: 500 shards with 2 replicas each are 1500 nodes; write fewer, a fleet has at most 1000 nodes"),
    ),
    ("absurd", shaped(shards=10**15), "cluster.shards: 1000000000000000 is out of range; write 3 to 1000"),
    (
        "fast-timeout",
        shaped(node_timeout_ms=99),
        "cluster.node_timeout: 99ms is out of range; write 100ms to 10m",
    ),
    (
        "slow-timeout",
        shaped(node_timeout_ms=600_001),
        "cluster.node_timeout: 600001ms is out of range; write 100ms to 10m",
    ),
    ("sentinel-without-replica", watched(replicas=0), "sentinel.replicas: 0 is out of range; write 1 to 800"),
    ("no-sentinel", watched(sentinels=0), "sentinel.sentinels: 0 is out of range; write 1 to 99"),
    ("no-quorum", watched(quorum=0), "sentinel.quorum: 0 is out of range; write 1 to 99"),
    (
        "quorum",
        watched(sentinels=5, quorum=6),
        "sentinel.quorum: 6 is more than the 5 sentinels of the fleet; write at most 5, best 3",
    ),
    (
        "failover-timeout",
        watched(failover_timeout_ms=999),
        "sentinel.failover_timeout: 999ms is out of range; write 1s to 1h",
    ),
    (
        "min-replicas",
        replace(CLUSTER, consistency=Consistency(min_replicas=2)),
        "consistency.min_replicas: 2 would refuse every write, since cluster.replicas is 1; write at most 1",
    ),
    (
        "min-replicas-sentinel",
        replace(SENTINEL, consistency=Consistency(min_replicas=3)),
        "consistency.min_replicas: 3 would refuse every write, since sentinel.replicas is 2; write at most 2",
    ),
    (
        "lag-in-parts",
        replace(CLUSTER, consistency=Consistency(max_lag_ms=1_500)),
        "consistency.max_lag: 1500ms is not whole seconds, the unit of Redis; write a value such as 2s",
    ),
    (
        "lag-too-short",
        replace(CLUSTER, consistency=Consistency(max_lag_ms=500)),
        "consistency.max_lag: 500ms is out of range; write 1s to 1h",
    ),
    (
        "little-memory",
        replace(CLUSTER, memory=Memory(maxmemory_bytes=2**20)),
        "memory.maxmemory: 1mb is out of range; write 8mb to 4096gb (an empty node takes megabytes)",
    ),
    (
        "privileged",
        placed(base_port=80),
        "local.base_port: 80 is out of range; write 1024 to 65535 (lower ports need root)",
    ),
    (
        "bus",
        placed(base_port=55_531),
        "local.base_port: from 55531, the last port of the cluster bus is 65536, above 65535; write at most 55530",
    ),
    (
        "sentinel-ports",
        replace(placed(base_port=65_000), kind=Kind.SENTINEL),
        "local.base_port: from 65000, the last port of the sentinels is 66002, above 65535; write at most 64533",
    ),
    (
        "host-ports",
        on_hosts({"base_port": 60_000}),
        ("hosts[0].base_port: from 60000, the last port of the cluster bus is 70005, above 65535; write at most 55530"),
    ),
    (
        "host-name",
        placed(address="localhost"),
        f"local.address: `localhost` is not an IPv4 address; {NO_ADDRESS}",
    ),
    (
        "octal-address",
        placed(address="127.0.0.01"),
        f"local.address: `127.0.0.01` is not an IPv4 address; {NO_ADDRESS}",
    ),
    (
        "ipv6",
        placed(address="::1"),
        "local.address: `::1` looks like IPv6, and rlctl supports only IPv4; write an IPv4 address",
    ),
    (
        "every-interface",
        placed(address="0.0.0.0"),  # noqa: S104 - refused
        "local.address: 0.0.0.0 would make servers listen on every interface; write one address of the machine",
    ),
    (
        "multicast",
        on_hosts({"address": "224.0.0.1"}),
        "hosts[0].address: `224.0.0.1` cannot be the address of a machine; write one such as 10.0.0.11",
    ),
    (
        "spread-at-one-address",
        replace(CLUSTER, local=LocalPlace(address="127.9.9.9", spread=True)),
        ("local.spread: true gives each node its own address, but local.address is 127.9.9.9; delete one of the two"),
    ),
    (
        "open",
        replace(placed(address="10.0.0.1"), security=Security(acl=False)),
        "security.acl: false is possible only for target local on a loopback address; write true",
    ),
    (
        "services-without-users",
        replace(CLUSTER, security=Security(acl=False, services=("checkout",))),
        "security.services: services need security.acl: true; write it, or delete services",
    ),
    (
        "open-docker",
        replace(DOCKER, security=Security(acl=False)),
        "security.acl: false is possible only for target local on a loopback address; write true",
    ),
    (
        "image-form",
        dockered(image="Redis 8"),
        "docker.image: `Redis 8` is not valid; write an image such as redis:8.0",
    ),
    (
        "image-flavor",
        dockered(image="valkey/valkey:8.1"),
        (
            "docker.image: valkey/valkey:8.1 is a valkey image, but engine.flavor is redis; write an image such as "
            "redis:8.0, or change engine.flavor"
        ),
    ),
    (
        "image-version",
        dockered(version="7.4"),
        "engine.version: 7.4 contradicts docker.image, redis:8.0; write 8.0, or delete the line",
    ),
    (
        "image-old",
        dockered(image="redis:6.2-alpine"),
        "docker.image: redis 6.2 is too old; write 7.0 or newer",
    ),
    (
        "engine-old",
        replace(CLUSTER, engine=Engine(version="6")),
        "engine.version: redis 6 is too old; write 7.0 or newer",
    ),
    (
        "valkey-old",
        replace(CLUSTER, engine=Engine(flavor=Flavor.VALKEY, version="7.1.9")),
        "engine.version: valkey 7.1.9 is too old; write 7.2 or newer",
    ),
    (
        "engine-form",
        dockered(version="eight"),
        "engine.version: `eight` is not valid; write a version such as 8.0 or 8.0.2",
    ),
    (
        "subnet-place",
        dockered(subnet="192.168.0.0/24"),
        f"docker.subnet: `192.168.0.0/24` is not a network within 172.16.0.0/12; {NO_NETWORK}",
    ),
    (
        "subnet-address",
        dockered(subnet="172.28.0.0"),
        f"docker.subnet: `172.28.0.0` is not a network within 172.16.0.0/12; {NO_NETWORK}",
    ),
    (
        "subnet-bits",
        dockered(subnet="172.28.0.1/24"),
        (f"docker.subnet: `172.28.0.1/24` is not an IPv4 network (`172.28.0.1/24 has host bits set`); {NO_NETWORK}"),
    ),
    (
        "subnet-room",
        dockered(subnet="172.28.0.0/29"),
        "docker.subnet: 172.28.0.0/29 has room for 5 nodes, but the fleet has 6; write a larger network or auto",
    ),
    (
        "subnet-sentinels",
        replace(dockered(subnet="172.28.0.0/32"), kind=Kind.SENTINEL),
        "docker.subnet: 172.28.0.0/32 has room for 0 nodes, but the fleet has 6; write a larger network or auto",
    ),
    (
        "no-hosts",
        HOSTS,
        "hosts: target hosts needs at least one host; write one such as `hosts: [{address: 10.0.0.11}]`",
    ),
    (
        "host-twice",
        on_hosts({}, {"address": "10.0.0.1"}),
        "hosts[1].address: 10.0.0.1 is listed already, as hosts[0]; delete one",
    ),
    (
        "name-twice",
        on_hosts({"name": "a"}, {"name": "a"}),
        "hosts[1].name: hosts[0] is already called a; give each host a different `name`",
    ),
    (
        "name-is-address",
        on_hosts({}, {"name": "10.0.0.1"}),
        "hosts[1].name: hosts[0] is already called 10.0.0.1; give each host a different `name`",
    ),
    *(
        (
            f"name-of-ansible-{name}",
            on_hosts({}, {"address": "10.0.0.2", "name": name}),
            f"hosts[1].name: {name} is reserved in Ansible inventories; write another `name`",
        )
        for name in (
            *("all", "ungrouped", "localhost", "127.0.0.1"),
            *("rlctl_hosts", "rlctl_data", "rlctl_sentinels", "rlctl_watchers"),
        )
    ),
    (
        "address-of-ansible",
        on_hosts({"address": "127.0.0.1"}),
        "hosts[0].name: 127.0.0.1 is reserved in Ansible inventories; write another `name`",
    ),
    ("ssh-port", on_hosts({"port": 70_000}), "hosts[0].port: 70000 is out of range; write 1 to 65535"),
    (
        "ssh-in-the-way",
        on_hosts({"port": 17_005}),
        (
            "hosts[0].port: the SSH port 17005 is among the ports of the cluster bus (17000 to 17005); write "
            "another `base_port`"
        ),
    ),
    ("no-nodes", on_hosts({"nodes": 0}, {}), "hosts[0].nodes: 0 is out of range; write 1 to 1000"),
    (
        "too-few-nodes",
        on_hosts({"nodes": 2}, {"nodes": 3}),
        "hosts: `nodes` allows 5 data nodes in all, but the fleet has 6; add hosts or raise `nodes`",
    ),
    (
        "no-sentinel-host",
        on_hosts({"sentinel": False}, base=SENTINEL),
        "hosts: every host has `sentinel: false`, so no sentinel can run; delete it on at least 3 hosts",
    ),
    ("zone", on_hosts({"zone": "a b"}), f"hosts[0].zone: `a b` is not valid; {LABEL}"),
    (
        "user-option",
        on_hosts({"user": "-oProxyCommand=x"}),
        ("hosts[0].user: `-oProxyCommand=x` is not valid; write a user name, or delete the line for ssh's own choice"),
    ),
    (
        "shared-ports",
        on_hosts({"address": "10.0.0.1"}, {"address": "10.0.0.1", "port": 23, "name": "b", "base_port": 7_005}),
        (
            "hosts[1].base_port: the ports of the data nodes (7005 to 7010) and of the data nodes of hosts[0] (7000 to "
            "7005) overlap at 10.0.0.1; write base ports that are further apart, or equal"
        ),
    ),
    (
        "shared-bus",
        on_hosts({"address": "10.0.0.1", "base_port": 17_000}, {"address": "10.0.0.1", "port": 23, "name": "b"}),
        (
            "hosts[1].base_port: the ports of the cluster bus (17000 to 17005) and of the data nodes of "
            "hosts[0] (17000 to 17005) overlap at 10.0.0.1; write base ports that are further apart, or equal"
        ),
    ),
]


@pytest.mark.parametrize(("topology", "text"), [pytest.param(*case, id=name) for name, *case in IMPOSSIBLE])
def test_impossible(topology: Topology, text: str) -> None:
    problems = check(topology)
    assert [problem.text for problem in problems] == [text]
    assert problems[0].paths[0] == text.split(":", 1)[0]


def test_too_many_hosts() -> None:
    entries = tuple(HostEntry(address="10.0.0.1") for _ in range(1_001))
    assert [problem.text for problem in check(replace(HOSTS, hosts=entries))] == [
        "hosts: more than 1000 entries; write fewer"
    ]


def with_directive(name: str, value: str = "1") -> list[str]:
    return [problem.text for problem in check(replace(CLUSTER, redis=((name, value),)))]


WRITES = "rlctl writes this directive itself"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("port", "set `local.base_port` instead"),
        ("bind", "set `local.address` instead"),
        ("maxmemory", "set `memory.maxmemory` instead"),
        ("min-slaves-to-write", "set `consistency.min_replicas` instead"),
        ("requirepass", "set `security.acl` instead"),
        ("tls-port", "set `security.tls` instead"),
        ("cluster-node-timeout", "set `cluster.node_timeout` instead"),
        ("cluster-announce-ip", "set `cluster` instead"),
    ],
)
def test_a_governed_directive_names_its_key(name: str, text: str) -> None:
    assert with_directive(name) == [f"redis.{name}: {WRITES}; {text}"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dir", "rlctl decides where the files of a node are"),
        ("daemonize", "the target starts and stops the process"),
        ("unixsocketperm", "rlctl decides where servers listen and what they allow"),
        ("enable-debug-command", "rlctl decides where servers listen and what they allow"),
        ("replicaof", "a failover changes the roles of nodes"),
        ("loadmodule", "a module would have to be on every machine; use a docker.image that has it"),
    ],
)
def test_an_owned_directive_names_the_reason(name: str, reason: str) -> None:
    assert with_directive(name) == [f"redis.{name}: {WRITES} ({reason}); delete it"]


@pytest.mark.parametrize("name", OWNED)
def test_every_owned_directive_is_refused(name: str) -> None:
    assert WRITES in with_directive(name)[0]


@pytest.mark.parametrize("name", ["", "Port", "PORT", "a b", "1a", "a_b", "a\nb", "a" * 65])
def test_directive_names(name: str) -> None:
    assert "is not the name of a directive; write lower-case letters, digits and dashes" in with_directive(name)[0]


@pytest.mark.parametrize("value", ["", "1", "normal 0 0 0", '""', '"a b" c', "'a b'", 'a"b"', r'"\x41 \" "'])
def test_directive_values(value: str) -> None:
    assert with_directive("maxclients", value) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(
            "1\nport 1", "the value has a line break or control character; write it on one line without them", id="lf"
        ),
        pytest.param("x" * 1_001, "the value has 1001 characters; write at most 1000", id="long"),
        *(
            pytest.param(
                value,
                f"`{value}` has a quote that is not closed, or that no space follows; correct it",
                id=name,
            )
            for name, value in [("open", '"a'), ("glued", '"a"b'), ("odd", "it's"), ("escaped", r'"a\"')]
        ),
    ],
)
def test_directive_values_that_one_line_cannot_hold(value: str, text: str) -> None:
    assert with_directive("maxclients", value) == [f"redis.maxclients: {text}"]


@pytest.mark.parametrize("topology", [CLUSTER, SENTINEL, DOCKER], ids=["cluster", "sentinel", "docker"])
def test_the_defaults_need_no_warning(topology: Topology) -> None:
    assert warnings(topology) == ()


@pytest.mark.parametrize(
    ("topology", "starts"),
    [
        pytest.param(
            replace(CLUSTER, memory=Memory(policy=EvictionPolicy.ALLKEYS_LRU)),
            "memory.policy: allkeys-lru evicts",
            id="evicting",
        ),
        pytest.param(
            replace(CLUSTER, persistence=Persistence(mode=PersistenceMode.NONE)),
            "persistence.mode: none keeps no data on disk",
            id="no-persistence",
        ),
        pytest.param(
            replace(CLUSTER, persistence=Persistence(mode=PersistenceMode.RDB)),
            "persistence.mode: rdb loses",
            id="rdb",
        ),
        pytest.param(replace(CLUSTER, security=Security(acl=False)), "security.acl: false lets", id="open"),
        pytest.param(shaped(replicas=0), "cluster.replicas: 0 means no failover", id="no-replica"),
        pytest.param(watched(sentinels=2), "sentinel.sentinels: with 2, the loss of one", id="two-sentinels"),
        pytest.param(watched(sentinels=4), "sentinel.sentinels: 4 tolerate no more failures than 3", id="even"),
        pytest.param(watched(quorum=1), "sentinel.quorum: with 1, a single", id="quorum-of-one"),
        pytest.param(
            replace(CLUSTER, consistency=Consistency(min_replicas=1)),
            "consistency.min_replicas: 1 means every replica",
            id="every-replica",
        ),
        pytest.param(
            replace(SENTINEL, consistency=Consistency(min_replicas=1, max_lag_ms=1_000)),
            "consistency.max_lag: replicas report once a second",
            id="one-second",
        ),
    ],
)
def test_warnings(topology: Topology, starts: str) -> None:
    assert [warning.startswith(starts) for warning in warnings(topology)] == [True]
