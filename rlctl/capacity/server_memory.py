"""The memory of a server as INFO reports it, and when it will be full. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rlctl.capacity.layout.allocator import Allocator, classes_of
from rlctl.capacity.request import ServerVersion
from rlctl.observe.info import ServerInfo
from rlctl.observe.model import Role
from rlctl.observe.parse import required
from rlctl.topology.model import EvictionPolicy
from rlctl.topology.nodes import NodeName

SECTIONS = ("server", "clients", "memory", "stats", "replication", "keyspace")

# Housekeeping and buffers change memory by up to this much between two readings, so a smaller change is not growth.
_NOISE_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMemory:
    """The memory of one server at one moment; a figure that the server does not report is None."""

    at_s: float
    run_id: str
    is_primary: bool
    version: str
    server: ServerVersion | None
    allocator: Allocator | None
    keys: int
    used_bytes: int
    # Used memory without the buffers of connections and replication.
    state_bytes: int
    rss_bytes: int | None
    maxmemory_bytes: int
    # Memory that counts against maxmemory.
    counted_bytes: int
    policy: EvictionPolicy | None
    stale_share: float | None
    grstate_bytes: int | None
    uptime_s: int

    @property
    def fragmentation(self) -> float | None:
        """RSS divided by used memory."""
        return None if self.rss_bytes is None else self.rss_bytes / self.used_bytes

    @property
    def headroom_bytes(self) -> int | None:
        """Bytes left until the server refuses writes or evicts; None without maxmemory."""
        return self.maxmemory_bytes - self.counted_bytes if self.maxmemory_bytes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The growth of the fleet and the time until its first shard is full; `source` is `samples` or `uptime`."""

    bytes_per_s: float
    full_in_s: float | None
    source: str

    def to_json(self) -> dict[str, object]:
        return {"bytes_per_s": self.bytes_per_s, "full_in_s": self.full_in_s, "from": self.source}


def server_memory(info: ServerInfo, malloc_stats: str, at_s: float) -> ServerMemory:
    """The memory of a server from INFO and MEMORY MALLOC-STATS; BadReply if INFO has no used_memory."""
    used_bytes = required(info.used_bytes, "used_memory")
    # Leave out buffers, because their growth does not continue: connections come and go, and the backlog stops growing
    # at its configured size.
    buffer_bytes = (info.client_buffer_bytes or 0) + (info.replication_buffer_bytes or 0)
    state_bytes = used_bytes - buffer_bytes
    policies = {policy.value: policy for policy in EvictionPolicy}
    is_primary = info.role is Role.PRIMARY
    stale_percent = info.expired_stale_percent if is_primary else None
    return ServerMemory(
        at_s=at_s,
        run_id=info.run_id or "",
        is_primary=is_primary,
        version=f"{info.flavor}-{info.version}",
        server=ServerVersion.of(info.flavor, tuple(int(part) for part in info.version.split(".") if part.isdigit())),
        allocator=classes_of(malloc_stats),
        keys=info.keys,
        used_bytes=used_bytes,
        state_bytes=state_bytes,
        rss_bytes=info.rss_bytes,
        maxmemory_bytes=info.maxmemory_bytes or 0,
        counted_bytes=used_bytes - (info.uncounted_bytes or 0),
        policy=policies.get(info.eviction_policy or ""),
        stale_share=None if stale_percent is None else stale_percent / 100,
        grstate_bytes=None if info.startup_bytes is None else max(0, state_bytes - info.startup_bytes),
        uptime_s=info.uptime_s or 0,
    )


def forecast(series: Mapping[NodeName, Sequence[ServerMemory]]) -> Forecast | None:
    """Forecast when the first shard is full, from the readings of each primary in order of time.

    If a primary restarted or has only one reading, the forecast uses the mean growth of each primary since its start.
    None if that growth is unknown.
    """
    if not series:
        return None
    pairs = {name: (readings[0], readings[-1]) for name, readings in series.items() if _is_one_run(readings)}
    if len(pairs) == len(series):
        rates = {name: growth_rate(*pair) for name, pair in pairs.items()}
        return _forecast(rates, series, "samples")
    since = {
        name: readings[-1].grstate_bytes / readings[-1].uptime_s
        for name, readings in series.items()
        if readings[-1].grstate_bytes is not None and readings[-1].uptime_s
    }
    return _forecast(since, series, "uptime") if len(since) == len(series) else None


def _is_one_run(readings: Sequence[ServerMemory]) -> bool:
    """Whether there are several readings, all of one process that remained primary."""
    same = all(a.run_id == b.run_id and b.is_primary for a, b in pairwise(readings))
    return len(readings) > 1 and same and readings[-1].at_s > readings[0].at_s


def growth_rate(first: ServerMemory, last: ServerMemory) -> float:
    """Growth in bytes per second; 0 if housekeeping alone could explain the change."""
    grown = last.state_bytes - first.state_bytes
    return 0.0 if abs(grown) < _NOISE_BYTES else grown / (last.at_s - first.at_s)


def _forecast(
    rates: Mapping[NodeName, float], series: Mapping[NodeName, Sequence[ServerMemory]], source: str
) -> Forecast:
    ends = []
    for name, rate in rates.items():
        headroom = series[name][-1].headroom_bytes
        if headroom is not None and rate > 0:
            ends.append(max(0.0, headroom / rate))
    return Forecast(bytes_per_s=sum(rates.values()), full_in_s=min(ends, default=None), source=source)
