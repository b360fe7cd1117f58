"""Shapes of fleets, timings, and the type of a contestant."""

from collections.abc import Callable
from dataclasses import dataclass

TIMEOUT_S = 120.0


class ContestError(RuntimeError):
    """A contestant could not be run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A cluster of shards with replicas, or a Sentinel fleet of one primary."""

    shards: int
    replicas: int
    sentinels: int = 0

    @property
    def data_nodes(self) -> int:
        return self.shards * (1 + self.replicas)

    @property
    def label(self) -> str:
        """The shape in short form, such as `cluster 3+3`."""
        if self.sentinels:
            return f"sentinel {self.shards}+{self.replicas}+{self.sentinels}"
        return f"cluster {self.shards}+{self.shards * self.replicas}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The times of a run: from the first process to healthy, and from the first command to the end of the last."""

    healthy_s: float
    whole_s: float


Contestant = Callable[[Shape], Timing]
