"""Target `local`: detached server processes on this machine, with one folder for each node."""

import errno
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from signal import Signals

from rlctl.errors import TimedOut, Unreachable
from rlctl.observe.model import Address, OnDisk
from rlctl.render.acl import Version
from rlctl.render.redis_conf import NodeFiles, process_title, topology_directives
from rlctl.secrets import FleetSecrets
from rlctl.state.accepted import AcceptedDirectives
from rlctl.state.home import FleetFolder
from rlctl.system.clock import Clock, wait_until
from rlctl.system.files import make_private_folder, read_damaged
from rlctl.system.listeners import ListeningSocket, listening_socket
from rlctl.system.ports import answers
from rlctl.system.process import ProcessId, Runner, processes_below, reap, start_detached
from rlctl.system.scratch_server import start_once
from rlctl.targets.base import Launch, NodeResult, OnThisMachine
from rlctl.targets.listening import await_listening
from rlctl.targets.node_folder import LogSizes, NodeFolder, delete_folder
from rlctl.targets.server_program import ServerProgram, dotted, find_server, identity
from rlctl.targets.trial import RefusedDirective, TrialServer, check_directives
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import BUS_PORT_OFFSET, NodeName, NodeSpec

STOP_S = 5.0
LOG_LIMIT_BYTES = 10 * 1024 * 1024
# Title of the child process that saves a server's data. The child may outlive the server, and then replace the data
# file of the next server.
_SAVE_CHILD = re.compile("(redis|valkey)-(rdb|aof)-")


