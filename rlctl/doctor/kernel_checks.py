"""Kernel settings and limits that decide whether a server can fork, accept clients and keep time."""

from typing import Final

from rlctl.doctor.model import Check, passed, unread, warned
from rlctl.render.redis_conf import OWN_OPEN_FILES, open_files
from rlctl.system.host_facts import UNLIMITED, HostFacts
from rlctl.topology.model import TargetName, Topology

MACHINE: Final = "this machine"
_LINUX_ONLY: Final = "nothing to do: this setting exists on Linux only"


def kernel_checks(topology: Topology, facts: HostFacts) -> tuple[Check, ...]:
    """Overcommit, huge pages, open files and the clock."""
    return (_overcommit(facts), _huge_pages(facts), _file_limit(topology, facts), _clock(facts))


def by_hand(facts: HostFacts, command: str) -> str:
    """How to look at a Linux setting that could not be read."""
    return _LINUX_ONLY if facts.platform == "darwin" else f"look by hand: {command}"


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
        "sysctl vm.overcommit_memory=1, and the same line in /etc/sysctl.d/ to keep it",
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
        f"{evidence}; where a server cannot opt out by itself (disable-thp), "
        "every write after a fork copies 2 MiB: latency, and memory on top",
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, at every boot",
    )


def _file_limit(topology: Topology, facts: HostFacts) -> Check:
    name, soft, hard = "file-limit", facts.open_files_soft, facts.open_files_hard
    if topology.target is TargetName.DOCKER:
        return passed(name, "containers", f"open files: each node gets the {open_files(topology)} that it wants")
    if soft is None or hard is None:
        return unread(
            name, MACHINE, "the limit of open files could not be read", "look by hand: ulimit -Sn; ulimit -Hn"
        )
    wanted = open_files(topology)
    evidence = (
        f"open files: soft {_limit(soft)}, hard {_limit(hard)}; "
        f"a node wants {wanted} (maxclients {wanted - OWN_OPEN_FILES} + {OWN_OPEN_FILES})"
    )
    if soft >= wanted:
        return passed(name, MACHINE, evidence)
    # Seen with a real server: it lifts its soft limit by itself, so only the hard one can hold it back.
    if hard >= wanted:
        return passed(name, MACHINE, f"{evidence}; the server raises the soft limit by itself")
    return warned(
        name,
        MACHINE,
        f"{evidence}; a server without privileges lowers maxclients to {max(0, hard - OWN_OPEN_FILES)}",
        f"as root: ulimit -Hn {wanted}; to keep it: '* hard nofile {wanted}' in "
        "/etc/security/limits.d/rlctl.conf and a new login",
    )


def _limit(value: int) -> str:
    return "unlimited" if value >= UNLIMITED else str(value)


def _clock(facts: HostFacts) -> Check:
    name, synchronised = "clock", facts.clock_synchronised
    if synchronised is None:
        return unread(
            name,
            MACHINE,
            "whether the clock is synchronised could not be read",
            "look by hand: timedatectl, chronyc tracking",
        )
    if synchronised:
        return passed(name, MACHINE, "the kernel says that the clock is synchronised")
    return warned(
        name,
        MACHINE,
        "the kernel says that the clock is not synchronised: limits' windows shift at a failover by the skew "
        "between nodes of different machines, and on one machine whenever its clock is set",
        "start a time service: timedatectl set-ntp true, or chronyd",
    )
