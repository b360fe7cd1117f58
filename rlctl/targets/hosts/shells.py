"""Root shells on a fleet's hosts that stay open, so that a drill acts without the delay of a log-in."""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rlctl.errors import TimedOut, Unreachable
from rlctl.render.redis_conf import process_title
from rlctl.system.root_shell import COMMAND, RootShell
from rlctl.system.ssh import Machine, ssh_argv
from rlctl.targets.hosts.files import node_files
from rlctl.topology.model import HostEntry, Topology
from rlctl.topology.nodes import NodeSpec, host_name


class HostShells:
    """At most one shell for each host, opened at the first use. A shell ends at the latest with this process."""

    def __init__(self, topology: Topology, sockets: Path) -> None:
        self._hosts = {host_name(host): host for host in topology.hosts}
        self._sockets = sockets
        self._open: dict[str, RootShell] = {}

    def run(self, host: str, script: str) -> str:
        """Run a script on a host and return its output. After a failure the next call opens a new shell."""
        shell = self._open.get(host) or self._open_shell(host)
        try:
            return shell.run(script)
        except (Unreachable, TimedOut):
            self.close(host)
            raise

    def run_all(self, scripts: Mapping[str, str]) -> None:
        """Run one script on each of these hosts, all at the same time."""
        with ThreadPoolExecutor(max_workers=max(1, len(scripts))) as pool:
            list(pool.map(self.run, scripts, scripts.values()))

    def close(self, host: str) -> None:
        """Close the shell of a host."""
        shell = self._open.pop(host, None)
        if shell is not None:
            shell.close()

    def _open_shell(self, host: str) -> RootShell:
        argv = ssh_argv(machine(self._hosts[host]), self._sockets, COMMAND)
        return self._open.setdefault(host, RootShell(argv, f"host {host}"))


def machine(host: HostEntry) -> Machine:
    """The ssh address of a host of the topology."""
    return Machine(name=host_name(host), address=host.address, port=host.port, user=host.user)


def suspend_restarts_script(fleet: str, seconds: float) -> str:
    """Shell command that suspends automatic restarts of this fleet's units for `seconds`; 0 resumes them.

    The command writes the end of the suspension to a file. Before each start of a unit, systemd runs the script
    start-guard, which reads that file.
    """
    hold = f"/run/rlctl/{fleet}/hold"
    if not seconds:
        return f"rm -f {hold}"
    return f"mkdir -p /run/rlctl/{fleet} && echo $(($(date +%s) + {math.ceil(seconds)})) > {hold}"


def signal_script(topology: Topology, nodes: Sequence[NodeSpec], number: int) -> str:
    """Shell commands that send a signal to the servers of these nodes; they skip a node that does not run.

    The commands find a server by its pid file and its process title. To ask systemctl would take a tenth of a second.
    """
    return "\n".join(
        f"pid=$(cat {node_files(topology, spec).pid} 2>/dev/null) && tr '\\0' ' ' </proc/$pid/cmdline 2>/dev/null "
        f"| grep -q '{process_title(topology.name, spec.name)} *$' && kill -{number} $pid || :"
        for spec in nodes
    )
