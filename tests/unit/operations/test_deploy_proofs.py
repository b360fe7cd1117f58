"""Deploy where nodes are not proven: the host's own failure comes first, since its hint repairs it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rlctl.errors import HostRefused, Refused, RlctlError, Unreachable
from rlctl.execute.session import FleetSession
from rlctl.observe.model import Observed, Presence
from rlctl.operations.deploy import plan_deploy
from rlctl.topology.model import HostEntry, TargetName, Topology
from rlctl.topology.nodes import all_nodes
from tests.unit.fleets import changed, cluster, desired_of, healthy, hung

HOSTS = tuple(HostEntry(address=f"10.0.0.{number}", name=f"h{number - 10}") for number in (11, 12, 13))
ON_HOSTS = replace(cluster(), target=TargetName.HOSTS, hosts=HOSTS)
SUDO = HostRefused("host h2: sudo refused", hint="let the user of ssh run `sudo -n` there")
KEY = HostRefused("host h3: its host key is not the one that is known", hint="ssh-keygen -R")
OFF = Unreachable("host h1 cannot be reached")


def unproven_on(topology: Topology, *hosts: str | None) -> Observed:
    state = healthy(topology)
    for spec in all_nodes(topology):
        if spec.host in hosts:
            state = changed(
                hung(state, spec.name, presence=Presence.UNPROVEN), spec.name, evidence=f"{spec.endpoint}: no proof"
            )
    return state


class FakeFleet:
    """What nodes say, one reading after the other, and what a look at the hosts finds."""

    def __init__(self, topology: Topology, readings: list[Observed], looks: dict[str, object]) -> None:
        self.topology = topology
        self.new_services: tuple[str, ...] = ()
        self.looks = 0
        self.readings = readings
        self.target = SimpleNamespace(machines=self._look, placed=tuple, drift=dict)
        self._found = looks

    def check_deployable(self) -> None:
        """It is."""

    def observe(self) -> Observed:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]

    def desired(self, observed: Observed) -> Any:
        del observed
        return desired_of(self.topology)

    def _look(self) -> dict[str, object]:
        self.looks += 1
        return self._found


def planned(fleet: FakeFleet) -> None:
    plan_deploy(cast("FleetSession", fleet), cast("Any", SimpleNamespace(note=print)))


@pytest.mark.parametrize(
    ("unproven", "looks", "kind", "message"),
    [
        pytest.param(["h2"], {"h2": SUDO}, HostRefused, "host h2: sudo refused", id="sudo"),
        pytest.param(
            ["h2", "h3"],
            {"h3": KEY, "h2": SUDO},
            HostRefused,
            "host h2: sudo refused; host h3: its host key is not the one that is known",
            id="two hosts",
        ),
        pytest.param(["h2"], {"h1": OFF, "h2": SUDO}, HostRefused, "host h2: sudo refused", id="not another host"),
        pytest.param(["h1"], {"h1": OFF}, Unreachable, "host h1 cannot be reached", id="no ssh"),
    ],
)
def test_the_failure_of_the_host_is_told(
    unproven: list[str], looks: dict[str, object], kind: type[RlctlError], message: str
) -> None:
    fleet = FakeFleet(ON_HOSTS, [unproven_on(ON_HOSTS, *unproven)], looks)
    with pytest.raises(RlctlError) as caught:
        planned(fleet)
    assert type(caught.value) is kind
    assert caught.value.message == message


def test_a_host_that_answers_and_does_not_confirm_is_refused_by_the_guard() -> None:
    fleet = FakeFleet(ON_HOSTS, [unproven_on(ON_HOSTS, "h2")], {"h1": OFF, "h2": SimpleNamespace()})
    with pytest.raises(Refused, match="is not proven to be this node"):
        planned(fleet)


def test_a_host_that_was_slow_to_answer_is_asked_for_its_proof_again() -> None:
    fleet = FakeFleet(ON_HOSTS, [unproven_on(ON_HOSTS, "h2"), healthy(ON_HOSTS)], {"h2": SimpleNamespace()})
    planned(fleet)
    assert fleet.looks == 1


def test_without_unproven_nodes_and_hosts_nothing_is_looked_at() -> None:
    proven = FakeFleet(ON_HOSTS, [healthy(ON_HOSTS)], {})
    planned(proven)
    local = FakeFleet(cluster(), [unproven_on(cluster(), None)], {})
    with pytest.raises(Refused, match="is not proven to be this node"):
        planned(local)
    assert proven.looks == local.looks == 0
