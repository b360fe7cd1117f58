"""Looks at the hosts of a fleet over ssh, kept for a moment: many questions are answered by one."""

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

# Waits look ten times a second; what lies on a host that is down does not change that fast.
LOOK_S = 2.0
# A host that could not be reached a moment ago is not asked by a playbook too, which would wait for it.
OFF_S = 30.0
WORKERS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedState:
    """A look, or why there was none, and when; to learn that a host is off takes its time."""

    at: float
    took_s: float
    found: HostState | RlctlError

    def is_fresh(self, now: float) -> bool:
        """Whether another look would be too soon."""
        return now - self.at <= max(LOOK_S, self.took_s)


class HostStates:
    """Looks at hosts, several at once."""

    def __init__(self, topology: Topology, ssh: Ssh, clock: Clock) -> None:
        self._topology = topology
        self._ssh = ssh
        self._clock = clock
        self._specs = all_nodes(topology)
        self._cached: dict[str, _CachedState] = {}

    def of(self, hosts: Iterable[HostEntry]) -> Mapping[str, HostState | RlctlError]:
        """One look a host, a moment old at most."""
        wanted = {host_name(host): host for host in hosts}
        now = self._clock.monotonic()
        stale = {name: host for name, host in wanted.items() if not self._is_fresh(name, now)}
        if stale:
            with ThreadPoolExecutor(max_workers=min(WORKERS, len(stale))) as pool:
                self._cached |= zip(stale, pool.map(self._read, stale.values()), strict=True)
        return {name: self._cached[name].found for name in wanted}

    def recent_failures(self, hosts: Iterable[str]) -> Mapping[str, RlctlError]:
        """Why hosts could not be looked at a moment ago."""
        now = self._clock.monotonic()
        known = {host: self._cached[host] for host in hosts if host in self._cached}
        return {
            host: cached.found
            for host, cached in known.items()
            if isinstance(cached.found, RlctlError) and now - cached.at <= OFF_S
        }

    def forget(self) -> None:
        """What was seen is no longer so."""
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
        asked = self._clock.now().timestamp()
        try:
            answer = self._ssh.python(machine(host), program, [probe_request(self._topology, own)])
            return parse_host_state(name, answer, between=(asked, self._clock.now().timestamp()))
        except RlctlError as failure:
            return failure
