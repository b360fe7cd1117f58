"""Root shells on a fleet's hosts, opened once and kept: what a drill does there must not wait for a log-in."""

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
    """At most one shell a host, for all who have something to do there; it ends with this process at the latest."""

    def __init__(self, topology: Topology, sockets: Path) -> None:
        self._hosts = {host_name(host): host for host in topology.hosts}
        self._sockets = sockets
        self._open: dict[str, RootShell] = {}

    def run(self, host: str, script: str) -> str:
        """What a script printed on one host; a shell that failed is not asked again, the next call opens another."""
        shell = self._open.get(host) or self._open_shell(host)
        try:
            return shell.run(script)
        except (Unreachable, TimedOut):
            self.close(host)
            raise

    def run_all(self, scripts: Mapping[str, str]) -> None:
        """One script on each of these hosts, at once."""
        with ThreadPoolExecutor(max_workers=max(1, len(scripts))) as pool:
            list(pool.map(self.run, scripts, scripts.values()))

    def close(self, host: str) -> None:
        """Hang up on one host."""
        shell = self._open.pop(host, None)
        if shell is not None:
            shell.close()

    def _open_shell(self, host: str) -> RootShell:
        argv = ssh_argv(machine(self._hosts[host]), self._sockets, COMMAND)
        return self._open.setdefault(host, RootShell(argv, f"host {host}"))


def machine(host: HostEntry) -> Machine:
    """How a host of the topology is reached."""
    return Machine(name=host_name(host), address=host.address, port=host.port, user=host.user)


def suspend_restarts_script(fleet: str, seconds: float) -> str:
    """Tells the guard of the fleet's units to start nothing by itself for so long on the host's clock; 0 ends it."""
    hold = f"/run/rlctl/{fleet}/hold"
    if not seconds:
        return f"rm -f {hold}"
    return f"mkdir -p /run/rlctl/{fleet} && echo $(($(date +%s) + {math.ceil(seconds)})) > {hold}"


def signal_script(topology: Topology, nodes: Sequence[NodeSpec], number: int) -> str:
    """Signals the servers of these nodes; one that does not run needs none.

    By the server's own pid file, proven by the title that the process has: systemctl would take a tenth of a second.
    """
    return "\n".join(
        f"pid=$(cat {node_files(topology, spec).pid} 2>/dev/null) && tr '\\0' ' ' </proc/$pid/cmdline 2>/dev/null "
        f"| grep -q '{process_title(topology.name, spec.name)} *$' && kill -{number} $pid || :"
        for spec in nodes
    )
