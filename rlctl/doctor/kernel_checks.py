"""Checks of kernel settings and limits that a server needs to fork, to accept clients and to keep time."""

from typing import Final

from rlctl.doctor.model import Check, passed, unread, warned
from rlctl.render.redis_conf import OWN_OPEN_FILES, open_files
from rlctl.system.host_facts import UNLIMITED, HostFacts
from rlctl.topology.model import TargetName, Topology

MACHINE: Final = "this machine"
_LINUX_ONLY: Final = "nothing to do: this setting exists on Linux only"


def kernel_checks(topology: Topology, facts: HostFacts) -> tuple[Check, ...]:
    """The checks of overcommit, huge pages, open files and the clock."""
    return (_overcommit(facts), _huge_pages(facts), _file_limit(topology, facts), _clock(facts))


def by_hand(facts: HostFacts, command: str) -> str:
    """The fix for a Linux setting that could not be read."""
    return _LINUX_ONLY if facts.platform == "darwin" else f"check by hand: {command}"


def _overcommit(facts: HostFacts) -> Check:
    name, seen = "overcommit-memory", facts.overcommit_memory
    if seen is None:
        return unread(
            name,
            MACHINE,
            "vm.overcommit_memory could not be read",
            by_hand(facts, "sysctl -n vm.overcommit_memory"),
        )
    evidence = f"vm.overcommit_memory is {seen}"
    if seen == 1:
        return passed(name, MACHINE, evidence)
    return warned(
        name,
        MACHINE,
        f"{evidence}: the fork for a save, an AOF rewrite or a full resync may fail when memory is tight",
        "sysctl vm.overcommit_memory=1; to keep it after a reboot, add it to a file in /etc/sysctl.d/",
    )


def _huge_pages(facts: HostFacts) -> Check:
    name, mode = "transparent-huge-pages", facts.thp_mode
    if mode is None:
        return unread(
            name,
            MACHINE,
            "the mode of transparent huge pages could not be read",
            by_hand(facts, "cat /sys/kernel/mm/transparent_hugepage/enabled"),
        )
    evidence = f"transparent huge pages: {mode}"
    if mode != "always":
        return passed(name, MACHINE, evidence)
    return warned(
        name,
        MACHINE,
        f"{evidence}; unless the server opts out (disable-thp), every first write to a page after a fork "
        "copies 2 MiB, which costs latency and memory",
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, at every boot",
    )


def _file_limit(topology: Topology, facts: HostFacts) -> Check:
    name, soft, hard = "file-limit", facts.open_files_soft, facts.open_files_hard
    if topology.target is TargetName.DOCKER:
        return passed(name, "containers", f"open files: each node gets the {open_files(topology)} that it needs")
    if soft is None or hard is None:
        return unread(
            name, MACHINE, "the limit of open files could not be read", "check by hand: ulimit -Sn; ulimit -Hn"
        )
    wanted = open_files(topology)
    evidence = (
        f"open files: soft {_limit(soft)}, hard {_limit(hard)}; "
        f"a node needs {wanted} (maxclients {wanted - OWN_OPEN_FILES} + {OWN_OPEN_FILES})"
    )
    if soft >= wanted:
        return passed(name, MACHINE, evidence)
    # When Redis starts, it raises its soft limit up to the hard limit, so a hard limit that is high enough suffices.
    if hard >= wanted:
        return passed(name, MACHINE, f"{evidence}; the server raises the soft limit by itself")
    return warned(
        name,
        MACHINE,
        f"{evidence}; without root privileges, a server lowers maxclients to {max(0, hard - OWN_OPEN_FILES)}",
        f"as root: ulimit -Hn {wanted}; to keep it: '* hard nofile {wanted}' in "
        "/etc/security/limits.d/rlctl.conf, then log in again",
    )


def _limit(value: int) -> str:
    return "unlimited" if value >= UNLIMITED else str(value)


def _clock(facts: HostFacts) -> Check:
    name, synchronised = "clock", facts.clock_synchronised
    if synchronised is None:
        return unread(
            name,
            MACHINE,
            "the synchronisation of the clock could not be read",
            "check by hand: timedatectl, chronyc tracking",
        )
    if synchronised:
        return passed(name, MACHINE, "the kernel reports that the clock is synchronised")
    return warned(
        name,
        MACHINE,
        "the kernel reports that the clock is not synchronised: the windows of limits shift when the clock is set, "
        "and a failover shifts them by the difference between the clocks of two machines",
        "start a time service: timedatectl set-ntp true, or chronyd",
    )
