"""The desired state that the planner compares a fleet with: settings, users and scripts of each node. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rlctl.observe.model import NodeFacts
from rlctl.plan.fence import FENCE_SETTING, FENCED_VALUE
from rlctl.render.redis_conf import tunables
from rlctl.render.sentinel_conf import sentinel_options
from rlctl.topology.change import RefusedEdit
from rlctl.topology.model import Topology
from rlctl.topology.nodes import NodeName, NodeSpec, all_nodes

# Settings that CONFIG SET changes on a running server. A change of any other setting needs a restart.
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
        *("zset-max-listpack-value", "notify-keyspace-events", "proto-max-bulk-len"),
    }
)
# Redis' units, which differ from the topology's: 1k is 1000 bytes here.
_MEMORY = re.compile(r"([0-9]+)([kmg]?b?)")
_UNITS = {
    "": 1,
    "b": 1,
    "k": 1_000,
    "m": 1_000_000,
    "g": 1_000_000_000,
    "kb": 1024,
    "mb": 1024**2,
    "gb": 1024**3,
}
_EVENTS = "notify-keyspace-events"
_ALL_EVENTS = "g$lshztxed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The state that a fleet should have: the ACL revision of each node, and the release's scripts (name: SHA1).

    If `refusals` is not empty, deploy would refuse the topology file, and `topology` describes the deployed nodes.
    """

    topology: Topology
    revisions: Mapping[NodeName, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    refusals: tuple[RefusedEdit, ...] = ()

    @property
    def specs(self) -> dict[NodeName, NodeSpec]:
        return {spec.name: spec for spec in all_nodes(self.topology)}


def missing_scripts(desired: Desired, node: NodeFacts) -> tuple[str, ...]:
    """Names of the scripts missing on a data node; empty if the node was not queried."""
    if node.scripts is None:
        return ()
    return tuple(name for name, sha1 in desired.scripts.items() if sha1 not in node.scripts)


def lacks_users(desired: Desired, node: NodeFacts) -> bool:
    """Whether a node must load its users: its ACL revision is not the desired one, or one of its users is disabled."""
    wanted = desired.revisions.get(node.name)
    return wanted is not None and (node.acl_revision != wanted or bool(node.users_off))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDrift:
    """A setting whose value on a node differs from the topology."""

    node: NodeName
    setting: str
    wanted: str
    found: str

    @property
    def is_live(self) -> bool:
        """Whether CONFIG SET can change the setting without a restart."""
        return self.setting in LIVE_SETTINGS


def setting_drift(desired: Desired, node: NodeFacts) -> tuple[SettingDrift, ...]:
    """Return the settings of a running node that differ from the topology.

    Values of several words are not compared, because they have no canonical form; `save`, which has one, is compared.
    """
    if not node.is_up:
        return ()
    if node.sentinel is not None:
        wanted, found = sentinel_options(desired.topology), node.sentinel.options
        return tuple(
            SettingDrift(node=node.name, setting=name, wanted=value, found=found[name])
            for name, value in wanted.items()
            if name in found and found[name] != value
        )
    return tuple(
        SettingDrift(node=node.name, setting=name, wanted=_unquoted(value), found=node.settings[name])
        for name, value in tunables(desired.topology).items()
        if name in node.settings
        and not _same(name, value, node.settings[name])
        # Only `rlctl unfence` lifts a fence; deploy leaves it in place.
        and (name, node.settings[name]) != (FENCE_SETTING, FENCED_VALUE)
    )


def _same(name: str, wanted: str, found: str) -> bool:
    if name != "save" and len(wanted.split()) > 1:
        return True
    if name == _EVENTS:
        return _events(wanted) == _events(found)
    return _canonical(wanted) == _canonical(found)


def _canonical(value: str) -> str:
    text = _unquoted(value).lower()
    amount = _MEMORY.fullmatch(text)
    return str(int(amount.group(1)) * _UNITS[amount.group(2)]) if amount else text


def _events(value: str) -> frozenset[str]:
    """Return the set of event classes; `A` stands for all classes in _ALL_EVENTS."""
    return frozenset(_unquoted(value).replace("A", _ALL_EVENTS))


def _unquoted(value: str) -> str:
    """Remove the quotes that only the configuration file needs."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
