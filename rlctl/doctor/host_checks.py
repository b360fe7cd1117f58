"""Checks of the topology and of the machines that run the fleet."""

from collections.abc import Iterable, Mapping

from rlctl.doctor.kernel_checks import kernel_checks
from rlctl.doctor.model import Check, sort_checks
from rlctl.doctor.network_checks import network_checks
from rlctl.doctor.remote_checks import remote_checks
from rlctl.doctor.resource_checks import resource_checks
from rlctl.doctor.shape_checks import shape_checks
from rlctl.system.host_facts import HostFacts
from rlctl.topology.model import TargetName, Topology


def host_checks(
    topology: Topology, facts: HostFacts, machines: Mapping[str, HostFacts | str] | None = None
) -> tuple[Check, ...]:
    """The checks of the topology and of the machines, most urgent first.

    `facts` describes this machine. `machines` maps each host of target hosts to its facts, or to the read error.
    """
    return sort_checks((*shape_checks(topology), *_machine_checks(topology, facts, machines or {})))


def _machine_checks(topology: Topology, facts: HostFacts, machines: Mapping[str, HostFacts | str]) -> Iterable[Check]:
    # With target hosts no node runs on this machine, so its facts say nothing about the fleet.
    if topology.target is TargetName.HOSTS:
        return remote_checks(topology, machines)
    return (
        *kernel_checks(topology, facts),
        *network_checks(topology, facts),
        *resource_checks(topology, facts),
    )
