"""The planner: compute the steps that bring an observed fleet to its topology. Pure."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from rlctl.observe.model import NodeFacts, Observed, Role
from rlctl.plan import cluster, guards, sentinel
from rlctl.plan.cluster import Phase
from rlctl.plan.desired import Desired, lacks_users, missing_scripts, setting_drift
from rlctl.plan.simulate import simulate
from rlctl.plan.steps import Configure, LoadScripts, LoadUsers, PreparePlace, Step, danger, describe, kind
from rlctl.topology.canonical import fingerprint as topology_fingerprint
from rlctl.topology.model import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps in order, and fingerprints of the topology and of the observed fleet for which they were planned."""

    fleet: str
    topology: str
    observed: str
    steps: tuple[Step, ...]

    @property
    def dangers(self) -> tuple[str, ...]:
        """Each distinct loss that the steps may cause."""
        return tuple(dict.fromkeys(text for step in self.steps if (text := danger(step))))

    def to_json(self) -> dict[str, object]:
        return {
            "schema": "rlctl.plan/1",
            "fleet": self.fleet,
            "fingerprints": {"topology": self.topology, "observed": self.observed},
            "steps": [{"kind": kind(step), "text": describe(step)} for step in self.steps],
        }


def make_plan(desired: Desired, observed: Observed, drift: Mapping[str, Sequence[str]] | None = None) -> Plan:
    """Plan all steps; raises Refused if a guard objects. `drift` lists the playbook changes that each host needs."""
    guards.check(desired, observed)
    steps: list[Step] = [
        PreparePlace(host=host, changes=tuple(changes)) for host, changes in (drift or {}).items() if changes
    ]
    state = observed
    for phase in _phases(desired):
        found = tuple(phase(desired, state))
        steps.extend(found)
        state = reduce(lambda before, step: simulate(desired, before, step), found, state)
    return Plan(
        fleet=desired.topology.name,
        topology=topology_fingerprint(desired.topology),
        observed=fingerprint(observed),
        steps=tuple(steps),
    )


def fingerprint(observed: Observed) -> str:
    """Hash the facts that a plan depends on. Offsets, sizes and pids are excluded: they change all the time."""
    # Before the first deploy, each run of rlctl generates new node ids, so only names and presence are stable.
    lines = [_essence(node) if observed.exists else [node.name, node.presence] for node in observed.nodes]
    return hashlib.sha256(json.dumps(lines, sort_keys=True).encode()).hexdigest()


def _phases(desired: Desired) -> tuple[Phase, ...]:
    kind = cluster if desired.topology.kind is Kind.CLUSTER else sentinel
    return (*kind.STARTING, _load_scripts, *kind.FORMING, _load_users, _configure)


def _load_scripts(desired: Desired, state: Observed) -> Iterator[Step]:
    """Load scripts on replicas first: a replica that is promoted during the deploy then has the scripts already."""
    for node in sorted(state.up, key=lambda node: node.role is not Role.REPLICA):
        if lacking := missing_scripts(desired, node):
            yield LoadScripts(node=node.name, scripts=lacking)


def _load_users(desired: Desired, state: Observed) -> Iterator[Step]:
    for node in state.up:
        if lacks_users(desired, node):
            yield LoadUsers(node=node.name, revision=desired.revisions[node.name])


def _configure(desired: Desired, state: Observed) -> Iterator[Step]:
    for node in state.up:
        for drift in setting_drift(desired, node):
            yield Configure(node=node.name, setting=drift.setting, value=drift.wanted, was=drift.found)


def _essence(node: NodeFacts) -> list[object]:
    view = node.sentinel
    return [
        node.name,
        node.id,
        node.presence,
        node.role,
        node.follows,
        node.slots,
        sorted(node.known),
        node.disk.saved,
        node.acl_revision,
        sorted(node.users_off),
        sorted(node.scripts or ()),
        sorted(node.settings.items()),
        view and [view.primary, sorted(view.options.items())],
    ]
