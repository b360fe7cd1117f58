"""Configuration of sentinels: static.conf, and the initial sentinel.conf, which Sentinel then rewrites."""

from collections.abc import Sequence
from dataclasses import dataclass

from rlctl.render.redis_conf import NodeFiles, common_directives
from rlctl.render.text import conf_text
from rlctl.secrets import FleetSecrets, User
from rlctl.topology.model import Topology
from rlctl.topology.nodes import NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialMonitor:
    """The nodes that a new sentinel knows from its start, so that it does not need seconds to discover them.

    `peers` are the other sentinels with their ids.
    """

    primary: NodeSpec
    replicas: Sequence[NodeSpec]
    peers: Sequence[tuple[NodeSpec, str]]


def sentinel_static_conf(topology: Topology, spec: NodeSpec, files: NodeFiles, secrets: FleetSecrets) -> str:
    directives = common_directives(topology, spec, files)
    if topology.security.acl:
        directives += [
            ("sentinel", f"sentinel-user {User.SENTINEL}"),
            ("sentinel", f"sentinel-pass {secrets.password(User.SENTINEL).reveal()}"),
        ]
    return conf_text(directives)


def initial_sentinel_conf(topology: Topology, own_id: str, monitor: InitialMonitor, secrets: FleetSecrets) -> str:
    """sentinel.conf for the first start of a sentinel."""
    name, primary = topology.name, monitor.primary
    lines = [f"myid {own_id}", f"monitor {name} {primary.address} {primary.port} {topology.sentinel.quorum}"]
    lines += [f"{option} {name} {value}" for option, value in sentinel_options(topology).items() if option != "quorum"]
    if topology.security.acl:
        lines += [f"{option} {name} {value}" for option, value in sentinel_login(secrets)]
    lines += [f"known-replica {name} {node.address} {node.port}" for node in monitor.replicas]
    lines += [f"known-sentinel {name} {node.address} {node.port} {peer_id}" for node, peer_id in monitor.peers]
    return conf_text([("sentinel", line) for line in lines])


def sentinel_options(topology: Topology) -> dict[str, str]:
    """The options that the topology sets on a sentinel, in the form of SENTINEL SET."""
    return {
        "quorum": str(topology.sentinel.quorum),
        "down-after-milliseconds": str(topology.sentinel.down_after_ms),
        "failover-timeout": str(topology.sentinel.failover_timeout_ms),
        "parallel-syncs": "1",
    }


def sentinel_login(secrets: FleetSecrets) -> tuple[tuple[str, str], tuple[str, str]]:
    """The options with which a sentinel logs in to data nodes."""
    return ("auth-user", User.SENTINEL.value), ("auth-pass", secrets.password(User.SENTINEL).reveal())
