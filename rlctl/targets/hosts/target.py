"""Target `hosts`: servers as systemd units on other machines, placed by playbooks and read over ssh."""

import contextlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from signal import Signals

from rlctl.errors import RlctlError, TimedOut, Unreachable
from rlctl.observe.model import Address, OnDisk
from rlctl.render.acl import Version
from rlctl.render.inventory import used_hosts
from rlctl.secrets import FleetSecrets
from rlctl.state.home import Home
from rlctl.system.clock import Clock
from rlctl.system.host_facts import HostFacts
from rlctl.system.playbook_events import PlaybookRun
from rlctl.system.ports import answers
from rlctl.system.ssh import Ssh, socket_folder
from rlctl.targets.base import HostDrift, Launch, NodeResult, PackagesLeft, ProgressListener
from rlctl.targets.hosts.files import staged_node, unit
from rlctl.targets.hosts.look import HostState, kept_packages
from rlctl.targets.hosts.looks import HostStates
from rlctl.targets.hosts.playbooks import HostPlaybooks
from rlctl.targets.hosts.proofs import HostProofs
from rlctl.targets.hosts.shells import HostShells, machine, signal_script, suspend_restarts_script
from rlctl.targets.trial import RefusedDirective
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import NodeId, NodeName, NodeSpec, all_nodes, host_name, node_id

WORKERS = 32
LOG_LINES = 5_000


