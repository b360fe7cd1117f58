"""Which nodes are proven by their hosts, how often a host is asked, and what is said where one does not confirm."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from rlctl.errors import RlctlError, TimedOut
from rlctl.system.ssh import Machine, ssh_failure
from rlctl.targets.hosts.proofs import ANSWER_S, FREE_S, HELD_S, OFF_S, OPEN_S, HostProofs
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
DOUBT = "host h1 did not confirm that its unit holds the port: "
# What the host says in JSON, an ssh that failed, or text that is no answer.
Said = bool | Callable[[Machine], RlctlError] | str

REFUSED_SUDO = partial(ssh_failure, code=97, stderr="")
REFUSED_LOGIN = partial(ssh_failure, code=255, stderr="ops@192.168.1.10: Permission denied (publickey).")
CHANGED_KEY = partial(ssh_failure, code=255, stderr="REMOTE HOST IDENTIFICATION HAS CHANGED")
NO_ROUTE = partial(ssh_failure, code=255, stderr="ssh: connect to host 192.168.1.10 port 22: No route to host")
BROKEN_PIPE = partial(ssh_failure, code=255, stderr="mux_client_request_session: read from master failed: Broken pipe")
NO_PYTHON = partial(ssh_failure, code=96, stderr="")
ENDED = partial(ssh_failure, code=1, stderr="systemctl: not found")


def silent(machine: Machine) -> RlctlError:
    return TimedOut(f"{machine}: no answer within 5 s")


@dataclass
class FakeClock:
    time: float = 0.0

    def monotonic(self) -> float:
        return self.time


@dataclass(frozen=True)
class Asked:
    host: str
    timeout_s: float
    shared: bool


@dataclass
class Hosts:
    """Answers in the place of ssh: one after the other, the last one from then on."""

    answers: list[Said]
    clock: FakeClock = field(default_factory=FakeClock)
    is_connected: bool = False
    takes_s: float = 0.0
    asked: list[Asked] = field(default_factory=list)

    def is_open(self, machine: Machine) -> bool:
        del machine
        return self.is_connected

    def python(
        self, machine: Machine, program: str, arguments: Sequence[str], *, timeout_s: float, shared: bool = True
    ) -> str:
        del program
        self.asked.append(Asked(machine.name, timeout_s, shared))
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.clock.time += timeout_s if said is silent else self.takes_s
        if isinstance(said, str):
            return said
        if callable(said):
            raise said(machine)
        return json.dumps(dict.fromkeys(json.loads(arguments[0]), said))

    @property
    def names(self) -> list[str]:
        return [one.host for one in self.asked]


def proofs(hosts: Hosts) -> HostProofs:
    return HostProofs(TOPOLOGY, hosts, hosts.clock)  # type: ignore[arg-type]


def test_all_nodes_of_a_host_are_proven_by_one_answer() -> None:
    hosts = Hosts([True])
    subject = proofs(hosts)
    assert [subject.why_unproven(spec) for spec in ON_H1] == [None] * len(ON_H1)
    assert hosts.names == ["h1"]
    hosts.clock.time += HELD_S + 0.1
    subject.why_unproven(ON_H1[0])
    assert hosts.names == ["h1", "h1"]


def test_a_node_that_does_not_hold_its_port_is_asked_for_again_soon() -> None:
    hosts = Hosts([False, True])
    subject = proofs(hosts)
    assert subject.why_unproven(ON_H1[0]) == "its unit on host h1 does not hold the port"
    hosts.clock.time += FREE_S + 0.1
    assert subject.why_unproven(ON_H1[0]) is None


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        pytest.param(silent, "no answer within 5 s", id="silent"),
        pytest.param(REFUSED_SUDO, "sudo refused to work without a password", id="sudo"),
        pytest.param(REFUSED_LOGIN, "ssh was refused: ops@192.168.1.10: Permission denied (publickey).", id="log-in"),
        pytest.param(CHANGED_KEY, "its host key is not the one that is known for 192.168.1.10", id="another host key"),
        pytest.param(
            NO_ROUTE,
            "host h1 cannot be reached: ssh: connect to host 192.168.1.10 port 22: No route to host",
            id="no route",
        ),
        pytest.param(NO_PYTHON, "there is no python3", id="no python"),
        pytest.param(ENDED, "the probe ended with exit code 1: systemctl: not found", id="a failed probe"),
        pytest.param("", "its answer cannot be read: ''", id="no answer"),
        pytest.param("Welcome!\n{}", "its answer cannot be read: 'Welcome!\\n{}'", id="a log-in script prints"),
        pytest.param("[]", "its answer cannot be read: '[]'", id="no object"),
        pytest.param("{}", "its answer cannot be read: '{}'", id="not about the node"),
        pytest.param(
            json.dumps({spec.name: "no" for spec in ON_H1}),
            """its answer cannot be read: '{"node-0": "no", "node-5": "no"}'""",
            id="neither true nor false",
        ),
    ],
)
def test_without_the_hosts_word_a_node_is_unproven(said: Said, reason: str) -> None:
    """Every way in which ssh can fail keeps the password here, and is told."""
    assert proofs(Hosts([said])).why_unproven(ON_H1[0]) == DOUBT + reason


def test_a_host_that_did_not_confirm_is_asked_again_soon() -> None:
    hosts = Hosts([REFUSED_SUDO, True])
    subject = proofs(hosts)
    for spec in ON_H1:
        assert subject.why_unproven(spec) is not None
    assert hosts.names == ["h1"], "one answer serves all nodes of the host"
    assert OFF_S <= 2.0
    hosts.clock.time += OFF_S + 0.1
    assert subject.why_unproven(ON_H1[0]) is None


@pytest.mark.parametrize(
    "first",
    [NO_ROUTE, BROKEN_PIPE, ENDED, ""],
    ids=["no route", "the shared connection has ended", "a failed look", "unreadable"],
)
def test_a_host_is_asked_once_more_over_a_connection_of_its_own(first: Said) -> None:
    hosts = Hosts([first, True])
    assert proofs(hosts).why_unproven(ON_H1[0]) is None
    assert [one.shared for one in hosts.asked] == [True, False]


@pytest.mark.parametrize("said", [REFUSED_SUDO, REFUSED_LOGIN, CHANGED_KEY], ids=["sudo", "log-in", "host key"])
def test_a_refusal_is_final(said: Said) -> None:
    hosts = Hosts([said, True])
    assert proofs(hosts).why_unproven(ON_H1[0]) is not None
    assert hosts.names == ["h1"]


def test_an_open_connection_that_is_silent_is_not_waited_for_as_long_as_a_new_one() -> None:
    """After a power cut it stays silent for minutes, while the host answers again."""
    hosts = Hosts([silent, True], is_connected=True)
    assert proofs(hosts).why_unproven(ON_H1[0]) is None
    assert hosts.asked == [Asked("h1", OPEN_S, shared=True), Asked("h1", ANSWER_S - OPEN_S, shared=False)]


@pytest.mark.parametrize(
    ("is_connected", "said", "takes_s", "asked"),
    [
        pytest.param(False, silent, 0.0, [ANSWER_S], id="no connection, silent"),
        pytest.param(True, silent, 0.0, [OPEN_S, ANSWER_S - OPEN_S], id="a silent connection"),
        pytest.param(False, NO_ROUTE, OPEN_S + 0.1, [ANSWER_S], id="no connection, and slow to fail"),
        pytest.param(False, NO_ROUTE, OPEN_S, [ANSWER_S, ANSWER_S - OPEN_S], id="no connection, and quick to fail"),
    ],
)
def test_how_long_a_host_is_waited_for(*, is_connected: bool, said: Said, takes_s: float, asked: list[float]) -> None:
    """A busy machine needs seconds for a log-in; a host that hangs must not hold `status` up for more than a few."""
    hosts = Hosts([said], is_connected=is_connected, takes_s=takes_s)
    assert proofs(hosts).why_unproven(ON_H1[0]) is not None
    assert [one.timeout_s for one in hosts.asked] == asked
    assert hosts.clock.time <= ANSWER_S <= 8.0


def test_one_host_that_fails_says_nothing_of_the_others() -> None:
    hosts: Any = Hosts([REFUSED_SUDO, True])
    subject = proofs(hosts)
    found = {spec.host: subject.why_unproven(spec) for spec in all_nodes(TOPOLOGY)}
    assert [host for host, reason in found.items() if reason is not None] == ["h1"]
