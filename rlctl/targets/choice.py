"""Opens the target that a topology names, and settles what the topology leaves to it."""

from rlctl.errors import Refused
from rlctl.secrets import FleetSecrets
from rlctl.state.home import FleetFolder
from rlctl.system.clock import Clock
from rlctl.system.process import ProcessRunner
from rlctl.targets.base import Target
from rlctl.targets.local import LocalTarget
from rlctl.topology.model import TargetName, Topology


def settled(topology: Topology) -> Topology:
    """The topology with everything decided that it leaves to the target, such as the network."""
    if topology.target is not TargetName.LOCAL:
        raise Refused(f"target {topology.target} is not available in this version", hint="use `target: local` for now")
    return topology


def open_target(
    topology: Topology, secrets: FleetSecrets, folder: FleetFolder, commands: tuple[str, ...], clock: Clock
) -> Target:
    """The target of a settled topology."""
    return LocalTarget(topology, secrets, folder, commands, ProcessRunner(), clock)
