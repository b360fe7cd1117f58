"""What commands that need one node say when nothing proves it: the reason, and what to do about it."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rlctl.errors import AccessDenied, RlctlError, Unreachable
from rlctl.execute.session import FleetSession
from rlctl.observe.model import Observed, Presence
from rlctl.operations.fence import plan_fence
from rlctl.operations.scripts import fleet_history
from rlctl.rules.in_force import read_rules_in_force
from rlctl.topology.model import HostEntry, TargetName, Topology
from tests.unit.fleets import changed, cluster, healthy, hung

HOSTS = tuple(HostEntry(address=f"10.0.0.{number}", name=f"h{number}") for number in (11, 12, 13))
TOPOLOGY = replace(cluster(), target=TargetName.HOSTS, hosts=HOSTS)
WHY = "10.0.0.11:7000: host h1 did not confirm that its unit holds the port: sudo refused"
NODES = tuple(f"node-{number}" for number in range(6))


def with_presence(presence: Presence, *nodes: str) -> Observed:
    state = healthy(TOPOLOGY)
    for node in nodes:
        state = changed(hung(state, node, presence=presence), node, evidence=WHY)
    return state


def fleet_that_says(state: Observed, *, found: Any = "secrets", topology: Topology = TOPOLOGY) -> FleetSession:
    nothing: dict[str, Any] = dict.fromkeys(
        ("refusals", "home", "folder", "secrets", "release", "target", "connector", "clock")
    )
    collector = SimpleNamespace(collect=lambda: state)
    return FleetSession(topology=topology, found=found, collector=cast("Any", collector), **nothing)


def fence(fleet: FleetSession) -> object:
    return plan_fence(fleet, "node-0", wanted=True)


@pytest.mark.parametrize(
    "command", [fence, read_rules_in_force, fleet_history], ids=["fence", "rules", "scripts history"]
)
def test_a_command_names_the_proof_that_is_missing(command: Callable[[FleetSession], object]) -> None:
    with pytest.raises(Unreachable) as caught:
        command(fleet_that_says(with_presence(Presence.UNPROVEN, *NODES)))
    assert f"node-0 is not proven ({WHY})" in caught.value.message
    assert "does not answer" not in caught.value.message
    assert caught.value.hint.startswith("repair ssh and sudo to the host")


@pytest.mark.parametrize(
    "command", [fence, read_rules_in_force, fleet_history], ids=["fence", "rules", "scripts history"]
)
def test_a_node_that_is_silent_is_said_to_be_silent(command: Callable[[FleetSession], object]) -> None:
    with pytest.raises(Unreachable) as caught:
        command(fleet_that_says(with_presence(Presence.HUNG, *NODES)))
    assert "does not answer" in caught.value.message
    assert "ssh" not in caught.value.hint


def without_secrets(state: Observed) -> RlctlError:
    with pytest.raises(AccessDenied) as caught:
        fleet_that_says(state, found=None).observe()
    return caught.value


def test_without_secrets_a_fleet_that_refuses_us_may_be_ours() -> None:
    error = without_secrets(with_presence(Presence.DENIED, "node-0"))
    assert error.message.startswith("servers answer at the addresses of fleet limiter, and this machine has no secrets")
    assert "rlctl secrets import FILE" in error.hint
    assert "ssh" not in error.hint


@pytest.mark.parametrize("nodes", [("node-0",), NODES], ids=["one", "all"])
def test_without_secrets_and_proofs_both_are_told(nodes: tuple[str, ...]) -> None:
    error = without_secrets(with_presence(Presence.UNPROVEN, *nodes))
    assert "this machine has no secrets for it" in error.message
    assert WHY in error.message
    assert "rlctl secrets import FILE" in error.hint
    assert "repair ssh and sudo to the host" in error.hint
    assert "`security: {tls: true}`" in error.hint
