"""Names of a node's files and units on a host, and the local folder from which playbooks copy a node's files."""

from pathlib import Path, PurePosixPath

from rlctl.render.redis_conf import NodeFiles
from rlctl.secrets import FleetSecrets
from rlctl.targets.node_folder import NodeFolder
from rlctl.topology.model import Topology
from rlctl.topology.nodes import NodeName, NodeSpec

SETTINGS, DATA = PurePosixPath("/etc/rlctl"), PurePosixPath("/var/lib/rlctl")


def node_files(topology: Topology, spec: NodeSpec) -> NodeFiles:
    """Paths of a node's files on its host. The server logs to its standard output, which journald stores."""
    place = PurePosixPath(topology.name) / spec.name
    return NodeFiles(folder=DATA / place, own_settings=SETTINGS / place, has_log=False)


def staged_node(
    stage: Path, spec: NodeSpec, topology: Topology, secrets: FleetSecrets, commands: tuple[str, ...]
) -> NodeFolder:
    """The node's folder on this machine, from which playbooks copy its files."""
    return NodeFolder(stage / spec.name, spec, topology, secrets, commands, node_files(topology, spec))


def unit(topology: Topology, name: NodeName) -> str:
    """Name of a node's systemd unit; data nodes and sentinels have different unit templates."""
    template = f"rlctl-{topology.name}" + ("-sentinel" if name.startswith("sentinel-") else "")
    return f"{template}@{name}.service"


def unit_patterns(topology: Topology) -> list[str]:
    """Patterns for systemctl that match the units of all nodes of the fleet."""
    return [f"rlctl-{topology.name}@*.service", f"rlctl-{topology.name}-sentinel@*.service"]
