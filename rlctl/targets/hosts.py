"""Target hosts: servers as systemd units on other machines, placed by playbooks and looked at over ssh."""

import contextlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from signal import Signals

from rlctl.doctor.host_facts import HostFacts
from rlctl.errors import RlctlError, TimedOut, Unreachable
from rlctl.observe.model import Address, OnDisk
from rlctl.render.acl import Version
from rlctl.render.inventory import used_hosts
from rlctl.secrets import FleetSecrets
from rlctl.state.home import Home
from rlctl.system import on_host
from rlctl.system.clock import Clock
from rlctl.system.playbook_events import PlaybookRun
from rlctl.system.ports import answers
from rlctl.system.ssh import Ssh, socket_folder
from rlctl.targets.base import HostDrift, Launch, NodeResult, Watcher
from rlctl.targets.host_files import staged_node, unit
from rlctl.targets.host_look import Look, parse_look, question
from rlctl.targets.host_playbooks import HostPlaybooks
from rlctl.targets.host_shells import HostShells, machine, signalling, suspending
from rlctl.topology.model import HostEntry, Kind, Topology
from rlctl.topology.nodes import NodeId, NodeName, NodeSpec, all_nodes, host_name, node_id

# Waits look ten times a second; what lies on a host that is down does not change that fast.
LOOK_S = 2.0
# A host that could not be reached a moment ago is not asked by a playbook too, which would wait for it.
OFF_S = 30.0
WORKERS = 32
LOG_LINES = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """A look, or why there was none, and when; to learn that a host is off takes its time."""

    at: float
    took_s: float
    found: Look | RlctlError

    def is_fresh(self, now: float) -> bool:
        """Whether another look would be too soon."""
        return now - self.at <= max(LOOK_S, self.took_s)


