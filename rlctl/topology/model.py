"""The Topology: a topology file as a frozen value, with all defaults filled in and in base units."""

from dataclasses import dataclass, field
from enum import StrEnum

MIB = 1024 * 1024


class Kind(StrEnum):
    """The failover mechanism of the fleet."""

    CLUSTER = "cluster"
    SENTINEL = "sentinel"


class TargetName(StrEnum):
    """Where the fleet's processes run."""

    LOCAL = "local"
    DOCKER = "docker"
    HOSTS = "hosts"


class Flavor(StrEnum):
    """The server software."""

    REDIS = "redis"
    VALKEY = "valkey"


class EvictionPolicy(StrEnum):
    """`maxmemory-policy` of Redis."""

    NOEVICTION = "noeviction"
    ALLKEYS_LRU = "allkeys-lru"
    ALLKEYS_LFU = "allkeys-lfu"
    ALLKEYS_RANDOM = "allkeys-random"
    VOLATILE_LRU = "volatile-lru"
    VOLATILE_LFU = "volatile-lfu"
    VOLATILE_RANDOM = "volatile-random"
    VOLATILE_TTL = "volatile-ttl"


class PersistenceMode(StrEnum):
    """How a node keeps its data on disk."""

    AOF = "aof"
    RDB = "rdb"
    NONE = "none"


class Fsync(StrEnum):
    """`appendfsync` of Redis: how often the append-only file is flushed to disk."""

    ALWAYS = "always"
    EVERYSEC = "everysec"
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShape:
    shards: int = 3
    replicas: int = 1
    node_timeout_ms: int = 5_000
    full_coverage: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SentinelShape:
    replicas: int = 2
    sentinels: int = 3
    quorum: int = 2
    down_after_ms: int = 5_000
    failover_timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistency:
    """Section `consistency`: when a primary refuses writes."""

    min_replicas: int = 0
    max_lag_ms: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Section `memory`, for each data node."""

    maxmemory_bytes: int = 256 * MIB
    policy: EvictionPolicy = EvictionPolicy.NOEVICTION


@dataclass(frozen=True, slots=True, kw_only=True)
class Persistence:
    mode: PersistenceMode = PersistenceMode.AOF
    fsync: Fsync = Fsync.EVERYSEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Section `engine`; without `version`, the fleet runs the server that the target finds."""

    flavor: Flavor = Flavor.REDIS
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    acl: bool = True
    tls: bool = False
    services: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPlace:
    """Section `local`; with `spread` each node has its own loopback address instead of `address`."""

    address: str = "127.0.0.1"
    base_port: int = 7_000
    spread: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerPlace:
    """Section `docker`; for subnet `auto`, rlctl chooses a free network."""

    image: str = "redis:8.0"
    subnet: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEntry:
    """One entry of `hosts`; `nodes` is the maximum number of data nodes."""

    address: str
    name: str | None = None
    zone: str | None = None
    user: str | None = None
    port: int = 22
    nodes: int | None = None
    base_port: int | None = None
    sentinel: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Drills:
    allow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    name: str
    kind: Kind
    target: TargetName
    version: int = 1
    cluster: ClusterShape = field(default_factory=ClusterShape)
    sentinel: SentinelShape = field(default_factory=SentinelShape)
    consistency: Consistency = field(default_factory=Consistency)
    memory: Memory = field(default_factory=Memory)
    persistence: Persistence = field(default_factory=Persistence)
    engine: Engine = field(default_factory=Engine)
    redis: tuple[tuple[str, str], ...] = ()
    security: Security = field(default_factory=Security)
    local: LocalPlace = field(default_factory=LocalPlace)
    docker: DockerPlace = field(default_factory=DockerPlace)
    hosts: tuple[HostEntry, ...] = ()
    drills: Drills = field(default_factory=Drills)