class HostsTarget:
    """Places, starts, finds and removes the nodes of one fleet on its hosts."""

    def __init__(
        self,
        topology: Topology,
        secrets: FleetSecrets,
        home: Home,
        commands: tuple[str, ...],
        clock: Clock,
        listener: ProgressListener,
    ) -> None:
        self._topology = topology
        self._secrets = secrets
        self._stage = home.fleet(topology.name).staging_folder(rehearsal=False)
        self._commands = commands
        self._clock = clock
        sockets = socket_folder(home.root)
        self._ssh = Ssh(sockets)
        self._shells = HostShells(topology, sockets)
        self._listener = listener
        self._playbooks = HostPlaybooks(topology, home, sockets, listener)
        self._specs = {spec.name: spec for spec in all_nodes(topology)}
        self._states = HostStates(topology, self._ssh, clock)
        self._proofs = HostProofs(topology, self._ssh, clock)
        self._up_to_date: set[str] = set()

    def check(self) -> str:
        """Check ssh and Ansible on this machine, and the fleet's hosts. Raises if no host answers."""
        if shutil.which("ssh") is None:
            raise Unreachable("ssh is not on PATH", hint="install the OpenSSH client")
        try:
            ansible = version("ansible-core")
        except PackageNotFoundError as failure:
            raise Unreachable("ansible-core is not installed beside rlctl", hint="install rlctl again") from failure
        states = self._states.of(used_hosts(self._topology))
        for host, found in states.items():
            if isinstance(found, HostState) and found.lacks_address():
                raise Unreachable(
                    f"host {host} does not have the address that the topology gives it",
                    hint="servers listen on hosts[].address: set it to an address of the host's own interfaces",
                )
        silent = {host: found for host, found in states.items() if isinstance(found, RlctlError)}
        if len(silent) == len(states):
            raise next(iter(silent.values()))
        missing = "".join(f"; {found.message}" for found in silent.values())
        return f"{len(states) - len(silent)} of {len(states)} hosts answer, ansible-core {ansible}{missing}"

    def refused_directives(self, *, fetch: bool = False) -> tuple[RefusedDirective, ...] | None:
        # The servers are installed only on the hosts, so `drift` tries the directives there.
        del fetch
        return ()

    def route(self, spec: NodeSpec) -> Address:
        return spec.address, spec.port

    def machines(self) -> Mapping[str, HostFacts | RlctlError]:
        states = self._states.of(used_hosts(self._topology)).items()
        return {host: state.facts if isinstance(state, HostState) else state for host, state in states}

    def drift(self) -> Mapping[str, HostDrift]:
        """Run the playbook in check mode, and return what it would change on each host."""
        hosts = [host_name(host) for host in used_hosts(self._topology)]
        self._listener.note(f"reading {len(hosts)} host{'s' if len(hosts) != 1 else ''}")
        found = {host: HostDrift(problem=problem) for host, problem in self._states.recent_failures(hosts).items()}
        reachable = [host for host in hosts if host not in found]
        if reachable:
            run = self._playbooks.run("place.yml", reachable, check=True)
            found |= {host: self._drift_of(run, host) for host in reachable}
        self._up_to_date |= {host for host, drift in found.items() if not drift.changes and drift.problem is None}
        return found

    def _drift_of(self, run: PlaybookRun, host: str) -> HostDrift:
        if refused := run.refused(host).items():
            return HostDrift(
                refused=tuple(
                    RefusedDirective(server=f"host {host}", directive=name, error=error) for name, error in refused
                )
            )
        problem = run.problem(host)
        return (
            HostDrift(changes=run.changes(host))
            if problem is None
            else HostDrift(problem=self._host_error(host, problem))
        )

    def prepare(self, hosts: Sequence[str]) -> Mapping[str, NodeResult]:
        run = self._playbooks.run("place.yml", hosts)
        results = {host: NodeResult(error=run.problem(host)) for host in hosts}
        self._up_to_date |= {host for host, result in results.items() if result.error is None}
        return results

    def converge(self, launches: Sequence[Launch]) -> Mapping[NodeName, NodeResult]:
        """Write the nodes' initial files, and run the playbook that places them and starts the nodes."""
        for launch in launches:
            node = staged_node(self._stage, launch.spec, self._topology, self._secrets, self._commands)
            node.write_first(launch, node.root / "first")
        specs = [launch.spec for launch in launches]
        variables = {
            "redis_node_launches": {
                one.spec.name: self._launch_variables(one) for one in launches if not one.spec.is_sentinel
            },
            "sentinel_launches": {
                one.spec.name: self._launch_variables(one) for one in launches if one.spec.is_sentinel
            },
        }
        run = self._playbooks.run("start.yml", sorted(_hosts_of(specs)), variables)
        self._states.forget()
        return {spec.name: NodeResult(error=run.node_problem(_host(spec), spec.name)) for spec in specs}

    def configure(self, versions: Mapping[NodeSpec, Version]) -> Mapping[NodeName, NodeResult]:
        """Run the playbook on the hosts that are not known to be up to date.

        The playbook renders the files for the server version that it finds on a host, and not for the given version.
        """
        behind = sorted(_hosts_of(versions) - self._up_to_date)
        results = self.prepare(behind) if behind else {}
        return {spec.name: results.get(_host(spec), NodeResult()) for spec in versions}

    def remove(self, names: Sequence[NodeName]) -> Mapping[NodeName, NodeResult]:
        """Stop and delete these nodes and the remains of killed runs, then read the hosts again to check the result."""
        where = self._holders(names)
        holding = {host for found in where.values() if not isinstance(found, RlctlError) for host in found}
        hosts = sorted(holding | self._orphaned())
        if hosts:
            run = self._playbooks.run("destroy.yml", hosts, {"rlctl_remove": list(names)})
            problems = {host: run.problem(host) for host in hosts}
        else:
            problems = {}
        self._states.forget()
        for host in hosts:
            if host not in holding and problems[host] is not None:
                raise self._host_error(host, str(problems[host]))
        left = self._holders(names)
        return {name: NodeResult(error=_removal_problem(where[name], left[name], problems)) for name in names}

    def why_unproven(self, spec: NodeSpec) -> str | None:
        return self._proofs.why_unproven(spec)

    def settle_packages(self, *, remove: bool) -> PackagesLeft:
        """The packages that stay on each host. With `remove` a playbook first removes the unused packages."""
        before = kept_packages(self._states.of(self._topology.hosts))
        if not remove or not before:
            return PackagesLeft(kept={host: f"{', '.join(names)}: still installed" for host, names in before.items()})
        run = self._playbooks.run(
            "destroy.yml", sorted(before), {"rlctl_remove": [], "redis_host_remove_packages": True}
        )
        self._states.forget()
        for host in sorted(before):
            if problem := run.problem(host):
                raise self._host_error(host, problem)
        kept = {host: ". ".join(run.messages(host)) for host in sorted(before) if run.messages(host)}
        return PackagesLeft(changed=kept_packages(self._states.of(self._topology.hosts)) != before, kept=kept)

    def inspect(self, specs: Sequence[NodeSpec]) -> Mapping[NodeName, OnDisk]:
        """Processes and files of the nodes. Reads a host only for nodes that do not accept connections."""
        with ThreadPoolExecutor(max_workers=min(WORKERS, len(specs)) or 1) as pool:
            answering = dict(zip(specs, pool.map(lambda spec: answers(spec.address, spec.port), specs), strict=True))
        silent = [spec for spec in specs if not answering[spec]]
        named = _hosts_of(silent)
        states = self._states.of([host for host in self._topology.hosts if host_name(host) in named])
        return {
            spec.name: OnDisk(running=True, own_id=self._own_id(spec))
            if answering[spec]
            else self._disk(spec, states[_host(spec)])
            for spec in specs
        }

    def placed(self) -> Sequence[NodeName]:
        """The nodes on the hosts; for a host that does not answer, the nodes that the topology places there."""
        found: set[NodeName] = set()
        for host, state in self._states.of(self._topology.hosts).items():
            if isinstance(state, HostState):
                found |= set(state.placed)
            else:
                found |= {spec.name for spec in self._specs.values() if spec.host == host}
        return tuple(sorted(found))

    def running_without_folder(self) -> Sequence[NodeName]:
        states = self._states.of(self._topology.hosts).values()
        return tuple(
            sorted({name for state in states if isinstance(state, HostState) for name in state.running_without_folder})
        )

    def signal(self, specs: Sequence[NodeSpec], number: Signals) -> None:
        own = {host: [spec for spec in specs if spec.host == host] for host in _hosts_of(specs)}
        self._shells.run_all({host: signal_script(self._topology, nodes, number) for host, nodes in own.items()})
        self._states.forget()

    def suspend_restarts(self, seconds: float) -> None:
        """Suspend automatic restarts: on each host, write the time at which the suspension ends to a file.

        Before each start of a unit, systemd runs the script start-guard, which reads that file. If `seconds` is 0, the
        file is removed instead.
        """
        hosts = [host_name(host) for host in used_hosts(self._topology)]
        if seconds:
            self._shells.run_all(dict.fromkeys(hosts, suspend_restarts_script(self._topology.name, seconds)))
            return
        for host in hosts:
            # A host that does not answer keeps its file. The suspension there ends at the time in that file.
            with contextlib.suppress(Unreachable, TimedOut):
                self._shells.run(host, suspend_restarts_script(self._topology.name, 0))

    def log(self, name: NodeName) -> str:
        """The last lines of the node's journal."""
        host = next(host for host in self._topology.hosts if host_name(host) == self._specs[name].host)
        argv = ["journalctl", "--quiet", "--no-pager", f"--lines={LOG_LINES}", f"--unit={unit(self._topology, name)}"]
        program = f"import subprocess\nsubprocess.run({argv!r}, check=False)\n"
        return self._ssh.python(machine(host), program, [])

    def rotate_logs(self) -> None:
        """Do nothing: journald rotates the logs."""

    def _own_id(self, spec: NodeSpec) -> NodeId:
        return node_id(self._secrets.fleet_id, spec.name)

    def _launch_variables(self, launch: Launch) -> dict[str, object]:
        # Only a data node behind Sentinel gets its primary in a variable. A cluster node reads its primary from
        # nodes.conf, and a sentinel reads it from sentinel.conf.
        has_replicaof = self._topology.kind is Kind.SENTINEL and not launch.spec.is_sentinel
        follow = launch.follow if has_replicaof else None
        primary = {"address": follow.address, "port": follow.port} if follow else None
        return {"own_id": self._own_id(launch.spec)} | ({} if launch.spec.is_sentinel else {"follow": primary})

    def _disk(self, spec: NodeSpec, state: HostState | RlctlError) -> OnDisk:
        return state.disk(spec, self._own_id(spec)) if isinstance(state, HostState) else OnDisk(unknown=state.message)

    def _host_error(self, host: str, problem: str) -> RlctlError:
        """The error for a host on which a playbook failed.

        The host is probed once more. If that probe fails, its error is returned, because it is more precise.
        """
        entry = next(one for one in self._topology.hosts if host_name(one) == host)
        self._states.forget()
        state = self._states.of([entry])[host]
        if isinstance(state, RlctlError):
            return state
        return Unreachable(f"host {host}: {problem}", hint="fix the cause on the host and run the same command again")

    def _orphaned(self) -> set[str]:
        states = self._states.of(self._topology.hosts).items()
        return {host for host, state in states if isinstance(state, HostState) and state.orphaned}

    def _holders(self, names: Sequence[NodeName]) -> Mapping[NodeName, set[str] | RlctlError]:
        """The hosts that have each node, or the error if the node's host could not be read."""
        states = self._states.of(self._topology.hosts)
        holders: dict[NodeName, set[str] | RlctlError] = {}
        for name in names:
            host = self._specs[name].host if name in self._specs else None
            state = states.get(host or "")
            if isinstance(state, RlctlError):
                holders[name] = state
            else:
                holders[name] = {
                    host
                    for host, one in states.items()
                    if isinstance(one, HostState) and name in {*one.placed, *one.running_without_folder}
                }
        return holders


def _removal_problem(
    held: set[str] | RlctlError, left: set[str] | RlctlError, problems: Mapping[str, str | None]
) -> str | None:
    """Why a node's removal failed; None if it succeeded.

    A removal fails if parts of the node are left, or if the playbook failed on the node's host.
    """
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
