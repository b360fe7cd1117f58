"""One clock for everything timed: the one in which the kernel also notes when a process started."""

import os
import time
from pathlib import Path

import psutil


def now_s() -> float:
    """Seconds on that clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.time()


def started_s(pid: int) -> float:
    """When a process was started, to 10 ms on Linux; psutil alone would round to the boot's second."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return psutil.Process(pid).create_time()
    fields_after_name = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields_after_name[19]) / os.sysconf("SC_CLK_TCK")
