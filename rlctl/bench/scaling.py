"""How decisions scale with shards, and what the bottleneck is. Pure."""

from dataclasses import dataclass

CLAIM = "linear to six nodes"
_FULL = 0.9
# From this share on, this machine's processors count as the bottleneck: with more processes than processors, processes
# wait for each other long before the processors are fully busy.
_CROWDED = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingLevel:
    """A measurement with keys on the first `shards` shards.

    `client_cpu` and `server_cpu` (one figure for each primary) count busy processors. `machine_cpu` is the busy share
    of this machine's processors, including other processes; None unless the client and the fleet run on one machine.
    """

    shards: int
    decisions_per_s: float
    client_cpu: float
    server_cpu: tuple[float, ...]
    machine_cpu: float | None

    @property
    def servers_cpu(self) -> float:
        """Processors that all measured primaries used together."""
        return sum(self.server_cpu)

    @property
    def bottleneck(self) -> str:
        """What limited the throughput."""
        if self.machine_cpu is not None and self.machine_cpu >= _CROWDED:
            return "this machine's processors"
        if self.client_cpu >= _FULL:
            return "this client"
        if min(self.server_cpu) >= _FULL:
            return "the servers"
        return "round trips"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Measurements of a script on 1 to N shards."""

    script: str
    levels: tuple[ScalingLevel, ...]

    def of_linear(self, level: ScalingLevel) -> float:
        """Throughput relative to linear scaling from one shard."""
        return level.decisions_per_s / (self.levels[0].decisions_per_s * level.shards)

    def to_json(self) -> dict[str, object]:
        return {
            "script": self.script,
            "claim": CLAIM,
            "levels": [
                {
                    "shards": level.shards,
                    "decisions_per_s": level.decisions_per_s,
                    "of_linear": self.of_linear(level),
                    "client_cpu": level.client_cpu,
                    "server_cpu": list(level.server_cpu),
                    "machine_cpu": level.machine_cpu,
                    "bottleneck": level.bottleneck,
                }
                for level in self.levels
            ],
        }
