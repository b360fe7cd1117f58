"""The clock of all timings: the one in which the kernel records the start of processes."""

import os
import time
from pathlib import Path

import psutil


def now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.time()


def started_s(pid: int) -> float:
    """The start of a process, to 10 ms on Linux; psutil rounds to whole seconds since boot."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return psutil.Process(pid).create_time()
    fields_after_name = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields_after_name[19]) / os.sysconf("SC_CLK_TCK")
