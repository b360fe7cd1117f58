"""The table of settings: every key of the topology file with its type and meaning.

The reader, the checks, the sample file and the JSON Schema all use this table, so they cannot disagree.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rlctl import services
from rlctl.files.table import Field, SettingsSection
from rlctl.files.units import parse_duration, parse_size
from rlctl.files.values import (
    address,
    boolean,
    choice,
    duration,
    format_version,
    integer,
    names,
    size,
    text,
)
from rlctl.topology import model
from rlctl.topology.model import Kind, TargetName, Topology
from rlctl.topology.subnets import subnet

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_LABEL_RULE = "up to 63 letters, digits, dots, dashes or underscores"
# As `docker pull` accepts: components joined by separators, then a tag and a digest.
_IMAGE = (
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_TIMER = duration(100, parse_duration("10m"))

TOP = SettingsSection(
    key="",
    model=Topology,
    doc="A fleet of Redis servers, managed by rlctl",
    fields=(
        Field(
            key="version",
            type=format_version(1),
            doc="version of this file's format",
            example="1",
            required=True,
        ),
        Field(
            key="name",
            type=text(services.NAME, services.NAME_RULE),
            doc="name of the fleet and of its state folder",
            example="limiter",
            required=True,
        ),
        Field(
            key="kind",
            type=choice(Kind),
            doc="how the fleet fails over: cluster or sentinel",
            example="cluster",
            required=True,
        ),
        Field(
            key="target",
            type=choice(TargetName),
            doc="where the fleet runs: local, docker or hosts",
            example="local",
            required=True,
        ),
    ),
)

HOSTS = SettingsSection(
    key="hosts",
    model=model.HostEntry,
    doc="machines reached over SSH; only the address is required",
    only=TargetName.HOSTS,
    fields=(
        Field(key="address", type=address(), doc="IPv4 address", example="10.0.0.11", required=True),
        Field(
            key="name",
            type=text(_LABEL, _LABEL_RULE, may_look_numeric=True),
            doc="name in the inventory; default: the address",
            example="redis-a",
        ),
        Field(
            key="zone",
            type=text(_LABEL, _LABEL_RULE, may_look_numeric=True),
            doc="failure domain; replicas go to another zone",
            example="a",
        ),
        Field(
            key="user",
            type=text(r"[A-Za-z_][A-Za-z0-9._-]{0,31}", "a user name, or delete the line for ssh's own choice"),
            doc="SSH user; default: from ssh's own settings",
            example="deploy",
        ),
        Field(key="port", type=integer(1, 65_535), doc="SSH port", example="22"),
        Field(key="nodes", type=integer(1, 1_000), doc="maximum number of data nodes on this host", example="2"),
        Field(
            key="base_port",
            type=integer(1_024, 65_535, why=" (lower ports need root)"),
            doc="first port on this host; default: local.base_port",
            example="7000",
        ),
        Field(key="sentinel", type=boolean(), doc="whether a sentinel may run on this host", example="true"),
    ),
)

SECTIONS: tuple[SettingsSection, ...] = (
    SettingsSection(
        key="cluster",
        model=model.ClusterShape,
        doc="shape of a Redis Cluster",
        only=Kind.CLUSTER,
        fields=(
            Field(key="shards", type=integer(3, 1_000), doc="number of shards; at least 3"),
            Field(key="replicas", type=integer(0, 100), doc="replicas of each primary; 0: no failover"),
            Field(
                key="node_timeout",
                attr="node_timeout_ms",
                type=_TIMER,
                doc="time without a reply until a node counts as failed",
            ),
            Field(
                key="full_coverage",
                type=boolean(),
                doc="whether one lost shard stops all the others",
            ),
        ),
    ),
    SettingsSection(
        key="sentinel",
        model=model.SentinelShape,
        doc="shape of a primary with replicas, monitored by sentinels",
        only=Kind.SENTINEL,
        fields=(
            Field(key="replicas", type=integer(1, 800), doc="replicas of the one primary"),
            Field(key="sentinels", type=integer(1, 99), doc="number of sentinels; use an odd number, 3 or more"),
            Field(key="quorum", type=integer(1, 99), doc="sentinels that must agree that the primary is down"),
            Field(
                key="down_after",
                attr="down_after_ms",
                type=_TIMER,
                doc="time without a reply until a sentinel calls a node down",
            ),
            Field(
                key="failover_timeout",
                attr="failover_timeout_ms",
                type=duration(1_000, parse_duration("1h")),
                doc="limit for one failover; a retry waits twice as long",
            ),
        ),
    ),
    SettingsSection(
        key="consistency",
        model=model.Consistency,
        doc="when a primary refuses writes",
        fields=(
            Field(
                key="min_replicas",
                type=integer(0, 800),
                doc="replicas in sync that a write needs; 0: none",
            ),
            Field(
                key="max_lag",
                attr="max_lag_ms",
                type=duration(1_000, parse_duration("1h"), whole_seconds=True),
                doc="lag up to which a replica is in sync; whole seconds",
            ),
        ),
    ),
    SettingsSection(
        key="memory",
        model=model.Memory,
        doc="limits of each data node",
        fields=(
            Field(
                key="maxmemory",
                attr="maxmemory_bytes",
                type=size(parse_size("8mb"), parse_size("4096gb"), why=" (an empty node takes megabytes)"),
                doc="memory for data; leave room on the machine for forks",
            ),
            Field(
                key="policy",
                type=choice(model.EvictionPolicy),
                doc="noeviction refuses writes when full; others evict limits",
            ),
        ),
    ),
    SettingsSection(
        key="persistence",
        model=model.Persistence,
        doc="what survives the crash of a node",
        fields=(
            Field(key="mode", type=choice(model.PersistenceMode), doc="aof, rdb (snapshots) or none"),
            Field(key="fsync", type=choice(model.Fsync), doc="when aof is flushed to disk: always, everysec or no"),
        ),
    ),
    SettingsSection(
        key="engine",
        model=model.Engine,
        doc="server software and its version",
        fields=(
            Field(key="flavor", type=choice(model.Flavor), doc="redis or valkey"),
            Field(
                key="version",
                type=text(r"[0-9]{1,2}(\.[0-9]{1,3}){0,2}", "a version such as 8.0 or 8.0.2", may_look_numeric=True),
                doc="server version; default: the one that the target finds",
                example="8.0",
            ),
        ),
    ),
    SettingsSection(
        key="security",
        model=model.Security,
        doc="users and encryption",
        fields=(
            Field(key="acl", type=boolean(), doc="users with passwords; false is allowed on loopback only"),
            Field(key="tls", type=boolean(), doc="encrypt clients, replication and the cluster bus"),
            Field(
                key="services",
                type=names(text(services.NAME, services.NAME_RULE), "[checkout, search]"),
                doc="services that get a Redis user for their own keys",
            ),
        ),
    ),
    SettingsSection(
        key="local",
        model=model.LocalPlace,
        doc="addresses and ports of servers",
        fields=(
            Field(
                key="address",
                type=address(),
                doc="IPv4 address that servers listen on",
                only=TargetName.LOCAL,
            ),
            Field(
                key="base_port",
                type=integer(1_024, 65_535, why=" (lower ports need root)"),
                doc="first port of data nodes; sentinels start 1000 above",
            ),
            Field(
                key="spread",
                type=boolean(),
                doc="one loopback address per node (Linux), for partitions",
                only=TargetName.LOCAL,
            ),
        ),
    ),
    SettingsSection(
        key="docker",
        model=model.DockerPlace,
        doc="containers on this machine",
        only=TargetName.DOCKER,
        fields=(
            Field(
                key="image",
                type=text(_IMAGE, "an image such as redis:8.0"),
                doc="image that has redis-server",
            ),
            Field(key="subnet", type=subnet(), doc="auto: a free network within 172.16.0.0/12"),
        ),
    ),
    SettingsSection(
        key="drills",
        model=model.Drills,
        doc="failure drills",
        fields=(Field(key="allow", type=boolean(), doc="whether drills may run on the live fleet or its hosts"),),
    ),
)

REDIS_DOC = "further redis.conf directives that no other key sets"
KEYS = tuple(field.key for field in TOP.fields) + tuple(section.key for section in SECTIONS) + ("redis", "hosts")


def settings(topology: Topology) -> Iterator[tuple[str, Field, Any]]:
    """(path in the file, field, value) of every setting that has a value, and of every item of a list."""
    owners: list[tuple[str, SettingsSection, object]] = [("", TOP, topology)]
    owners += [(f"{section.key}.", section, getattr(topology, section.key)) for section in SECTIONS]
    owners += [(f"hosts[{index}].", HOSTS, host) for index, host in enumerate(topology.hosts)]
    for prefix, section, owner in owners:
        for field in section.fields:
            value = getattr(owner, field.attribute)
            if value is not None:
                yield f"{prefix}{field.key}", field, value
            if field.type.item is not None:
                item = replace(field, type=field.type.item)
                yield from ((f"{prefix}{field.key}[{at}]", item, one) for at, one in enumerate(value))
