"""Reads the states of a fleet's hosts over ssh, and caches each briefly, since many calls need it at the same time."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rlctl.errors import RlctlError
from rlctl.system.clock import Clock
from rlctl.system.ssh import Ssh
from rlctl.targets.hosts import probe
from rlctl.targets.hosts.look import HostState, parse_host_state, probe_request
from rlctl.targets.hosts.shells import machine
from rlctl.topology.model import HostEntry, Topology
from rlctl.topology.nodes import all_nodes, host_name

# A cached state is valid for this time. Loops that wait for a change ask for the state ten times a second, which is
# more often than a host's state changes.
LOOK_S = 2.0
# After the reading of a host has failed, rlctl leaves the host out of playbook runs for this time, since a playbook
# would wait for the host.
OFF_S = 30.0
WORKERS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedState:
    """The state of a host, or the error of reading it, with the time and the duration of the reading."""

    at: float
    took_s: float
    found: HostState | RlctlError

    def is_fresh(self, now: float) -> bool:
        """Whether the result is still valid. A result is valid for `LOOK_S`, or for `took_s` if that is longer."""
        return now - self.at <= max(LOOK_S, self.took_s)


class HostStates:
    """Reads and caches the states of hosts, several hosts at once."""

    def __init__(self, topology: Topology, ssh: Ssh, clock: Clock) -> None:
        self._topology = topology
        self._ssh = ssh
        self._clock = clock
        self._specs = all_nodes(topology)
        self._cached: dict[str, _CachedState] = {}

    def of(self, hosts: Iterable[HostEntry]) -> Mapping[str, HostState | RlctlError]:
        """The state of each host, or the error of reading it. Reads a host only if its cached result is too old."""
        wanted = {host_name(host): host for host in hosts}
        now = self._clock.monotonic()
        stale = {name: host for name, host in wanted.items() if not self._is_fresh(name, now)}
        if stale:
            with ThreadPoolExecutor(max_workers=min(WORKERS, len(stale))) as pool:
                self._cached |= zip(stale, pool.map(self._read, stale.values()), strict=True)
        return {name: self._cached[name].found for name in wanted}

    def recent_failures(self, hosts: Iterable[str]) -> Mapping[str, RlctlError]:
        """The errors of the hosts whose last reading failed, if that reading is not older than `OFF_S`."""
        now = self._clock.monotonic()
        known = {host: self._cached[host] for host in hosts if host in self._cached}
        return {
            host: cached.found
            for host, cached in known.items()
            if isinstance(cached.found, RlctlError) and now - cached.at <= OFF_S
        }

    def forget(self) -> None:
        """Empty the cache. Called after a change on the hosts."""
        self._cached = {}

    def _is_fresh(self, name: str, now: float) -> bool:
        return name in self._cached and self._cached[name].is_fresh(now)

    def _read(self, host: HostEntry) -> _CachedState:
        started = self._clock.monotonic()
        found = self._ask(host)
        now = self._clock.monotonic()
        return _CachedState(at=now, took_s=now - started, found=found)

    def _ask(self, host: HostEntry) -> HostState | RlctlError:
        name = host_name(host)
        own = [spec for spec in self._specs if spec.host == name]
        program = Path(probe.__file__).read_text(encoding="utf-8")
        before = self._clock.now().timestamp()
        try:
            answer = self._ssh.python(machine(host), program, [probe_request(self._topology, own)])
            return parse_host_state(name, answer, between=(before, self._clock.now().timestamp()))
        except RlctlError as failure:
            return failure
