"""Medians of the runs, ratios to peers, and goals."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from contest import Shape, Timing
from startup import ROUND_TRIP, Startup
from table import render_table

PEER_DEFAULT = "redis-cli create"
PEER_FAST = "redis-cli create, sync delay 0"
OURS = "rlctl deploy"
HELP_GOAL_MS = 80.0
STATUS_GOAL = 2.0
LEGEND = """\
healthy: median from the first process's start until every node says so and all links are up
ratio: healthy against the faster redis-cli
whole: median time from the start of the first command to the end of the last"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The longest time to healthy, in seconds or relative to the faster peer."""

    seconds: float | None = None
    ratio: float | None = None

    def __str__(self) -> str:
        return f"ratio <= {self.ratio:g}" if self.ratio is not None else f"<= {self.seconds:g} s"

    def is_met(self, seconds: float, ratio: float | None) -> bool | None:
        """Whether the goal is met; None without a peer to compare with."""
        if self.ratio is not None:
            return None if ratio is None else ratio <= self.ratio
        return self.seconds is None or seconds <= self.seconds


GOALS = {
    Shape(shards=3, replicas=1): Goal(ratio=1.15),
    Shape(shards=15, replicas=1): Goal(ratio=0.9),
    Shape(shards=50, replicas=1): Goal(seconds=3.5),
    Shape(shards=1, replicas=2, sentinels=3): Goal(seconds=1.6),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The runs of a contestant at a shape; `baseline_s` is the median of the faster peer."""

    shape: Shape
    contestant: str
    runs: Sequence[Timing]
    baseline_s: float | None

    @property
    def healthy_s(self) -> float:
        """The median time from the first process to healthy."""
        return median(run.healthy_s for run in self.runs)

    @property
    def whole_s(self) -> float:
        """The median time from the first command to the end of the last."""
        return median(run.whole_s for run in self.runs)

    @property
    def ratio(self) -> float | None:
        """Time to healthy relative to the faster peer."""
        return None if self.baseline_s is None else self.healthy_s / self.baseline_s

    @property
    def goal(self) -> Goal | None:
        """The goal for rlctl; None for peers."""
        return GOALS.get(self.shape) if self.contestant == OURS else None

    @property
    def is_met(self) -> bool | None:
        return self.goal.is_met(self.healthy_s, self.ratio) if self.goal else None


def results_of(shape: Shape, runs: dict[str, list[Timing]]) -> list[Result]:
    """Combine the runs of all contestants at a shape."""
    peers = [median(run.healthy_s for run in runs[name]) for name in (PEER_DEFAULT, PEER_FAST) if name in runs]
    baseline_s = min(peers, default=None)
    return [Result(shape=shape, contestant=name, runs=timings, baseline_s=baseline_s) for name, timings in runs.items()]


def row(result: Result) -> list[str]:
    seconds = sorted(run.healthy_s for run in result.runs)
    return [
        result.shape.label,
        result.contestant,
        f"{result.healthy_s:.2f}",
        f"{seconds[0]:.2f}-{seconds[-1]:.2f}",
        "-" if result.ratio is None else f"{result.ratio:.2f}",
        f"{result.whole_s:.2f}",
        str(result.goal or "-"),
        {True: "met", False: "MISSED", None: "-"}[result.is_met],
    ]


def as_text(results: Sequence[Result], startup: Startup | None) -> str:
    """The report as text."""
    header = ["shape", "made by", "healthy s", "range", "ratio", "whole s", "goal", "verdict"]
    parts = [render_table(header, [row(result) for result in results]), LEGEND]
    if startup:
        parts.append(startup_text(startup))
    return "\n\n".join(parts)


def startup_text(startup: Startup) -> str:
    """Two commands of rlctl beside what they are compared with."""
    helps = "met" if startup.extra_cpu_ms <= HELP_GOAL_MS else "MISSED"
    tells = "met" if startup.ratio <= STATUS_GOAL else "MISSED"
    return (
        f"rlctl --help: {startup.help.wall_ms:.0f} ms, python -c pass: {startup.python.wall_ms:.0f} ms, "
        f"more: {startup.extra_ms:.0f} ms, of processor time {startup.extra_cpu_ms:.0f} ms "
        f"(goal <= {HELP_GOAL_MS:g} ms: {helps})\n"
        f"rlctl status of a healthy cluster 3+3: {startup.status.wall_ms:.0f} ms, "
        f"python -c '{ROUND_TRIP.format(port='PORT')}': {startup.round_trip.wall_ms:.0f} ms, "
        f"ratio: {startup.ratio:.2f}, of processor time {startup.cpu_ratio:.2f} (goal <= {STATUS_GOAL:g}: {tells})"
    )


def as_json(results: Sequence[Result], startup: Startup | None) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "schema": "rlctl-benchmark.formation/1",
        "results": [result_json(result) for result in results],
        "startup": startup
        and {
            "python_ms": startup.python.wall_ms,
            "help_ms": startup.help.wall_ms,
            "extra_ms": startup.extra_ms,
            "extra_cpu_ms": startup.extra_cpu_ms,
            "goal_ms": HELP_GOAL_MS,
            "round_trip_ms": startup.round_trip.wall_ms,
            "status_ms": startup.status.wall_ms,
            "status_ratio": startup.ratio,
            "status_cpu_ratio": startup.cpu_ratio,
            "status_goal": STATUS_GOAL,
        },
    }


def result_json(result: Result) -> dict[str, Any]:
    return {
        "shape": result.shape.label,
        "contestant": result.contestant,
        "healthy_s": result.healthy_s,
        "whole_s": result.whole_s,
        "ratio": result.ratio,
        "goal": str(result.goal) if result.goal else None,
        "met": result.is_met,
        "runs": [{"healthy_s": run.healthy_s, "whole_s": run.whole_s} for run in result.runs],
    }
