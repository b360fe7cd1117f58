"""Proves over ssh that a node's unit holds the node's port, before rlctl sends a password to that port without TLS."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from rlctl.errors import HostRefused, RlctlError, Unreachable
from rlctl.system.clock import Clock
from rlctl.system.ssh import Ssh
from rlctl.targets.hosts import port_probe
from rlctl.targets.hosts.files import unit
from rlctl.targets.hosts.shells import machine
from rlctl.topology.model import HostEntry, Topology
from rlctl.topology.nodes import NodeSpec, all_nodes, host_name

# A positive answer is valid for this time. rlctl connects to all nodes of a host at the same time, so one answer then
# serves them all.
HELD_S = 1.0
# A server that was just started opens its port a moment later, so a negative answer is valid for a short time only.
FREE_S = 0.2
# A host that could not be queried is queried again after this time.
OFF_S = 2.0
# Time limit of an answer if ssh has to log in first. A log-in takes a second, on a busy machine up to six. `status`
# waits no longer than this for a host whose ssh hangs.
ANSWER_S = 8.0
# Time limit of an answer over an open connection, which normally takes at most a second. Without the limit, a
# connection to a host that has lost power would hang for minutes.
OPEN_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """A host's answer: whether each node's unit holds the node's port, or why that is unknown.

    `at` is the time of the answer.
    """

    at: float
    held: Mapping[str, bool] | RlctlError

    def is_fresh(self, name: str, now: float) -> bool:
        """Whether the answer is still valid for this node."""
        if isinstance(self.held, RlctlError):
            return now - self.at <= OFF_S
        return now - self.at <= (HELD_S if self.held[name] else FREE_S)


class HostProofs:
    """Proves for each node of the fleet that the node's unit holds the node's port.

    One request to a host covers all nodes of the host, and the host's answer is cached briefly.
    """

    def __init__(self, topology: Topology, ssh: Ssh, clock: Clock) -> None:
        self._topology = topology
        self._ssh = ssh
        self._clock = clock
        self._hosts = {host_name(host): host for host in topology.hosts}
        self._locks = {name: Lock() for name in self._hosts}
        self._answers: dict[str, _Answer] = {}

    def why_unproven(self, spec: NodeSpec) -> str | None:
        """The reason to doubt that the node itself listens at its address; None if the node's host confirms it."""
        assert spec.host is not None
        held = self._held(spec.host, spec.name)
        if isinstance(held, RlctlError):
            problem = held.message.removeprefix(f"host {spec.host}: ")
            return f"host {spec.host} did not confirm that its unit holds the port: {problem}"
        return None if held[spec.name] else f"its unit on host {spec.host} does not hold the port"

    def _held(self, host: str, name: str) -> Mapping[str, bool] | RlctlError:
        with self._locks[host]:
            known = self._answers.get(host)
            if known is None or not known.is_fresh(name, self._clock.monotonic()):
                held = self._ask(self._hosts[host])
                known = self._answers[host] = _Answer(at=self._clock.monotonic(), held=held)
            return known.held

    def _ask(self, host: HostEntry) -> Mapping[str, bool] | RlctlError:
        """Query the host. If a shared connection may have caused a failure, query once more over a new connection."""
        started, is_open = self._clock.monotonic(), self._ssh.is_open(machine(host))
        try:
            return self._answer(host, timeout_s=OPEN_S if is_open else ANSWER_S, shared=True)
        except HostRefused as failure:
            return failure
        except RlctlError as failure:
            if not is_open and self._clock.monotonic() - started > OPEN_S:
                return failure
        try:
            return self._answer(host, timeout_s=ANSWER_S - OPEN_S, shared=False)
        except RlctlError as failure:
            return failure

    def _answer(self, host: HostEntry, *, timeout_s: float, shared: bool) -> Mapping[str, bool]:
        name = host_name(host)
        own = [spec for spec in all_nodes(self._topology) if spec.host == name]
        program = Path(port_probe.__file__).read_text(encoding="utf-8")
        answer = self._ssh.python(machine(host), program, [self._request(own)], timeout_s=timeout_s, shared=shared)
        return parse_held(name, answer, own)

    def _request(self, specs: list[NodeSpec]) -> str:
        return json.dumps(
            {
                spec.name: {"unit": unit(self._topology, spec.name), "address": spec.address, "port": spec.port}
                for spec in specs
            }
        )


def parse_held(host: str, text: str, specs: list[NodeSpec]) -> Mapping[str, bool]:
    """Parse the port probe's output. Raises Unreachable if the output is not valid."""
    try:
        answer = json.loads(text)
        return {spec.name: _flag(answer[spec.name]) for spec in specs}
    except (ValueError, KeyError, TypeError) as failure:
        raise Unreachable(
            f"host {host}: its answer cannot be read: {text[:80]!r}",
            hint="check the log-in scripts there: they must print nothing in a session without a terminal",
        ) from failure


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value
