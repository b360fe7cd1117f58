"""The host half of doctor: is this machine, and the topology's shape, fit for the fleet?"""

from rlctl.doctor.host_facts import HostFacts
from rlctl.doctor.kernel_checks import kernel_checks
from rlctl.doctor.model import Check, sort_checks, unread
from rlctl.doctor.network_checks import network_checks
from rlctl.doctor.resource_checks import resource_checks
from rlctl.doctor.shape_checks import shape_checks
from rlctl.topology.model import TargetName, Topology


def host_checks(topology: Topology, facts: HostFacts) -> tuple[Check, ...]:
    """Every check that needs only the topology and the facts of this machine, the most urgent first."""
    return sort_checks((*shape_checks(topology), *_machine_checks(topology, facts)))


def _machine_checks(topology: Topology, facts: HostFacts) -> tuple[Check, ...]:
    # The fleet of target hosts lives elsewhere; judging it by the operator's machine would be made up.
    if topology.target is TargetName.HOSTS:
        return (_hosts_not_read(topology),)
    return (
        *kernel_checks(topology, facts),
        *network_checks(topology, facts),
        *resource_checks(topology, facts),
    )


def _hosts_not_read(topology: Topology) -> Check:
    addresses = sorted({host.address for host in topology.hosts})
    return unread(
        "host-facts",
        topology.name,
        f"kernel, memory, disk and clock of {', '.join(addresses)} were not read; "
        "the facts at hand are those of the machine that runs rlctl",
        "on each host: sysctl vm.overcommit_memory net.core.somaxconn net.ipv4.ip_local_port_range; "
        "cat /sys/kernel/mm/transparent_hugepage/enabled; ulimit -Hn; free; df; timedatectl",
    )
