"""How decisions grow with shards, and who was the bottleneck. Pure."""

from dataclasses import dataclass

CLAIM = "linear to six nodes"
_FULL = 0.9
# With more processes than processors they wait for each other long before every moment is used.
_CROWDED = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Keys on the first so many shards.

    Client and servers count in processors; `machine_cpu` is the busy share of all processors where client and fleet
    share a machine, replicas and everything else included, and None elsewhere.
    """

    shards: int
    decisions_per_s: float
    client_cpu: float
    server_cpu: tuple[float, ...]
    machine_cpu: float | None

    @property
    def servers_cpu(self) -> float:
        """What all driven primaries took together."""
        return sum(self.server_cpu)

    @property
    def bottleneck(self) -> str:
        """What kept the level from being faster."""
        if self.machine_cpu is not None and self.machine_cpu >= _CROWDED:
            return "this machine's processors"
        if self.client_cpu >= _FULL:
            return "this client"
        if min(self.server_cpu) >= _FULL:
            return "the servers"
        return "round trips"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """One script at 1..N shards."""

    script: str
    levels: tuple[Level, ...]

    def of_linear(self, level: Level) -> float:
        """The share of what so many times one shard would be."""
        return level.decisions_per_s / (self.levels[0].decisions_per_s * level.shards)

    def to_json(self) -> dict[str, object]:
        """As `bench --scale -o json` shows it."""
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
