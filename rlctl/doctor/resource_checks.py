"""Checks whether memory, swap, disk and CPUs of this machine suffice for a fleet of full nodes."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from rlctl.doctor.kernel_checks import MACHINE
from rlctl.doctor.model import Check, failed, passed, unread, warned
from rlctl.system.host_facts import HostFacts
from rlctl.topology.model import PersistenceMode, Topology
from rlctl.topology.nodes import all_nodes, data_nodes

_KIB: Final = 1024
# Less swap than this is not a problem, because idle daemons use a little swap on any long-running machine.
_SWAP_NOISE_BYTES: Final = 64 * _KIB * _KIB
# The disk must have room for two files: the current one, and the one that a save or rewrite is writing.
_DISK_COPIES: Final = 2
_DISK_FLOOR: Final = 0.05
_SWAP_BY_HAND: Final = "check by hand: swapon --show, or sysctl vm.swapusage on macOS"


def resource_checks(topology: Topology, facts: HostFacts) -> tuple[Check, ...]:
    """The checks of memory, swap, disk and CPUs."""
    return (
        _memory(topology, facts),
        _swap_present(facts),
        _swap_in_use(facts),
        _disk(topology, facts),
        _cpu(topology, facts),
    )


def machines_without_memory(
    before: Topology, after: Topology, machines: Mapping[str | None, HostFacts]
) -> Iterator[str]:
    """Yield a sentence for each machine without enough free memory for the growth of maxmemory (None: this machine)."""
    growth = after.memory.maxmemory_bytes - before.memory.maxmemory_bytes
    for host, count in Counter(spec.host for spec in data_nodes(after)).items():
        available = machines[host].memory_available_bytes
        if available is not None and count * growth > available:
            yield (
                f"{MACHINE if host is None else f'host {host}'}: {count} data nodes x {size_text(growth)} more = "
                f"{size_text(count * growth)}; {size_text(available)} is available"
            )


def size_text(size_bytes: int) -> str:
    """A size such as `1.5 GiB`."""
    value = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < _KIB:
            return f"{value:.4g} {unit}"
        value /= _KIB
    return f"{value:.4g} TiB"


def _known_size(size_bytes: int | None) -> str:
    return "an unknown amount" if size_bytes is None else size_text(size_bytes)


def _data_bytes(topology: Topology) -> int:
    return len(data_nodes(topology)) * topology.memory.maxmemory_bytes


def _memory(topology: Topology, facts: HostFacts) -> Check:
    name, need = "memory", _data_bytes(topology)
    total, available = facts.memory_total_bytes, facts.memory_available_bytes
    fix = "lower memory.maxmemory, deploy fewer nodes, or use a larger machine"
    if need == 0:
        return warned(name, MACHINE, "maxmemory is 0: nodes grow until the kernel kills one", "set memory.maxmemory")
    evidence = (
        f"{len(data_nodes(topology))} data nodes x {size_text(topology.memory.maxmemory_bytes)} = "
        f"{size_text(need)} of {_known_size(total)}, {_known_size(available)} of it available; "
        "while nodes save or resync, copy-on-write may take up to as much again"
    )
    if total is not None and need > total:
        return failed(name, MACHINE, f"{evidence}; full nodes do not fit", fix)
    if available is not None and need > available:
        return warned(
            name,
            MACHINE,
            f"{evidence}; this is more than is available, unless running nodes already use the difference",
            fix,
        )
    if total is None or available is None:
        return unread(name, MACHINE, evidence, "check by hand: free -m, or vm_stat on macOS")
    return passed(name, MACHINE, evidence)


def _swap_present(facts: HostFacts) -> Check:
    name, total = "swap-present", facts.swap_total_bytes
    if total is None:
        return unread(name, MACHINE, "the size of swap could not be read", _SWAP_BY_HAND)
    if total == 0:
        return passed(name, MACHINE, "no swap: when memory runs out, the kernel kills a process at once")
    return passed(
        name,
        MACHINE,
        f"{size_text(total)} of swap: when memory runs out, nodes become slow before the kernel kills one",
    )


def _swap_in_use(facts: HostFacts) -> Check:
    name, used = "swap-in-use", facts.swap_used_bytes
    if used is None:
        return unread(name, MACHINE, "the use of swap could not be read", _SWAP_BY_HAND)
    evidence = f"{size_text(used)} of {_known_size(facts.swap_total_bytes)} swap used"
    if used <= _SWAP_NOISE_BYTES:
        return passed(name, MACHINE, evidence)
    return warned(
        name,
        MACHINE,
        f"{evidence}: a node whose pages are in swap answers in milliseconds instead of microseconds",
        "find the swapped processes (grep VmSwap /proc/*/status), free memory, then swapoff -a && swapon -a",
    )


def _disk(topology: Topology, facts: HostFacts) -> Check:
    name, subject = "disk", facts.state_folder or "state folder"
    total, free = facts.disk_total_bytes, facts.disk_free_bytes
    if total is None or free is None:
        return unread(name, subject, "the free space could not be read", "check by hand: df -h")
    need = _disk_bytes(topology)
    evidence = f"{size_text(free)} free of {size_text(total)}; {_disk_use(topology)}"
    if free < total * _DISK_FLOOR:
        return failed(
            name, subject, f"{evidence}; less than {_DISK_FLOOR:.0%} free", "free disk space, or move RLCTL_HOME"
        )
    if free < need:
        return warned(
            name, subject, evidence, "free disk space, move RLCTL_HOME to a larger disk, or lower memory.maxmemory"
        )
    return passed(name, subject, evidence)


def _disk_bytes(topology: Topology) -> int:
    persists = topology.persistence.mode is not PersistenceMode.NONE
    return _data_bytes(topology) * _DISK_COPIES if persists else 0


def _disk_use(topology: Topology) -> str:
    mode = topology.persistence.mode
    if mode is PersistenceMode.NONE:
        return "without persistence nodes write no data"
    nodes = f"{len(data_nodes(topology))} data nodes x {size_text(topology.memory.maxmemory_bytes)}"
    return f"{nodes} x {_DISK_COPIES} ({mode.value} file and its rewrite) = {size_text(_disk_bytes(topology))}"


def _cpu(topology: Topology, facts: HostFacts) -> Check:
    name, nodes = "cpu", len(all_nodes(topology))
    if facts.cpus is None:
        return unread(name, MACHINE, f"{nodes} nodes on an unknown number of CPUs", "check by hand: nproc")
    shared = "; they share CPUs, so latency under load is no estimate for separate hosts" if nodes > facts.cpus else ""
    return passed(name, MACHINE, f"{nodes} nodes on {facts.cpus} CPUs{shared}")
