"""Opens the target of a topology, and resolves the settings that the topology leaves to the target."""

from dataclasses import replace

from rlctl.secrets import FleetSecrets
from rlctl.state.accepted import AcceptedDirectives
from rlctl.state.home import Home
from rlctl.state.record import FleetRecord
from rlctl.system.clock import Clock
from rlctl.system.process import ProcessRunner
from rlctl.targets.base import ProgressListener, Target
from rlctl.targets.local import LocalTarget
from rlctl.topology.model import TargetName, Topology
from rlctl.topology.subnets import AUTO


def resolved(topology: Topology, record: FleetRecord | None) -> Topology:
    """The topology with concrete values for settings that it leaves to the target, such as the Docker network."""
    if topology.target is TargetName.DOCKER:
        return _in_a_network(topology, record)
    return topology


def open_target(
    topology: Topology,
    secrets: FleetSecrets,
    home: Home,
    commands: tuple[str, ...],
    clock: Clock,
    listener: ProgressListener,
) -> Target:
    """Open the target of a topology that `resolved` has returned."""
    folder, accepted = home.fleet(topology.name), AcceptedDirectives(home.accepted)
    match topology.target:
        case TargetName.LOCAL:
            return LocalTarget(topology, secrets, folder, commands, ProcessRunner(), clock, accepted)
        case TargetName.DOCKER:
            from rlctl.system.docker import DockerEngine  # noqa: PLC0415  the SDK costs start-up time that only Docker pays
            from rlctl.targets.docker.target import DockerTarget  # noqa: PLC0415  likewise

            return DockerTarget(topology, secrets, folder, commands, DockerEngine(ProcessRunner()), clock, accepted)
        case TargetName.HOSTS:
            from rlctl.targets.hosts.target import HostsTarget  # noqa: PLC0415  likewise

            return HostsTarget(topology, secrets, home, commands, clock, listener)


def _in_a_network(topology: Topology, record: FleetRecord | None) -> Topology:
    if topology.docker.subnet != AUTO:
        return topology
    from rlctl.system.docker import DockerEngine  # noqa: PLC0415  as above
    from rlctl.targets.docker.network import choose_network  # noqa: PLC0415  likewise

    network = choose_network(topology, record, DockerEngine(ProcessRunner()))
    return replace(topology, docker=replace(topology.docker, subnet=str(network)))
