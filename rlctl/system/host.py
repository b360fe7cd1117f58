"""Reads the facts of this machine without privileges or subprocesses; a fact that cannot be read is None."""

import ctypes
import os
import resource
import shutil
import sys
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

import psutil

from rlctl.system.host_facts import (
    HostFacts,
    MemoryFacts,
    parse_clock,
    parse_count,
    parse_limit,
    parse_meminfo,
    parse_platform,
    parse_port_range,
    parse_reserved_ports,
    parse_thp_mode,
)
from rlctl.topology.subnets import parse_routes

_PROC_SYS: Final = Path("/proc/sys")
_THP: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_ROUTES: Final = Path("/proc/net/route")
_MEMINFO: Final = Path("/proc/meminfo")


class _Timex(ctypes.Structure):
    """The kernel's `struct timex`: its fields up to the status word, and enough room for the remaining fields."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("frequency", ctypes.c_long),
        ("max_error", ctypes.c_long),
        ("estimated_error", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 512),
    )


def busy_s() -> float:
    """Busy seconds since boot, summed over all processors of this machine."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def processors() -> int:
    """Number of logical processors of this machine."""
    return psutil.cpu_count() or 1


def own_addresses() -> frozenset[str]:
    """All addresses of this machine's network interfaces."""
    return frozenset(one.address for found in psutil.net_if_addrs().values() for one in found)


def routed_networks() -> tuple[IPv4Network, ...]:
    """The networks in this machine's routing table, without the default route; empty if the table cannot be read."""
    return parse_routes(_text(_ROUTES))


def read_host_facts(state_folder: Path) -> HostFacts:
    """Read all facts that the host checks need; never raises."""
    soft, hard = _open_files()
    disk_total, disk_free = _disk(state_folder)
    memory = _memory()
    return HostFacts(
        platform=parse_platform(sys.platform),
        overcommit_memory=parse_count(_text(_PROC_SYS / "vm/overcommit_memory")),
        thp_mode=parse_thp_mode(_text(_THP)),
        open_files_soft=soft,
        open_files_hard=hard,
        memory_total_bytes=memory.total_bytes,
        memory_available_bytes=memory.available_bytes,
        swap_total_bytes=memory.swap_total_bytes,
        swap_used_bytes=memory.swap_used_bytes,
        somaxconn=parse_count(_text(_PROC_SYS / "net/core/somaxconn")),
        ephemeral_ports=parse_port_range(_text(_PROC_SYS / "net/ipv4/ip_local_port_range")),
        reserved_ports=_reserved_ports(),
        clock_synchronised=_clock_synchronised(),
        state_folder=str(state_folder),
        disk_total_bytes=disk_total,
        disk_free_bytes=disk_free,
        cpus=os.cpu_count(),
    )


def _text(path: Path) -> str:
    """The file's text; empty if the file cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _reserved_ports() -> tuple[tuple[int, int], ...] | None:
    # Do not use `_text` here: it returns an empty text for an unreadable file, but an empty file means that no port is
    # reserved.
    try:
        return parse_reserved_ports((_PROC_SYS / "net/ipv4/ip_local_reserved_ports").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _open_files() -> tuple[int | None, int | None]:
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    except (OSError, ValueError):
        return None, None
    return parse_limit(soft, resource.RLIM_INFINITY), parse_limit(hard, resource.RLIM_INFINITY)


def _memory() -> MemoryFacts:
    text = _text(_MEMINFO)
    return parse_meminfo(text) if text else _memory_by_psutil()


def _memory_by_psutil() -> MemoryFacts:
    # macOS has no /proc.
    try:
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    except (OSError, ValueError, RuntimeError):
        return MemoryFacts()
    return MemoryFacts(
        total_bytes=memory.total,
        available_bytes=memory.available,
        swap_total_bytes=swap.total,
        swap_used_bytes=swap.used,
    )


def _clock_synchronised() -> bool | None:
    # With 0 in the field `modes`, adjtimex only reads the state of the clock, for which it needs no privileges.
    try:
        adjtimex = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError):  # macOS has no adjtimex
        return None
    timex = _Timex(modes=0)
    returned = int(adjtimex(ctypes.byref(timex)))
    return parse_clock(returned, timex.status)


def _disk(folder: Path) -> tuple[int | None, int | None]:
    """Total and free bytes of the folder's file system. If the folder is missing, its nearest parent counts."""
    try:
        place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
        usage = shutil.disk_usage(place)
    except (OSError, ValueError, StopIteration):
        return None, None
    return usage.total, usage.free
