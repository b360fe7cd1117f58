"""Which nodes are proven by their hosts, and how often a host is asked."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from rlctl.errors import RlctlError, TimedOut
from rlctl.system.ssh import Machine
from rlctl.targets.host_proofs import FREE_S, HELD_S, OFF_S, HostProofs
from rlctl.topology.load import load_topology
from rlctl.topology.nodes import all_nodes

TOPOLOGY = load_topology(
    b"""\
version: 1
name: limiter
kind: cluster
target: hosts
hosts:
  - {address: 192.168.1.10, name: h1}
  - {address: 192.168.1.11, name: h2}
  - {address: 192.168.1.12, name: h3}
""",
    "topology.yaml",
)
ON_H1 = [spec for spec in all_nodes(TOPOLOGY) if spec.host == "h1"]


@dataclass
class FakeClock:
    time: float = 0.0

    def monotonic(self) -> float:
        return self.time


@dataclass
class Hosts:
    """Answers in the place of ssh."""

    held: Any
    asked: list[str] = field(default_factory=list)

    def python(self, machine: Machine, program: str, arguments: Sequence[str], *, timeout_s: float) -> str:
        del program, timeout_s
        self.asked.append(machine.name)
        if isinstance(self.held, RlctlError):
            raise self.held
        return json.dumps(dict.fromkeys(json.loads(arguments[0]), self.held) if self.held is not None else [])


def proofs(hosts: Hosts, clock: FakeClock) -> HostProofs:
    return HostProofs(TOPOLOGY, hosts, clock)  # type: ignore[arg-type]


def test_all_nodes_of_a_host_are_proven_by_one_answer() -> None:
    hosts, clock = Hosts(held=True), FakeClock()
    subject = proofs(hosts, clock)
    assert [subject.why_unproven(spec) for spec in ON_H1] == [None] * len(ON_H1)
    assert hosts.asked == ["h1"]
    clock.time += HELD_S + 0.1
    subject.why_unproven(ON_H1[0])
    assert hosts.asked == ["h1", "h1"]


def test_a_node_that_does_not_hold_its_port_is_asked_for_again_soon() -> None:
    hosts, clock = Hosts(held=False), FakeClock()
    subject = proofs(hosts, clock)
    assert subject.why_unproven(ON_H1[0]) == "its unit on host h1 does not hold the port"
    clock.time += FREE_S + 0.1
    hosts.held = True
    assert subject.why_unproven(ON_H1[0]) is None


@pytest.mark.parametrize("held", [TimedOut("host h1: no answer within 5 s"), None], ids=["silent", "nonsense"])
def test_a_host_that_does_not_tell_hides_no_node_and_is_left_alone_for_a_while(held: Any) -> None:
    hosts, clock = Hosts(held=held), FakeClock()
    subject = proofs(hosts, clock)
    assert subject.why_unproven(ON_H1[0]) is None
    assert subject.why_unproven(ON_H1[0]) is None
    assert hosts.asked == ["h1"]
    clock.time += OFF_S + 1
    subject.why_unproven(ON_H1[0])
    assert hosts.asked == ["h1", "h1"]