class HostsTarget:
    """Places, starts, finds and removes the nodes of one fleet on its hosts."""

    def __init__(
        self,
        topology: Topology,
        secrets: FleetSecrets,
        home: Home,
        commands: tuple[str, ...],
        clock: Clock,
        watcher: Watcher,
    ) -> None:
        self._topology = topology
        self._secrets = secrets
        self._stage = home.fleet(topology.name).stage(rehearsal=False)
        self._commands = commands
        self._clock = clock
        sockets = socket_folder(home.root)
        self._ssh = Ssh(sockets)
        self._shells = HostShells(topology, sockets)
        self._watcher = watcher
        self._playbooks = HostPlaybooks(topology, home, sockets, watcher)
        self._specs = {spec.name: spec for spec in all_nodes(topology)}
        self._looked: dict[str, _Looked] = {}
        self._in_order: set[str] = set()

    def check(self) -> str:
        """Ansible and ssh here, and hosts that answer; Unreachable where not one does."""
        if shutil.which("ssh") is None:
            raise Unreachable("ssh is not on PATH", hint="install the OpenSSH client")
        try:
            ansible = version("ansible-core")
        except PackageNotFoundError as failure:
            raise Unreachable("ansible-core is not installed beside rlctl", hint="install rlctl anew") from failure
        looks = self._look(used_hosts(self._topology))
        for host, found in looks.items():
            if isinstance(found, Look) and found.lacks_address():
                raise Unreachable(
                    f"host {host} does not have the address that the topology gives it",
                    hint="servers listen on hosts[].address: write an address that the host itself has",
                )
        silent = {host: found for host, found in looks.items() if isinstance(found, RlctlError)}
        if len(silent) == len(looks):
            raise next(iter(silent.values()))
        missing = "".join(f"; {found.message}" for found in silent.values())
        return f"{len(looks) - len(silent)} of {len(looks)} hosts answer, ansible-core {ansible}{missing}"

    def route(self, spec: NodeSpec) -> Address:
        """Nodes are reached at the addresses that they have."""
        return spec.address, spec.port

    def machines(self) -> Mapping[str, HostFacts | RlctlError]:
        """What each host tells of itself."""
        looks = self._look(used_hosts(self._topology)).items()
        return {host: look.facts if isinstance(look, Look) else look for host, look in looks}

    def drift(self) -> Mapping[str, HostDrift]:
        """What the playbook would change on each host."""
        hosts = [host_name(host) for host in used_hosts(self._topology)]
        self._watcher.note(f"looking at {len(hosts)} host{'s' if len(hosts) != 1 else ''}")
        found = {host: HostDrift(problem=problem) for host, problem in self._just_failed(hosts).items()}
        willing = [host for host in hosts if host not in found]
        if willing:
            run = self._playbooks.run("place.yml", willing, check=True)
            found |= {host: self._drift_of(run, host) for host in willing}
        self._in_order |= {host for host, drift in found.items() if not drift.changes and drift.problem is None}
        return found

    def _drift_of(self, run: PlaybookRun, host: str) -> HostDrift:
        problem = run.problem(host)
        return (
            HostDrift(changes=run.changes(host)) if problem is None else HostDrift(problem=self._named(host, problem))
        )

    def prepare(self, hosts: Sequence[str]) -> Mapping[str, NodeResult]:
        """Run the playbook that places everything and starts nothing."""
        run = self._playbooks.run("place.yml", hosts)
        results = {host: NodeResult(error=run.problem(host)) for host in hosts}
        self._in_order |= {host for host, result in results.items() if result.error is None}
        return results

    def converge(self, launches: Sequence[Launch]) -> Mapping[NodeName, NodeResult]:
        """Hand the first files over and start what does not run."""
        for launch in launches:
            node = staged_node(self._stage, launch.spec, self._topology, self._secrets, self._commands)
            node.write_first(launch, node.root / "first")
        specs = [launch.spec for launch in launches]
        variables = {
            "redis_node_launches": {one.spec.name: self._order(one) for one in launches if not one.spec.is_sentinel},
            "sentinel_launches": {one.spec.name: self._order(one) for one in launches if one.spec.is_sentinel},
        }
        run = self._playbooks.run("start.yml", sorted(_hosts_of(specs)), variables)
        self._looked.clear()
        return {spec.name: NodeResult(error=run.node_problem(_host(spec), spec.name)) for spec in specs}

    def configure(self, versions: Mapping[NodeSpec, Version]) -> Mapping[NodeName, NodeResult]:
        """The files of rlctl are placed with all else, for the server that is installed there."""
        behind = sorted(_hosts_of(versions) - self._in_order)
        results = self.prepare(behind) if behind else {}
        return {spec.name: results.get(_host(spec), NodeResult()) for spec in versions}

    def remove(self, names: Sequence[NodeName]) -> Mapping[NodeName, NodeResult]:
        """Stop and delete what is there of these nodes, what a killed run left too, and look whether it is gone."""
        where = self._where(names)
        holding = {host for found in where.values() if not isinstance(found, RlctlError) for host in found}
        hosts = sorted(holding | self._orphaned())
        if hosts:
            run = self._playbooks.run("destroy.yml", hosts, {"rlctl_remove": list(names)})
            problems = {host: run.problem(host) for host in hosts}
        else:
            problems = {}
        self._looked.clear()
        for host in hosts:
            if host not in holding and problems[host] is not None:
                raise self._named(host, str(problems[host]))
        left = self._where(names)
        return {name: NodeResult(error=_left_over(where[name], left[name], problems)) for name in names}

    def inspect(self, specs: Sequence[NodeSpec]) -> Mapping[NodeName, OnDisk]:
        """Who takes a connection runs; of the others their hosts tell."""
        with ThreadPoolExecutor(max_workers=min(WORKERS, len(specs)) or 1) as pool:
            answering = dict(zip(specs, pool.map(lambda spec: answers(spec.address, spec.port), specs), strict=True))
        silent = [spec for spec in specs if not answering[spec]]
        named = _hosts_of(silent)
        looks = self._look([host for host in self._topology.hosts if host_name(host) in named])
        return {
            spec.name: OnDisk(running=True, own_id=self._own_id(spec))
            if answering[spec]
            else self._disk(spec, looks[_host(spec)])
            for spec in specs
        }

    def placed(self) -> Sequence[NodeName]:
        """What the hosts hold; on a host that does not answer, what the topology places there."""
        found: set[NodeName] = set()
        for host, look in self._look(self._topology.hosts).items():
            if isinstance(look, Look):
                found |= set(look.placed)
            else:
                found |= {spec.name for spec in self._specs.values() if spec.host == host}
        return tuple(sorted(found))

    def strays(self) -> Sequence[NodeName]:
        """Units that run although their folders were removed under them."""
        looks = self._look(self._topology.hosts).values()
        return tuple(sorted({name for look in looks if isinstance(look, Look) for name in look.strays}))

    def signal(self, specs: Sequence[NodeSpec], number: Signals) -> None:
        """Signal the servers of these nodes; one that is gone needs none."""
        own = {host: [spec for spec in specs if spec.host == host] for host in _hosts_of(specs)}
        self._shells.run_all({host: signalling(self._topology, nodes, number) for host, nodes in own.items()})
        self._looked.clear()

    def suspend_restarts(self, seconds: float) -> None:
        """By a file that systemd's guard of the units reads; it expires by itself."""
        hosts = [host_name(host) for host in used_hosts(self._topology)]
        if seconds:
            self._shells.run_all(dict.fromkeys(hosts, suspending(self._topology.name, seconds)))
            return
        for host in hosts:
            # A host that does not answer now forgets it when its time is up.
            with contextlib.suppress(Unreachable, TimedOut):
                self._shells.run(host, suspending(self._topology.name, 0))

    def log(self, name: NodeName) -> str:
        """The last lines of the node's journal."""
        host = next(host for host in self._topology.hosts if host_name(host) == self._specs[name].host)
        argv = ["journalctl", "--quiet", "--no-pager", f"--lines={LOG_LINES}", f"--unit={unit(self._topology, name)}"]
        program = f"import subprocess\nsubprocess.run({argv!r}, check=False)\n"
        return self._ssh.python(machine(host), program, [])

    def tidy(self) -> None:
        """Journald rotates."""

    def _own_id(self, spec: NodeSpec) -> NodeId:
        return node_id(self._secrets.fleet_id, spec.name)

    def _order(self, launch: Launch) -> dict[str, object]:
        """A cluster node reads from its table whom it follows, a sentinel from its file."""
        is_told = self._topology.kind is Kind.SENTINEL and not launch.spec.is_sentinel
        follow = launch.follow if is_told else None
        told = {"address": follow.address, "port": follow.port} if follow else None
        return {"own_id": self._own_id(launch.spec)} | ({} if launch.spec.is_sentinel else {"follow": told})

    def _disk(self, spec: NodeSpec, look: Look | RlctlError) -> OnDisk:
        return look.disk(spec, self._own_id(spec)) if isinstance(look, Look) else OnDisk(unknown=look.message)

    def _look(self, hosts: Iterable[HostEntry]) -> Mapping[str, Look | RlctlError]:
        """One look a host, a moment old at most."""
        wanted = {host_name(host): host for host in hosts}
        now = self._clock.monotonic()
        stale = {
            name: host
            for name, host in wanted.items()
            if name not in self._looked or not self._looked[name].is_fresh(now)
        }
        if stale:
            with ThreadPoolExecutor(max_workers=min(WORKERS, len(stale))) as pool:
                self._looked |= zip(stale, pool.map(self._look_at, stale.values()), strict=True)
        return {name: self._looked[name].found for name in wanted}

    def _just_failed(self, hosts: Iterable[str]) -> Mapping[str, RlctlError]:
        """Why hosts could not be looked at a moment ago."""
        now = self._clock.monotonic()
        known = {host: self._looked[host] for host in hosts if host in self._looked}
        return {
            host: looked.found
            for host, looked in known.items()
            if isinstance(looked.found, RlctlError) and now - looked.at <= OFF_S
        }

    def _look_at(self, host: HostEntry) -> _Looked:
        started = self._clock.monotonic()
        found = self._ask(host)
        now = self._clock.monotonic()
        return _Looked(at=now, took_s=now - started, found=found)

    def _ask(self, host: HostEntry) -> Look | RlctlError:
        name = host_name(host)
        own = [spec for spec in self._specs.values() if spec.host == name]
        program = Path(on_host.__file__).read_text(encoding="utf-8")
        asked = self._clock.now().timestamp()
        try:
            answer = self._ssh.python(machine(host), program, [question(self._topology, own)])
            return parse_look(name, answer, between=(asked, self._clock.now().timestamp()))
        except RlctlError as failure:
            return failure

    def _named(self, host: str, problem: str) -> RlctlError:
        """Why a host did not get through; ssh alone tells a wrong key from a refused password."""
        entry = next(one for one in self._topology.hosts if host_name(one) == host)
        self._looked.pop(host, None)
        look = self._look([entry])[host]
        if isinstance(look, RlctlError):
            return look
        return Unreachable(f"host {host}: {problem}", hint="mend it there and run the same command again")

    def _orphaned(self) -> set[str]:
        looks = self._look(self._topology.hosts).items()
        return {host for host, look in looks if isinstance(look, Look) and look.orphaned}

    def _where(self, names: Sequence[NodeName]) -> Mapping[NodeName, set[str] | RlctlError]:
        """The hosts that hold each node, or why it cannot be known."""
        looks = self._look(self._topology.hosts)
        holders: dict[NodeName, set[str] | RlctlError] = {}
        for name in names:
            host = self._specs[name].host if name in self._specs else None
            look = looks.get(host or "")
            if isinstance(look, RlctlError):
                holders[name] = look
            else:
                holders[name] = {
                    host for host, one in looks.items() if isinstance(one, Look) and name in {*one.placed, *one.strays}
                }
        return holders


def _left_over(
    held: set[str] | RlctlError, left: set[str] | RlctlError, problems: Mapping[str, str | None]
) -> str | None:
    """Why a node is still there, or what went wrong on its host after it."""
    if isinstance(left, RlctlError):
        return left.message
    if left:
        host = min(left)
        return f"host {host}: {problems.get(host) or 'it is still there'}"
    hosts = set() if isinstance(held, RlctlError) else held
    return next((f"host {host}: {problems[host]}" for host in sorted(hosts) if problems[host] is not None), None)


def _host(spec: NodeSpec) -> str:
    if spec.host is None:
        raise ValueError(f"{spec.name} has no host")
    return spec.host


def _hosts_of(specs: Iterable[NodeSpec]) -> set[str]:
    return {_host(spec) for spec in specs}
