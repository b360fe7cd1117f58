"""The topology file as a table: every key with its type, default and meaning.

Reading, checking, the sample file and the JSON Schema all walk this table, so they cannot disagree.
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
# Components joined by single separators, then a tag and a digest: what `docker pull` accepts.
_IMAGE = (
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_TIMER = duration(100, parse_duration("10m"))

TOP = SettingsSection(
    key="",
    model=Topology,
    doc="A fleet of Redis servers, as rlctl builds it",
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
            doc="names the fleet; rlctl keeps its state under it",
            example="limiter",
            required=True,
        ),
        Field(
            key="kind",
            type=choice(Kind),
            doc="how it fails over: cluster or sentinel",
            example="cluster",
            required=True,
        ),
        Field(
            key="target",
            type=choice(TargetName),
            doc="where it runs: local, docker or hosts",
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
            doc="name in the inventory; else the address",
            example="redis-a",
        ),
        Field(
            key="zone",
            type=text(_LABEL, _LABEL_RULE, may_look_numeric=True),
            doc="what fails together; replicas go to another zone",
            example="a",
        ),
        Field(
            key="user",
            type=text(r"[A-Za-z_][A-Za-z0-9._-]{0,31}", "a user name, or delete the line for ssh's own choice"),
            doc="user of SSH; else what ssh's own settings say",
            example="deploy",
        ),
        Field(key="port", type=integer(1, 65_535), doc="port of SSH", example="22"),
        Field(key="nodes", type=integer(1, 1_000), doc="most data nodes here", example="2"),
        Field(
            key="base_port",
            type=integer(1_024, 65_535, why=" (lower ports need root)"),
            doc="first port here; else local.base_port",
            example="7000",
        ),
        Field(key="sentinel", type=boolean(), doc="whether a sentinel may run here", example="true"),
    ),
)

SECTIONS: tuple[SettingsSection, ...] = (
    SettingsSection(
        key="cluster",
        model=model.ClusterShape,
        doc="shape of a Redis Cluster",
        only=Kind.CLUSTER,
        fields=(
            Field(key="shards", type=integer(3, 1_000), doc="primaries that share the slots; at least 3"),
            Field(key="replicas", type=integer(0, 100), doc="replicas of each primary; 0 has no failover"),
            Field(
                key="node_timeout",
                attr="node_timeout_ms",
                type=_TIMER,
                doc="silence after which a node counts as failed",
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
        doc="shape of a primary with replicas, watched by sentinels",
        only=Kind.SENTINEL,
        fields=(
            Field(key="replicas", type=integer(1, 800), doc="replicas of the one primary"),
            Field(key="sentinels", type=integer(1, 99), doc="watchers; an odd number, 3 or more, is best"),
            Field(key="quorum", type=integer(1, 99), doc="sentinels that must agree that the primary is down"),
            Field(
                key="down_after",
                attr="down_after_ms",
                type=_TIMER,
                doc="silence after which a sentinel calls a node down",
            ),
            Field(
                key="failover_timeout",
                attr="failover_timeout_ms",
                type=duration(1_000, parse_duration("1h")),
                doc="time for one failover; a second try waits twice this",
            ),
        ),
    ),
    SettingsSection(
        key="consistency",
        model=model.Consistency,
        doc="when a primary stops taking writes",
        fields=(
            Field(
                key="min_replicas",
                type=integer(0, 800),
                doc="replicas that must keep up for writes; 0 never stops",
            ),
            Field(
                key="max_lag",
                attr="max_lag_ms",
                type=duration(1_000, parse_duration("1h"), whole_seconds=True),
                doc="how far behind still counts, in whole seconds",
            ),
        ),
    ),
    SettingsSection(
        key="memory",
        model=model.Memory,
        doc="for each data node",
        fields=(
            Field(
                key="maxmemory",
                attr="maxmemory_bytes",
                type=size(parse_size("8mb"), parse_size("4096gb"), why=" (an empty node takes megabytes)"),
                doc="memory for data; below the machine's, with room to fork",
            ),
            Field(
                key="policy",
                type=choice(model.EvictionPolicy),
                doc="noeviction refuses writes when full; others forget limits",
            ),
        ),
    ),
    SettingsSection(
        key="persistence",
        model=model.Persistence,
        doc="what survives the death of a process",
        fields=(
            Field(key="mode", type=choice(model.PersistenceMode), doc="aof, rdb (snapshots) or none"),
            Field(key="fsync", type=choice(model.Fsync), doc="when aof reaches the disk: always, everysec, no"),
        ),
    ),
    SettingsSection(
        key="engine",
        model=model.Engine,
        doc="the server's family and version",
        fields=(
            Field(key="flavor", type=choice(model.Flavor), doc="redis or valkey"),
            Field(
                key="version",
                type=text(r"[0-9]{1,2}(\.[0-9]{1,3}){0,2}", "a version such as 8.0 or 8.0.2", may_look_numeric=True),
                doc="where the target can choose one; else what it finds",
                example="8.0",
            ),
        ),
    ),
    SettingsSection(
        key="security",
        model=model.Security,
        doc="who may do what",
        fields=(
            Field(key="acl", type=boolean(), doc="users with generated passwords; off on loopback only"),
            Field(key="tls", type=boolean(), doc="encrypt clients, replication and the cluster bus"),
            Field(
                key="services",
                type=names(text(services.NAME, services.NAME_RULE), "[checkout, search]"),
                doc="each gets a user that decides on its own keys only",
            ),
        ),
    ),
    SettingsSection(
        key="local",
        model=model.LocalPlace,
        doc="where servers listen",
        fields=(
            Field(
                key="address",
                type=address(),
                doc="the one IPv4 address that servers listen on",
                only=TargetName.LOCAL,
            ),
            Field(
                key="base_port",
                type=integer(1_024, 65_535, why=" (lower ports need root)"),
                doc="data ports count up from here, sentinels 1000 above",
            ),
            Field(
                key="spread",
                type=boolean(),
                doc="an address per node, 127.77.x and 127.78.x; Linux; cuts need it",
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
                doc="any image that has redis-server",
            ),
            Field(key="subnet", type=subnet(), doc="auto takes a free one within 172.16.0.0/12"),
        ),
    ),
    SettingsSection(
        key="drills",
        model=model.Drills,
        doc="failure drills",
        fields=(Field(key="allow", type=boolean(), doc="whether a drill may touch the live fleet, or its hosts"),),
    ),
)

REDIS_DOC = "further directives of redis.conf that rlctl does not govern"
KEYS = tuple(field.key for field in TOP.fields) + tuple(section.key for section in SECTIONS) + ("redis", "hosts")


def settings(topology: Topology) -> Iterator[tuple[str, Field, Any]]:
    """Every setting that has a value, and every item of a list, with its path in the file."""
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
