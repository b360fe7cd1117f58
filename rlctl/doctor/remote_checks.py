"""Checks of each host of target hosts: kernel, ports, memory, disk and clock."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from rlctl.doctor.kernel_checks import kernel_checks
from rlctl.doctor.model import Check, failed, passed, unread, warned
from rlctl.doctor.network_checks import network_checks
from rlctl.doctor.resource_checks import size_text
from rlctl.system.host_facts import HostFacts
from rlctl.topology.model import PersistenceMode, Topology
from rlctl.topology.nodes import data_nodes

# A systemd unit sets its own limit of open files, so the limit of a login shell does not matter.
_NOT_OF_A_HOST: Final = {"file-limit"}
_DISK_COPIES: Final = 2
# Reading a clock over ssh takes part of a second, and rate limits count in seconds, so a smaller offset is not a
# problem.
_OFFSET_S: Final = 2.0


def remote_checks(topology: Topology, machines: Mapping[str, HostFacts | str]) -> Iterator[Check]:
    """The checks of every host. A host that could not be read has one failed check with the reason."""
    for host, facts in machines.items():
        subject = f"host {host}"
        if isinstance(facts, str):
            yield failed("host-facts", subject, facts, "fix ssh access to the host; `rlctl deploy` needs it too")
            continue
        for check in (*kernel_checks(topology, facts), *network_checks(topology, facts)):
            if check.name not in _NOT_OF_A_HOST:
                yield replace(check, subject=subject)
        count = sum(1 for spec in data_nodes(topology) if spec.host == host)
        yield _memory(topology, subject, facts, count)
        yield _disk(topology, subject, facts, count)
        yield _offset(subject, facts)


def _memory(topology: Topology, subject: str, facts: HostFacts, count: int) -> Check:
    name, need, total = "memory", count * topology.memory.maxmemory_bytes, facts.memory_total_bytes
    if total is None:
        return unread(name, subject, "its memory could not be read", "check by hand: free -m")
    evidence = f"{count} data nodes x {size_text(topology.memory.maxmemory_bytes)} of {size_text(total)}"
    if need > total:
        return failed(name, subject, f"{evidence}; full nodes do not fit", "lower memory.maxmemory, or list more hosts")
    if need * 2 > total:
        return warned(
            name,
            subject,
            f"{evidence}; while nodes save or resync, copy-on-write may take as much again, which does not fit",
            "lower memory.maxmemory, or list more hosts",
        )
    return passed(name, subject, evidence)


def _disk(topology: Topology, subject: str, facts: HostFacts, count: int) -> Check:
    name, free = "disk", facts.disk_free_bytes
    if free is None:
        return unread(name, subject, "the free space could not be read", "check by hand: df -h /var/lib/rlctl")
    persists = topology.persistence.mode is not PersistenceMode.NONE
    need = count * topology.memory.maxmemory_bytes * _DISK_COPIES if persists else 0
    evidence = f"{size_text(free)} free; {count} data nodes and a rewrite of each may take {size_text(need)}"
    if free < need:
        return warned(name, subject, evidence, "free disk space for /var/lib/rlctl, or lower memory.maxmemory")
    return passed(name, subject, evidence)


def _offset(subject: str, facts: HostFacts) -> Check:
    name, offset = "clock-offset", facts.clock_offset_s
    if offset is None:
        return unread(name, subject, "its clock could not be read", "check by hand: date")
    evidence = f"its clock is {abs(offset):.1f} s {'ahead of' if offset > 0 else 'behind'} this machine's"
    if abs(offset) <= _OFFSET_S:
        return passed(name, subject, evidence)
    return warned(
        name,
        subject,
        f"{evidence}: a failover shifts the windows of limits by this offset",
        "start a time service on both machines: timedatectl set-ntp true, or chronyd",
    )
