"""The network of a Docker fleet: chooses a free one for a new fleet, and checks that no other network overlaps."""

from ipaddress import IPv4Network

from rlctl.errors import Unreachable
from rlctl.render.compose import project_name
from rlctl.state.record import FleetRecord
from rlctl.system.docker import PROJECT, DockerEngine, Network
from rlctl.system.host import routed_networks
from rlctl.topology.model import TargetName, Topology
from rlctl.topology.nodes import all_nodes, network_of
from rlctl.topology.subnets import candidates, network_around

_HINT = "set docker.subnet to a free network or to auto; `docker network ls` and `ip route` show the used ones"


def choose_network(topology: Topology, record: FleetRecord | None, engine: DockerEngine) -> IPv4Network:
    """The subnet for `auto`: that of the last deploy, else that of the fleet's Docker network, else a free subnet."""
    nodes = len(all_nodes(topology))
    if record is not None and record.topology.target is TargetName.DOCKER:
        return network_around(all_nodes(record.topology)[0].address, nodes)
    networks = engine.networks()
    own = _own(topology, networks)
    if own is not None and own.subnets:
        return own.subnets[0]
    taken = [*routed_networks(), *(subnet for network in networks for subnet in network.subnets)]
    for candidate in candidates(topology.name, nodes):
        if not any(candidate.overlaps(other) for other in taken):
            return candidate
    raise Unreachable("no network within 172.16.0.0/12 is free for this fleet", hint=_HINT)


def check_network(topology: Topology, engine: DockerEngine) -> None:
    """Raise Unreachable if the fleet's network exists with another subnet.

    If the fleet has no network yet, raise Unreachable if another network or a route overlaps the fleet's subnet.
    """
    wanted, networks = network_of(topology), engine.networks()
    own = _own(topology, networks)
    if own is not None:
        if own.subnets != (wanted,):
            has = ", ".join(map(str, own.subnets)) or "no subnet"
            hint = f"if no container uses it: `docker network rm {own.name}`, then deploy again"
            raise Unreachable(f"network {own.name} has {has}, this fleet wants {wanted}", hint=hint)
        return
    for network in networks:
        for subnet in network.subnets:
            if subnet.overlaps(wanted):
                raise Unreachable(
                    f"docker.subnet {wanted} is taken: Docker network {network.name} has {subnet}", hint=_HINT
                )
    for route in routed_networks():
        if route.overlaps(wanted):
            raise Unreachable(f"docker.subnet {wanted} is taken: this machine has a route to {route}", hint=_HINT)


def has_network(topology: Topology, engine: DockerEngine) -> bool:
    """Whether the fleet's network exists."""
    return _own(topology, engine.networks()) is not None


def _own(topology: Topology, networks: tuple[Network, ...]) -> Network | None:
    project = project_name(topology.name)
    return next((one for one in networks if one.name == project and one.labels.get(PROJECT) == project), None)
