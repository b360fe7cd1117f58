"""What INFO says of one server's memory. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rlctl.capacity.layout.allocator import Allocator, classes_of
from rlctl.capacity.request import Server
from rlctl.observe.parse import info, key_count, server_family
from rlctl.topology.model import EvictionPolicy
from rlctl.topology.nodes import NodeName

SECTIONS = ("server", "clients", "memory", "stats", "replication", "keyspace")

# What housekeeping and buffers of connections move between two looks.
_NOISE_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One server at one moment; what it does not tell is None."""

    at_s: float
    run_id: str
    is_primary: bool
    version: str
    server: Server | None
    allocator: Allocator | None
    keys: int
    used_bytes: int
    own_bytes: int
    rss_bytes: int | None
    maxmemory_bytes: int
    counted_bytes: int
    policy: EvictionPolicy | None
    stale_share: float | None
    grown_bytes: int | None
    uptime_s: int

    @property
    def fragmentation(self) -> float | None:
        """RSS against used memory."""
        return None if self.rss_bytes is None else self.rss_bytes / self.used_bytes

    @property
    def headroom_bytes(self) -> int | None:
        """Until the server refuses writes or evicts; None where it never does."""
        return self.maxmemory_bytes - self.counted_bytes if self.maxmemory_bytes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """How fast the fleet fills, and when the first shard is full; `source` is what that was seen in."""

    bytes_per_s: float
    full_in_s: float | None
    source: str

    def to_json(self) -> dict[str, object]:
        """As `measure` shows it."""
        return {"bytes_per_s": self.bytes_per_s, "full_in_s": self.full_in_s, "from": self.source}


def read_info(text: str, malloc_stats: str, at_s: float) -> Reading:
    """INFO and MEMORY MALLOC-STATS of one server."""
    facts = info(text)
    flavor, version = server_family(facts)
    used = int(facts["used_memory"])
    # Connections come and go, and the backlog grows to its size and stays: neither is state that fills the server.
    around = sum(_number(facts, name) or 0 for name in ("mem_clients_normal", "mem_total_replication_buffers"))
    policies = {policy.value: policy for policy in EvictionPolicy}
    is_primary = facts.get("role") == "master"
    startup = _number(facts, "used_memory_startup")
    return Reading(
        at_s=at_s,
        run_id=facts.get("run_id", ""),
        is_primary=is_primary,
        version=f"{flavor}-{version}",
        server=Server.of(flavor, tuple(int(part) for part in version.split(".") if part.isdigit())),
        allocator=classes_of(malloc_stats),
        keys=key_count(facts),
        used_bytes=used,
        own_bytes=used - around,
        rss_bytes=_number(facts, "used_memory_rss"),
        maxmemory_bytes=_number(facts, "maxmemory") or 0,
        counted_bytes=used - (_number(facts, "mem_not_counted_for_evict") or 0),
        policy=policies.get(facts.get("maxmemory_policy", "")),
        stale_share=float(facts["expired_stale_perc"]) / 100 if is_primary and "expired_stale_perc" in facts else None,
        grown_bytes=None if startup is None else max(0, used - around - startup),
        uptime_s=_number(facts, "uptime_in_seconds") or 0,
    )


def forecast(series: Mapping[NodeName, Sequence[Reading]]) -> Forecast | None:
    """From the primaries' readings, oldest first; from their growth since they started where there is but one."""
    if not series:
        return None
    pairs = {name: (readings[0], readings[-1]) for name, readings in series.items() if _is_one_run(readings)}
    if len(pairs) == len(series):
        rates = {name: growth_rate(*pair) for name, pair in pairs.items()}
        return _forecast(rates, series, "samples")
    since = {
        name: readings[-1].grown_bytes / readings[-1].uptime_s
        for name, readings in series.items()
        if readings[-1].grown_bytes is not None and readings[-1].uptime_s
    }
    return _forecast(since, series, "uptime") if len(since) == len(series) else None


def _is_one_run(readings: Sequence[Reading]) -> bool:
    """Two moments of one process that stayed a primary."""
    same = all(a.run_id == b.run_id and b.is_primary for a, b in pairwise(readings))
    return len(readings) > 1 and same and readings[-1].at_s > readings[0].at_s


def growth_rate(first: Reading, last: Reading) -> float:
    """Bytes a second; what housekeeping moves is none."""
    grown = last.own_bytes - first.own_bytes
    return 0.0 if abs(grown) < _NOISE_BYTES else grown / (last.at_s - first.at_s)


def _forecast(rates: Mapping[NodeName, float], series: Mapping[NodeName, Sequence[Reading]], source: str) -> Forecast:
    ends = []
    for name, rate in rates.items():
        headroom = series[name][-1].headroom_bytes
        if headroom is not None and rate > 0:
            ends.append(max(0.0, headroom / rate))
    return Forecast(bytes_per_s=sum(rates.values()), full_in_s=min(ends, default=None), source=source)


def _number(facts: Mapping[str, str], name: str) -> int | None:
    value = facts.get(name, "")
    return int(value) if value.isdigit() else None
