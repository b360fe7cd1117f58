"""After every real batch of a plan, the observed fleet is what `simulate` predicted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from itertools import groupby
from typing import Any

import pytest

from rlctl.execute.executor import Executor
from rlctl.execute.journal import Journal
from rlctl.execute.session import FleetSession, open_fleet
from rlctl.execute.stop import StopFlag
from rlctl.observe.model import NodeFacts, Observed
from rlctl.plan.desired import Desired
from rlctl.plan.planner import Plan, make_plan
from rlctl.plan.simulate import simulate
from rlctl.plan.steps import Step
from rlctl.state.home import Home
from rlctl.topology.load import load_topology
from tests.local.driver import LocalFleet, cluster_document, sentinel_document, wait_for

MakeFleet = Callable[[dict[str, Any]], LocalFleet]
Documents = Callable[..., dict[str, Any]]
KINDS = pytest.mark.parametrize("document", [cluster_document, sentinel_document], ids=["cluster", "sentinel"])


class Silence:
    """A Progress that ignores every event."""

    def note(self, text: str) -> None:
        pass

    def step(self, number: int, of: int, text: str, outcome: str) -> None:
        pass


@contextmanager
def opened(files: LocalFleet) -> Iterator[FleetSession]:
    home = Home(files.home)
    home.open_for_writing()
    with open_fleet(load_topology(files.file.read_bytes(), str(files.file)), home) as fleet:
        fleet.save()
        yield fleet


def batches(plan: Plan) -> list[tuple[Step, ...]]:
    return [tuple(group) for _type, group in groupby(plan.steps, key=type)]


def carry_out(fleet: FleetSession, plan: Plan, steps: tuple[Step, ...]) -> None:
    journal = Journal(fleet.home.journal(fleet.topology.name), fleet.clock)
    Executor(fleet, journal, Silence(), StopFlag(), lambda: None).execute(replace(plan, steps=steps))


def differences(predicted: Observed, real: Observed) -> list[str]:
    """Differences between the observed and the predicted fleet. Gossip may know more than predicted, never less."""
    found: list[str] = []
    for said, seen in zip(predicted.nodes, real.nodes, strict=True):
        found += [f"{said.name}: {name} {was!r}, predicted {will!r}" for name, will, was in _compared(said, seen)]
        if unknown := said.known - seen.known:
            found.append(f"{said.name}: does not know {sorted(unknown)}")
    return found


def _compared(said: NodeFacts, seen: NodeFacts) -> Iterator[tuple[str, object, object]]:
    for name in ("presence", "role", "slots", "follows", "acl_revision"):
        will, was = getattr(said, name), getattr(seen, name)
        # The revision of users depends on the server's version, which is unknown before the first start.
        if will != was and not (name == "acl_revision" and will is None):
            yield name, will, was
    if said.sentinel is not None:
        was = seen.sentinel.primary if seen.sentinel else None
        if said.sentinel.primary != was:
            yield "primary", said.sentinel.primary, was


def assert_becomes(fleet: FleetSession, predicted: Observed) -> None:
    """Wait for gossip. It may take time, but must reach the predicted state."""
    seen: list[str] = []

    def same() -> bool:
        seen[:] = differences(predicted, fleet.observe())
        return not seen

    try:
        wait_for(same, "reality is as predicted", timeout_s=30)
    except AssertionError as failure:
        raise AssertionError("\n".join(seen)) from failure


@KINDS
def test_every_batch_does_what_the_simulation_says(make_fleet: MakeFleet, document: Documents) -> None:
    files = make_fleet(document())
    with opened(files) as fleet:
        observed = fleet.observe()
        desired = fleet.desired(observed)
        plan = make_plan(desired, observed)
        predicted = observed
        for batch in batches(plan):
            carry_out(fleet, plan, batch)
            predicted = _after(desired, predicted, batch)
            assert_becomes(fleet, predicted)
        assert make_plan(fleet.desired(fleet.observe()), fleet.observe()).steps == ()
    assert files.deploy().json()["steps"] == []


@KINDS
@pytest.mark.parametrize("tenths", [0, 3, 5, 8])
def test_deploy_converges_from_every_prefix(make_fleet: MakeFleet, document: Documents, tenths: int) -> None:
    """Also from the middle of a batch, where a power failure can stop rlctl."""
    files = make_fleet(document())
    with opened(files) as fleet:
        observed = fleet.observe()
        plan = make_plan(fleet.desired(observed), observed)
        carry_out(fleet, plan, plan.steps[: len(plan.steps) * tenths // 10 + 1])
    files.deploy()
    assert files.status()["state"] == "healthy"
    assert len(files.processes()) == 6
    assert files.deploy().json()["steps"] == []


@KINDS
def test_every_batch_of_a_repair_does_what_the_simulation_says(make_fleet: MakeFleet, document: Documents) -> None:
    """Without persistence the plan waits for an election. The second replica is dead, so the winner is certain."""
    files = make_fleet(document(persistence={"mode": "none"}))
    files.deploy()
    with opened(files) as fleet:
        files.kill("node-0", "node-2")
        observed = fleet.observe()
        desired = fleet.desired(observed)
        plan = make_plan(desired, observed)
        predicted = observed
        for batch in batches(plan):
            carry_out(fleet, plan, batch)
            predicted = _after(desired, predicted, batch)
            assert_becomes(fleet, predicted)
        assert make_plan(fleet.desired(fleet.observe()), fleet.observe()).steps == ()


def _after(desired: Desired, state: Observed, batch: tuple[Step, ...]) -> Observed:
    return reduce(lambda before, step: simulate(desired, before, step), batch, state)
