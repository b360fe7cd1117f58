"""Configuration of sentinels: the static part, and the first state of the file Sentinel then owns."""

from collections.abc import Sequence
from dataclasses import dataclass

from rlctl.render.redis_conf import NodeFiles, place
from rlctl.render.text import conf_text
from rlctl.secrets import FleetSecrets, User
from rlctl.topology.model import Topology
from rlctl.topology.nodes import NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What a new sentinel is told, so that it need not discover it over seconds."""

    primary: NodeSpec
    replicas: Sequence[NodeSpec]
    peers: Sequence[tuple[NodeSpec, str]]


def sentinel_static_conf(topology: Topology, spec: NodeSpec, files: NodeFiles, secrets: FleetSecrets) -> str:
    """static.conf of one sentinel."""
    directives = place(topology, spec, files)
    if topology.security.acl:
        directives += [
            ("sentinel", f"sentinel-user {User.SENTINEL}"),
            ("sentinel", f"sentinel-pass {secrets.password(User.SENTINEL).reveal()}"),
        ]
    return conf_text(directives)


def initial_sentinel_conf(topology: Topology, own_id: str, watch: Watch, secrets: FleetSecrets) -> str:
    """sentinel.conf before the first start."""
    name, primary = topology.name, watch.primary
    lines = [f"myid {own_id}", f"monitor {name} {primary.address} {primary.port} {topology.sentinel.quorum}"]
    lines += [f"{option} {name} {value}" for option, value in sentinel_options(topology).items() if option != "quorum"]
    if topology.security.acl:
        lines += [f"{option} {name} {value}" for option, value in sentinel_login(secrets)]
    lines += [f"known-replica {name} {node.address} {node.port}" for node in watch.replicas]
    lines += [f"known-sentinel {name} {node.address} {node.port} {peer_id}" for node, peer_id in watch.peers]
    return conf_text([("sentinel", line) for line in lines])


def sentinel_options(topology: Topology) -> dict[str, str]:
    """What the topology governs on a sentinel, spelled as SENTINEL SET takes it."""
    return {
        "quorum": str(topology.sentinel.quorum),
        "down-after-milliseconds": str(topology.sentinel.down_after_ms),
        "failover-timeout": str(topology.sentinel.failover_timeout_ms),
        "parallel-syncs": "1",
    }


def sentinel_login(secrets: FleetSecrets) -> tuple[tuple[str, str], tuple[str, str]]:
    """How a sentinel logs in at data nodes."""
    return ("auth-user", User.SENTINEL.value), ("auth-pass", secrets.password(User.SENTINEL).reveal())
