"""Which nodes hold their ports, asked of their hosts over ssh before a password is sent without TLS."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from rlctl.errors import RlctlError, Unreachable
from rlctl.system import on_host_ports
from rlctl.system.clock import Clock
from rlctl.system.ssh import Ssh
from rlctl.targets.host_files import unit
from rlctl.targets.host_shells import machine
from rlctl.topology.model import HostEntry, Topology
from rlctl.topology.nodes import NodeSpec, all_nodes, host_name

# Connections to the nodes of one host are opened together: one answer serves them.
HELD_S = 1.0
# A server that was just started holds its port a moment later.
FREE_S = 0.2
# A host that does not answer in this time is not asked again for a while.
ANSWER_S = 5.0
OFF_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """Whether each node's unit holds its port, or why that is not known, and when that was asked."""

    at: float
    held: Mapping[str, bool] | RlctlError

    def is_fresh(self, name: str, now: float) -> bool:
        """Whether another question for this node would be too soon."""
        if isinstance(self.held, RlctlError):
            return now - self.at <= OFF_S
        return now - self.at <= (HELD_S if self.held[name] else FREE_S)


class HostProofs:
    """Asks each host at most once in a moment, for all of its nodes."""

    def __init__(self, topology: Topology, ssh: Ssh, clock: Clock) -> None:
        self._topology = topology
        self._ssh = ssh
        self._clock = clock
        self._hosts = {host_name(host): host for host in topology.hosts}
        self._locks = {name: Lock() for name in self._hosts}
        self._answers: dict[str, _Answer] = {}

    def why_unproven(self, spec: NodeSpec) -> str | None:
        """Why another process may listen at the node's address; None where it is the node's, or no host answers."""
        assert spec.host is not None
        held = self._held(spec.host, spec.name)
        # No process there can keep root's ssh out. And a host that refuses ssh must not hide its healthy nodes.
        if isinstance(held, RlctlError) or held[spec.name]:
            return None
        return f"its unit on host {spec.host} does not hold the port"

    def _held(self, host: str, name: str) -> Mapping[str, bool] | RlctlError:
        with self._locks[host]:
            known = self._answers.get(host)
            if known is None or not known.is_fresh(name, self._clock.monotonic()):
                held = self._ask(self._hosts[host])
                known = self._answers[host] = _Answer(at=self._clock.monotonic(), held=held)
            return known.held

    def _ask(self, host: HostEntry) -> Mapping[str, bool] | RlctlError:
        name = host_name(host)
        own = [spec for spec in all_nodes(self._topology) if spec.host == name]
        program = Path(on_host_ports.__file__).read_text(encoding="utf-8")
        try:
            answer = self._ssh.python(machine(host), program, [self._question(own)], timeout_s=ANSWER_S)
            return parse_held(name, answer, own)
        except RlctlError as failure:
            return failure

    def _question(self, specs: list[NodeSpec]) -> str:
        return json.dumps(
            {
                spec.name: {"unit": unit(self._topology, spec.name), "address": spec.address, "port": spec.port}
                for spec in specs
            }
        )


def parse_held(host: str, text: str, specs: list[NodeSpec]) -> Mapping[str, bool]:
    """A host's answer; Unreachable where it is none."""
    try:
        answer = json.loads(text)
        return {spec.name: bool(answer[spec.name]) for spec in specs}
    except (ValueError, KeyError, TypeError) as failure:
        raise Unreachable(
            f"host {host}: its answer cannot be read: {text[:80]!r}",
            hint="a log-in script there must print nothing when nobody is at a terminal",
        ) from failure
