"""What `rlctl --help` costs over starting Python at all."""

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from fleet import rlctl_argv

RUNS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """Medians of alternating runs."""

    python_ms: float
    help_ms: float

    @property
    def extra_ms(self) -> float:
        """What rlctl adds."""
        return self.help_ms - self.python_ms


def run_ms(argv: Sequence[str]) -> float:
    """One run's wall time."""
    started = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, timeout=60)
    return (time.perf_counter() - started) * 1000


def measure_startup() -> Startup:
    """Alternate both, after one run of each that warms the caches."""
    bare, full = [sys.executable, "-c", "pass"], rlctl_argv("--help")
    pairs = [(run_ms(bare), run_ms(full)) for _ in range(RUNS + 1)][1:]
    return Startup(python_ms=median(pair[0] for pair in pairs), help_ms=median(pair[1] for pair in pairs))
