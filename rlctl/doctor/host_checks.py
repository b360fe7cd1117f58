"""The host half of doctor: are the machines, and the topology's shape, fit for the fleet?"""

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
    """Every check that needs only the topology and the facts of machines, the most urgent first.

    `facts` are this machine's; `machines` are those of target hosts, or why one could not be read.
    """
    return sort_checks((*shape_checks(topology), *_machine_checks(topology, facts, machines or {})))


def _machine_checks(topology: Topology, facts: HostFacts, machines: Mapping[str, HostFacts | str]) -> Iterable[Check]:
    # The fleet of target hosts lives elsewhere; judging it by the operator's machine would be made up.
    if topology.target is TargetName.HOSTS:
        return remote_checks(topology, machines)
    return (
        *kernel_checks(topology, facts),
        *network_checks(topology, facts),
        *resource_checks(topology, facts),
    )
