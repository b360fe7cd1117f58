"""The input of a prediction: algorithm, encoding, sizes and server. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum

from rlctl.capacity.layout.allocator import Allocator
from rlctl.capacity.layout.listpack import Form
from rlctl.topology.model import EvictionPolicy

SLOTS = 16_384
SCRIPT = "script"


class ServerVersion(StrEnum):
    """A server version whose memory layout was measured. Formulas exist for these versions only."""

    REDIS_7_0 = "redis-7.0"
    REDIS_8_0 = "redis-8.0"
    VALKEY_8_1 = "valkey-8.1"

    @classmethod
    def of(cls, flavor: str, version: tuple[int, ...]) -> "ServerVersion | None":
        """The version of a running server; None if its memory layout was not measured."""
        name = f"{flavor}-{'.'.join(str(part) for part in version[:2])}"
        return next((server for server in cls if server.value == name), None)


class Algorithm(StrEnum):
    TOKEN_BUCKET = "token_bucket"  # noqa: S105  an algorithm, no secret
    GCRA = "gcra"
    FIXED_WINDOW = "fixed_window"
    SLIDING_COUNTER = "sliding_counter"
    ROLLING_WINDOW = "rolling_window"
    ROLLING_RING = "rolling_ring"
    CONCURRENT = "concurrent"

    @property
    def is_log(self) -> bool:
        """Whether the state has an entry for each request or lease.

        A write to such a state during a snapshot may copy all entries.
        """
        return self in {Algorithm.ROLLING_WINDOW, Algorithm.ROLLING_RING, Algorithm.CONCURRENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest:
    """Users at their full limit on one primary. `slots` is the primary's number of slots, or None outside a cluster."""

    algorithm: Algorithm
    encoding: str = SCRIPT
    limit: int = 100
    users: int = 1_000_000
    key_length: int = 40
    member: Form = field(default_factory=lambda: Form(name="ms"))
    score: Form = field(default_factory=lambda: Form(name="ms"))
    rate: int = 100
    period_ms: int = 1_000
    window_ms: int = 60_000
    has_ttl: bool = True
    server: ServerVersion = ServerVersion.REDIS_8_0
    allocator: Allocator = Allocator.UPSTREAM
    policy: EvictionPolicy = EvictionPolicy.NOEVICTION
    zset_max_listpack_entries: int = 128
    slots: int | None = None

    @property
    def shares_integers(self) -> bool:
        """Whether keys share the server's small integers. Under an LRU or LFU policy, each key has its own copy."""
        return not self.policy.value.endswith(("lru", "lfu"))
