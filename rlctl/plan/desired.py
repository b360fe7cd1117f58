"""What the planner compares reality with: the topology, and what follows from it for each node. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlctl.observe.model import NodeFacts
from rlctl.render.redis_conf import tunables
from rlctl.render.sentinel_conf import sentinel_options
from rlctl.topology.model import Topology
from rlctl.topology.nodes import NodeName, NodeSpec, all_nodes
from rlctl.topology.units import parse_size

# What a running server can change without a restart; anything else needs a rolling one.
LIVE_SETTINGS = frozenset(
    {
        *("maxmemory", "maxmemory-policy", "maxmemory-samples", "maxmemory-clients", "maxclients", "hz", "timeout"),
        *("appendonly", "appendfsync", "save", "auto-aof-rewrite-percentage", "auto-aof-rewrite-min-size"),
        *("min-replicas-to-write", "min-replicas-max-lag", "repl-diskless-sync-delay", "repl-backlog-size"),
        *("repl-backlog-ttl", "repl-timeout", "repl-ping-replica-period", "replica-priority", "tcp-keepalive"),
        *("cluster-node-timeout", "cluster-require-full-coverage", "cluster-allow-replica-migration"),
        *("cluster-allow-reads-when-down", "cluster-replica-validity-factor", "lua-time-limit", "busy-reply-threshold"),
        *("slowlog-log-slower-than", "slowlog-max-len", "latency-monitor-threshold", "loglevel", "activedefrag"),
        *("lazyfree-lazy-eviction", "lazyfree-lazy-expire", "active-expire-effort", "dynamic-hz", "latency-tracking"),
        *("hash-max-listpack-entries", "hash-max-listpack-value", "zset-max-listpack-entries"),
        "zset-max-listpack-value",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The wish; `revisions` holds the ACL revision each node should have loaded."""

    topology: Topology
    revisions: Mapping[NodeName, str] = field(default_factory=dict)

    @property
    def specs(self) -> dict[NodeName, NodeSpec]:
        """Every node the topology asks for, by name."""
        return {spec.name: spec for spec in all_nodes(self.topology)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A setting that is not as the topology says."""

    node: NodeName
    setting: str
    wanted: str
    found: str

    @property
    def is_live(self) -> bool:
        """Whether it can be put right without a restart."""
        return self.setting in LIVE_SETTINGS


def setting_drift(desired: Desired, node: NodeFacts) -> tuple[Drift, ...]:
    """Where a running node's settings differ; multi-word values have no canonical form and are not compared."""
    if not node.is_up:
        return ()
    if node.sentinel is not None:
        wanted, found = sentinel_options(desired.topology), node.sentinel.options
        return tuple(
            Drift(node=node.name, setting=name, wanted=value, found=found[name])
            for name, value in wanted.items()
            if name in found and found[name] != value
        )
    return tuple(
        Drift(node=node.name, setting=name, wanted=value, found=node.settings[name])
        for name, value in tunables(desired.topology).items()
        if name in node.settings and not _same(name, value, node.settings[name])
    )


def _same(name: str, wanted: str, found: str) -> bool:
    if name != "save" and len(wanted.split()) > 1:
        return True
    return _canonical(wanted) == _canonical(found)


def _canonical(value: str) -> str:
    try:
        return str(parse_size(value))
    except ValueError:
        return value.strip('"').lower()
