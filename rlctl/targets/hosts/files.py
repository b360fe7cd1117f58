"""Names on a host of target hosts: files, units; and the folder here in which a node's files wait to be copied."""

from pathlib import Path, PurePosixPath

from rlctl.render.redis_conf import NodeFiles
from rlctl.secrets import FleetSecrets
from rlctl.targets.node_folder import NodeFolder
from rlctl.topology.model import Topology
from rlctl.topology.nodes import NodeName, NodeSpec

SETTINGS, DATA = PurePosixPath("/etc/rlctl"), PurePosixPath("/var/lib/rlctl")


def node_files(topology: Topology, spec: NodeSpec) -> NodeFiles:
    """A node's files as its server sees them; it logs to its output, which journald keeps."""
    place = PurePosixPath(topology.name) / spec.name
    return NodeFiles(folder=DATA / place, own_settings=SETTINGS / place, has_log=False)


def staged_node(
    stage: Path, spec: NodeSpec, topology: Topology, secrets: FleetSecrets, commands: tuple[str, ...]
) -> NodeFolder:
    """The node's folder on this machine, from where playbooks copy."""
    return NodeFolder(stage / spec.name, spec, topology, secrets, commands, node_files(topology, spec))


def unit(topology: Topology, name: NodeName) -> str:
    """The systemd unit of a node; sentinels have a template of their own."""
    template = f"rlctl-{topology.name}" + ("-sentinel" if name.startswith("sentinel-") else "")
    return f"{template}@{name}.service"


def unit_patterns(topology: Topology) -> list[str]:
    """All units of the fleet's nodes, as systemctl matches names."""
    return [f"rlctl-{topology.name}@*.service", f"rlctl-{topology.name}-sentinel@*.service"]
