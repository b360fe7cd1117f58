"""What is asked of a prediction: algorithm, encoding, sizes and the server that it is for. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum

from rlctl.capacity.layout.allocator import Allocator
from rlctl.capacity.layout.listpack import Form
from rlctl.topology.model import EvictionPolicy

SLOTS = 16_384
SCRIPT = "script"


class Server(StrEnum):
    """The server families whose memory layout was measured; there is no formula for any other."""

    REDIS_7_0 = "redis-7.0"
    REDIS_8_0 = "redis-8.0"
    VALKEY_8_1 = "valkey-8.1"

    @classmethod
    def of(cls, flavor: str, version: tuple[int, ...]) -> "Server | None":
        """The family of a running server, where it is one of these."""
        name = f"{flavor}-{'.'.join(str(part) for part in version[:2])}"
        return next((server for server in cls if server.value == name), None)


class Algorithm(StrEnum):
    """The limiters."""

    TOKEN_BUCKET = "token_bucket"  # noqa: S105  an algorithm, no secret
    GCRA = "gcra"
    FIXED_WINDOW = "fixed_window"
    SLIDING_COUNTER = "sliding_counter"
    ROLLING_WINDOW = "rolling_window"
    ROLLING_RING = "rolling_ring"
    CONCURRENT = "concurrent"

    @property
    def is_log(self) -> bool:
        """Whether it keeps an entry for each request or lease: all of it is written anew during a snapshot."""
        return self in {Algorithm.ROLLING_WINDOW, Algorithm.ROLLING_RING, Algorithm.CONCURRENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Users at their full limit, on one primary of a named kind."""

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
    server: Server = Server.REDIS_8_0
    allocator: Allocator = Allocator.UPSTREAM
    policy: EvictionPolicy = EvictionPolicy.NOEVICTION
    zset_max_listpack_entries: int = 128
    slots: int | None = None

    @property
    def shares_integers(self) -> bool:
        """Whether small integers are the server's own; with an LRU or LFU policy each key needs its own."""
        return not self.policy.value.endswith(("lru", "lfu"))
