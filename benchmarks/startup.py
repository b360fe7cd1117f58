"""The time of `rlctl --help` compared with bare Python, and of `status` with one round trip of redis-py."""

import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from contest import TIMEOUT_S, ContestError, Shape
from fleet import deploying, environment, rlctl_argv, tail, topology_of
from processes import scratch
from scratch_server import scratch_server

from rlctl.system.ports import free_base_port

RUNS = 15
FLEET = Shape(shards=3, replicas=1)
BARE = "pass"
ROUND_TRIP = "import redis; redis.Redis(port={port}).ping()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One run of a command, or the medians of several: time on the clock, and processor time of user and system."""

    wall_ms: float
    cpu_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """Medians of alternating runs."""

    python: Cost
    help: Cost
    round_trip: Cost
    status: Cost

    @property
    def extra_ms(self) -> float:
        """The time that `rlctl --help` adds to bare Python."""
        return self.help.wall_ms - self.python.wall_ms

    @property
    def extra_cpu_ms(self) -> float:
        """The same in processor time, which other load on the machine hardly changes."""
        return self.help.cpu_ms - self.python.cpu_ms

    @property
    def ratio(self) -> float:
        """The time of `rlctl status` relative to one round trip of redis-py."""
        return self.status.wall_ms / self.round_trip.wall_ms

    @property
    def cpu_ratio(self) -> float:
        """The same in processor time."""
        return self.status.cpu_ms / self.round_trip.cpu_ms


def measure_startup() -> Startup:
    """Run the four commands in turn, on a new fleet and a new server."""
    with scratch() as folder, scratch_server() as server:
        (folder / "topology.yaml").write_text(topology_of(FLEET, free_base_port(FLEET.data_nodes)), encoding="utf-8")
        env = environment(folder)
        with deploying(folder, env) as process:
            if process.wait(timeout=TIMEOUT_S) != 0:
                raise ContestError(f"rlctl deploy ended with {process.returncode}:\n{tail(folder)}")
            commands = {
                "python": [sys.executable, "-c", BARE],
                "help": rlctl_argv("--help"),
                "round_trip": [sys.executable, "-c", ROUND_TRIP.format(port=server.port)],
                "status": rlctl_argv("status", "-f", "topology.yaml"),
            }
            # The first round warms the caches and is dropped.
            rounds = [{name: run(argv, folder, env) for name, argv in commands.items()} for _ in range(RUNS + 1)][1:]
    return Startup(**{name: medians([one[name] for one in rounds]) for name in commands})


def run(argv: Sequence[str], folder: Path, env: Mapping[str, str]) -> Cost:
    """Run a command, which must succeed; returns its cost."""
    used_s, started_s = used_by_children_s(), time.perf_counter()
    subprocess.run(argv, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)
    wall_s = time.perf_counter() - started_s
    return Cost(wall_ms=wall_s * 1000, cpu_ms=(used_by_children_s() - used_s) * 1000)


def used_by_children_s() -> float:
    """Processor time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def medians(costs: Sequence[Cost]) -> Cost:
    """The medians of the wall times and of the processor times."""
    return Cost(wall_ms=median(one.wall_ms for one in costs), cpu_ms=median(one.cpu_ms for one in costs))
