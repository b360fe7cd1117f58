"""The answers to INFO and CLUSTER INFO as typed values. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rlctl.observe.model import Address, ReplicationLink, Role
from rlctl.observe.parse import BadReply, number, port, text

_VERSION = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}){0,3}")
_DECIMAL = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")
_ROLES = {"master": Role.PRIMARY, "slave": Role.REPLICA}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandStats:
    """A server's statistics of a command. `calls` counts executed calls and includes `failed`, but not `rejected`."""

    calls: int = 0
    failed: int = 0
    rejected: int = 0
    usec: int = 0


class ServerInfo:
    """An answer to INFO. A property is None if its field is missing, and raises BadReply if it is malformed."""

    def __init__(self, reply: object) -> None:
        self._fields = _fields(reply)

    @property
    def flavor(self) -> str:
        """`redis` or `valkey`. Valkey also reports the Redis version that it is compatible with."""
        return "valkey" if "valkey_version" in self._fields else "redis"

    @property
    def version(self) -> str:
        """The version of the server; BadReply if it is missing."""
        version = self._fields.get(f"{self.flavor}_version")
        if version is None or _VERSION.match(version) is None:
            raise BadReply("not the version of a server", version)
        return version

    @property
    def run_id(self) -> str | None:
        """A random id of the server process. Each start makes a new id."""
        return self._fields.get("run_id")

    @property
    def pid(self) -> int | None:
        return self._number("process_id")

    @property
    def uptime_s(self) -> int | None:
        return self._number("uptime_in_seconds")

    @property
    def is_loading(self) -> bool:
        """Whether the server still loads its data from disk."""
        return self._fields.get("loading") == "1"

    @property
    def role(self) -> Role | None:
        return _ROLES.get(self._fields.get("role", ""))

    @property
    def primary_address(self) -> Address | None:
        """The address of a replica's primary; None for other roles."""
        if self.role is not Role.REPLICA:
            return None
        return self._fields.get("master_host", ""), port(self._fields.get("master_port", "0"))

    @property
    def link(self) -> ReplicationLink:
        """A replica's connection to its primary."""
        if self.role is not Role.REPLICA:
            return ReplicationLink.NONE
        return ReplicationLink.UP if self._fields.get("master_link_status") == "up" else ReplicationLink.DOWN

    @property
    def link_down_s(self) -> int | None:
        """Seconds since a replica lost its primary; -1 if the replica was never connected since it started."""
        return self._number("master_link_down_since_seconds")

    @property
    def written_offset(self) -> int | None:
        """The replication offset at which the server's stream to its replicas ends."""
        return self._number("master_repl_offset")

    @property
    def received_offset(self) -> int | None:
        """The replication offset up to which a replica has received writes."""
        return self._number("slave_repl_offset")

    @property
    def offset(self) -> int | None:
        """The replication offset of the server's data; None for a replica that received nothing since it started."""
        if self.role is not Role.REPLICA:
            return self.written_offset
        return None if self.link_down_s == -1 else self.received_offset

    @property
    def second_offset(self) -> int | None:
        """The offset at which a promoted server stopped following its former primary; -1 if it was never promoted."""
        return self._number("second_repl_offset")

    @property
    def full_syncs(self) -> int | None:
        """Full resyncs of replicas since the server started."""
        return self._number("sync_full")

    @property
    def priority(self) -> int | None:
        """A replica's priority in elections by Sentinel."""
        return self._number("slave_priority")

    @property
    def good_replicas(self) -> int | None:
        """Replicas that count for `min-replicas-to-write`. Servers report this only if that setting is not 0."""
        return self._number("min_slaves_good_slaves")

    @property
    def keys(self) -> int:
        """Keys in all databases; databases without keys are not in the answer."""
        counts = (value.split(",", 1)[0] for name, value in self._fields.items() if name.startswith("db"))
        return sum(number(count.removeprefix("keys=")) for count in counts)

    @property
    def used_bytes(self) -> int | None:
        return self._number("used_memory")

    @property
    def startup_bytes(self) -> int | None:
        """Memory that the server used when it started, without data."""
        return self._number("used_memory_startup")

    @property
    def rss_bytes(self) -> int | None:
        """Memory that the operating system counts for the process."""
        return self._number("used_memory_rss")

    @property
    def maxmemory_bytes(self) -> int | None:
        """The memory limit; 0 if memory is not limited."""
        return self._number("maxmemory")

    @property
    def uncounted_bytes(self) -> int | None:
        """Memory that does not count against maxmemory, such as the buffers of replicas."""
        return self._number("mem_not_counted_for_evict")

    @property
    def client_buffer_bytes(self) -> int | None:
        return self._number("mem_clients_normal")

    @property
    def replication_buffer_bytes(self) -> int | None:
        return self._number("mem_total_replication_buffers")

    @property
    def eviction_policy(self) -> str | None:
        return self._fields.get("maxmemory_policy")

    @property
    def clients(self) -> int | None:
        """Open client connections, including the one of rlctl."""
        return self._number("connected_clients")

    @property
    def evicted_keys(self) -> int | None:
        return self._number("evicted_keys")

    @property
    def expired_stale_percent(self) -> float | None:
        """Percentage of keys that have expired but are not deleted yet, as a primary estimates."""
        return self._decimal("expired_stale_perc")

    @property
    def cpu_s(self) -> float | None:
        """Seconds of processor time of all threads of the server."""
        return self._sum("used_cpu_sys", "used_cpu_user")

    @property
    def main_thread_cpu_s(self) -> float | None:
        """Seconds of processor time of the thread that executes commands."""
        return self._sum("used_cpu_sys_main_thread", "used_cpu_user_main_thread")

    @property
    def tilt_s(self) -> int | None:
        """Seconds that a sentinel has been in TILT mode, 0 if it does not report the time; None outside TILT mode."""
        if self._fields.get("sentinel_tilt") != "1":
            return None
        # If the clock was set back during TILT mode, the sentinel reports a negative time.
        return max(0, self._number("sentinel_tilt_since_seconds") or 0)

    def command(self, name: str) -> CommandStats:
        """Parse the statistics of a command such as `evalsha`: `calls=7,usec=21,rejected_calls=0,failed_calls=1`."""
        words = self._fields.get(f"cmdstat_{name}", "").split(",")
        counts = dict(word.partition("=")[::2] for word in words)
        return CommandStats(
            calls=number(counts.get("calls", "0")),
            failed=number(counts.get("failed_calls", "0")),
            rejected=number(counts.get("rejected_calls", "0")),
            usec=number(counts.get("usec", "0")),
        )

    def _number(self, name: str) -> int | None:
        return number(self._fields[name]) if name in self._fields else None

    def _decimal(self, name: str) -> float | None:
        if name not in self._fields:
            return None
        if _DECIMAL.fullmatch(self._fields[name]) is None:
            raise BadReply("not a number", self._fields[name])
        return float(self._fields[name])

    def _sum(self, first: str, second: str) -> float | None:
        one, other = self._decimal(first), self._decimal(second)
        return None if one is None or other is None else one + other


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """An answer to CLUSTER INFO: the state of the cluster as one node sees it."""

    is_ok: bool
    slots_assigned: int
    known_nodes: int


def cluster_info(reply: object) -> ClusterInfo:
    """Parse an answer to CLUSTER INFO; raises BadReply if it is malformed."""
    fields = _fields(reply)
    return ClusterInfo(
        is_ok=fields.get("cluster_state") == "ok",
        slots_assigned=number(fields.get("cluster_slots_assigned", "0")),
        known_nodes=number(fields.get("cluster_known_nodes", "0")),
    )


def _fields(reply: object) -> Mapping[str, str]:
    """Parse `name:value` lines and skip `# Section` lines."""
    pairs = (line.split(":", 1) for line in text(reply).splitlines() if ":" in line and not line.startswith("#"))
    return {name: value.strip() for name, value in pairs}