class LocalTarget(OnThisMachine):
    """Starts, finds and stops the processes of one fleet on this machine."""

    def __init__(
        self,
        topology: Topology,
        secrets: FleetSecrets,
        folder: FleetFolder,
        commands: tuple[str, ...],
        runner: Runner,
        clock: Clock,
        accepted: AcceptedDirectives,
    ) -> None:
        self._topology = topology
        self._secrets = secrets
        self._folder = folder
        self._commands = commands
        self._runner = runner
        self._clock = clock
        self._accepted = accepted
        self._logs_before: dict[NodeName, LogSizes] = {}

    def check(self) -> str:
        """Describe the server program. Raises an error if the program is missing or does not fit the topology."""
        program = self._program()
        return f"{program.path} is {program.flavor} {dotted(program.version)}"

    def refused_directives(self, *, fetch: bool = False) -> tuple[RefusedDirective, ...] | None:
        del fetch
        program = self._program()
        server = TrialServer(
            name=f"{program.path} ({program.flavor} {dotted(program.version)})", identity=identity(program)
        )
        return check_directives(
            server,
            topology_directives(self._topology),
            self._accepted,
            lambda conf: start_once(program.path, conf, self._clock),
        )

    def route(self, spec: NodeSpec) -> Address:
        return spec.address, spec.port

    def why_unproven(self, spec: NodeSpec) -> str | None:
        """None if the node's process holds the port.

        For a node that has no folder here, None if a process of this user or of root holds the port.
        """
        folder = self._folder.node(spec.name)
        process, socket = self._process(folder), listening_socket(spec.address, spec.port)
        if process is not None:
            holds = socket is not None and process.holds(socket)
            return None if holds else f"a process other than pid {process.pid} holds the port"
        if folder.is_dir():
            return f"its process is not running, and another process {_of_user(socket)} holds the port"
        # A node without a folder here may belong to another RLCTL_HOME. A process of this user or of root may get the
        # password, because it can read the secrets anyway.
        is_trusted = socket is not None and socket.uid in {os.geteuid(), 0}
        return None if is_trusted else f"a process {_of_user(socket)} holds the port"

    def converge(self, launches: Sequence[Launch]) -> Mapping[NodeName, NodeResult]:
        # Primaries start first, because a replica that cannot connect to its primary tries again only after a second.
        program = self._program()
        make_private_folder(self._folder.nodes)
        for launch in launches:
            self._node(launch.spec).prepare(launch, program.version)
        self._await_ends(launch.spec for launch in launches)
        self._logs_before = {launch.spec.name: self._node(launch.spec).log_sizes() for launch in launches}
        idle = [launch for launch in launches if self._process(self._folder.node(launch.spec.name)) is None]
        self._end_save_children([launch.spec.name for launch in idle])
        leaders = [launch for launch in launches if launch.follow is None]
        followers = [launch for launch in launches if launch.follow is not None]
        results: dict[NodeName, NodeResult] = {}
        for wave in (leaders, followers):
            for launch in wave:
                if launch in idle:
                    self._start(program, launch)
            results |= await_listening([launch.spec for launch in wave], self._outcome, self._clock)
        return results

    def configure(self, versions: Mapping[NodeSpec, Version]) -> Mapping[NodeName, NodeResult]:
        for spec, version in versions.items():
            self._node(spec).write_own(version)
        return {spec.name: NodeResult() for spec in versions}

    def remove(self, names: Sequence[NodeName]) -> Mapping[NodeName, NodeResult]:
        """End the nodes' processes, with SIGTERM and then SIGKILL, and delete their folders."""
        lost = self._servers()
        found = {name: self._process(self._folder.node(name)) or lost.get(name) for name in names}
        running = {name: process for name, process in found.items() if process is not None}
        unstopped = self._stop(running.values(), Signals.SIGTERM)
        unstopped = self._stop(unstopped, Signals.SIGKILL)
        self._end_save_children([name for name in names if running.get(name) not in unstopped])
        results: dict[NodeName, NodeResult] = {}
        for name in names:
            if running.get(name) in unstopped:
                results[name] = NodeResult(error=f"process {running[name].pid} does not end, not even by SIGKILL")
                continue
            results[name] = delete_folder(self._folder.node(name))
        return results

    def inspect(self, specs: Sequence[NodeSpec]) -> Mapping[NodeName, OnDisk]:
        return {spec.name: self._inspect(spec) for spec in specs}

    def placed(self) -> Sequence[NodeName]:
        return self._folder.placed()

    def running_without_folder(self) -> Sequence[NodeName]:
        return tuple(sorted(name for name in self._servers() if not self._folder.node(name).is_dir()))

    def signal(self, specs: Sequence[NodeSpec], number: Signals) -> None:
        for spec in specs:
            process = self._process(self._folder.node(spec.name))
            if process is not None:
                process.send(number)

    def log(self, name: NodeName) -> str:
        """The log of a node's server, the rotated part first."""
        return "".join(read_damaged(self._folder.node(name) / log) for log in ("redis.log.1", "redis.log"))

    def rotate_logs(self) -> None:
        for name in self.placed():
            for log in ("redis.log", "output.log"):
                _rotate(self._folder.node(name) / log)

    def _program(self) -> ServerProgram:
        return find_server(self._topology.engine, self._runner)

    def _node(self, spec: NodeSpec) -> NodeFolder:
        return NodeFolder(self._folder.node(spec.name), spec, self._topology, self._secrets, self._commands)

    def _inspect(self, spec: NodeSpec) -> OnDisk:
        node = self._node(spec)
        process = self._process(node.root)
        disk = node.read(running=process is not None)
        if process is not None:
            return replace(disk, pid=process.pid)
        return replace(disk, port_taken=self._taken_bus_port(spec))

    def _taken_bus_port(self, spec: NodeSpec) -> int | None:
        """The node's bus port, if another process uses it while the node does not run.

        None if the node's data port accepts connections, because `observe` then reports the process that listens there.
        """
        if self._topology.kind is not Kind.CLUSTER:
            return None
        bus = spec.port + BUS_PORT_OFFSET
        return None if _is_free(spec.address, bus) or answers(spec.address, spec.port) else bus

    def _process(self, folder: Path) -> ProcessId | None:
        """Find the node's server by rlctl's record of the process, by the server's pid file, or by a process scan.

        The working folder of the process must be the node's folder.
        """
        pid = read_damaged(folder / "redis.pid").strip()
        by_pid_file = ProcessId.of(int(pid)) if pid.isdecimal() else None
        for process in (ProcessId.load(folder / "process.json"), by_pid_file):
            if process is not None and process.is_alive() and process.works_in(folder):
                return process
        return self._servers().get(NodeName(folder.name)) if folder.is_dir() else None

    def _servers(self) -> dict[NodeName, ProcessId]:
        """The fleet's running servers, found by a scan of all processes."""
        return {name: process for name, process, command in self._fleet_processes() if not _SAVE_CHILD.match(command)}

    def _await_ends(self, specs: Iterable[NodeSpec]) -> None:
        """Wait for servers that were just killed, because they hold their ports until their last threads have ended."""
        recorded = (ProcessId.load(self._node(spec).process) for spec in specs)
        self._stop([process for process in recorded if process is not None and process.is_ending()], Signals.SIGKILL)

    def _end_save_children(self, names: Sequence[NodeName]) -> None:
        """Kill save processes that outlived the servers of these nodes.

        Such a process would write into a folder that is removed or used again.
        """
        children = [
            process
            for name, process, command in self._fleet_processes()
            if name in names and _SAVE_CHILD.match(command)
        ]
        self._stop(children, Signals.SIGKILL)

    def _fleet_processes(self) -> Iterator[tuple[NodeName, ProcessId, str]]:
        """The fleet's processes with their command lines. Leaves out others, such as a shell in a node's folder."""
        for folder, inside in processes_below(self._folder.nodes).items():
            name = NodeName(folder.name)
            for process, command in inside:
                if process.is_alive() and any(mark in command for mark in self._marks(name)):
                    yield name, process, command

    def _marks(self, name: NodeName) -> tuple[str, str]:
        """Texts that identify the node in its server's command line: one during the start, the other afterwards."""
        static_conf = NodeFiles(folder=self._folder.node(name)).static_conf
        return str(static_conf), process_title(self._topology.name, name)

    def _start(self, program: ServerProgram, launch: Launch) -> None:
        node = self._node(launch.spec)
        pid = start_detached(node.argv(program.path, launch), folder=node.root, output=node.output)
        started = ProcessId.of(pid)
        if started is not None:
            _save_or_end(started, node.process)

    def _outcome(self, spec: NodeSpec) -> NodeResult | None:
        """Result of a start; None while the server neither listens nor has ended."""
        node = self._node(spec)
        recorded = ProcessId.load(node.process)
        if recorded is not None:
            reap(recorded.pid)
        if recorded is None or not recorded.is_alive():
            error = node.last_error(self._logs_before[spec.name])
            return NodeResult(error=f"the server ended at once: {error or 'its log has no error'}")
        return NodeResult() if answers(spec.address, spec.port) else None

    def _stop(self, processes: Iterable[ProcessId], number: Signals) -> list[ProcessId]:
        """Send a signal and wait for the processes to end; returns those that still run after `STOP_S`."""
        waiting = list(processes)
        for process in waiting:
            process.send(number)

        def all_gone() -> bool:
            waiting[:] = [process for process in waiting if process.is_alive()]
            return not waiting

        try:
            wait_until(all_gone, timeout_s=STOP_S, clock=self._clock, what="servers ending")
        except TimedOut:
            return waiting
        return []


def _of_user(socket: ListeningSocket | None) -> str:
    return "of an unknown user" if socket is None else f"of user id {socket.uid}"


def _save_or_end(process: ProcessId, path: Path) -> None:
    """Record a server's process.

    If that fails, as on a full disk, kill the process, because rlctl might not find it again without the record.
    """
    try:
        process.save(path)
    except Unreachable:
        process.send(Signals.SIGKILL)
        raise


def _rotate(log: Path) -> None:
    """Rotate a long log and keep one old log. The server needs no signal, because it opens its log for each line."""
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        log.replace(log.with_suffix(".log.1"))


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as failure:
            if failure.errno == errno.EADDRNOTAVAIL:
                raise Unreachable(
                    f"{address} is not an address of this machine", hint="see local.address and local.spread"
                ) from failure
            return False
    return True
