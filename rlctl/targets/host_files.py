"""Where a node's files are on a host of target hosts, and the folder here in which they wait to be copied."""

from pathlib import Path, PurePosixPath

from rlctl.render.redis_conf import NodeFiles
from rlctl.secrets import FleetSecrets
from rlctl.targets.node_folder import NodeFolder
from rlctl.topology.model import Topology
from rlctl.topology.nodes import NodeSpec

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
