"""Fence and unfence a data node: change one setting of the running server, not in its file, and check the effect."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlctl.errors import CheckFailed, NotFound, Refused, RlctlError, Unreachable, UsageFault
from rlctl.execute.journal import Journal
from rlctl.execute.locking import LockedFleet
from rlctl.execute.session import FleetSession
from rlctl.observe.model import NodeFacts, Observed, Role
from rlctl.plan.fence import FENCE_SETTING, FENCED_VALUE, is_fenced, lacks_replicas, unfenced_value
from rlctl.plan.unproven import is_unproven, proof_hint
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.nodes import NodeName, NodeSpec, all_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceReport:
    """Result of a fence or unfence; `changed` is False if the node was in that state before."""

    name: str
    node: NodeName
    fenced: bool
    changed: bool

    def to_json(self, verb: str) -> dict[str, object]:
        """Return the JSON document of `fence -o json` and `unfence -o json`."""
        return {
            "schema": f"rlctl.{verb}/1",
            "name": self.name,
            "node": self.node,
            "fenced": self.fenced,
            "changed": self.changed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FencePlan:
    """An observed node, and whether it is to be fenced (`wanted`) or unfenced."""

    spec: NodeSpec
    observed: Observed
    wanted: bool

    @property
    def node(self) -> NodeFacts:
        return self.observed.node(self.spec.name)

    @property
    def changes(self) -> bool:
        """Whether the setting has to change."""
        return is_fenced(self.node) != self.wanted


def plan_fence(fleet: FleetSession, name: str, *, wanted: bool) -> FencePlan:
    """Plan to fence a node (`wanted`) or to unfence it; only that node has to answer."""
    spec = _data_node(fleet, name)
    observed = fleet.observe()
    _check_answers(fleet, observed, spec)
    return FencePlan(spec=spec, observed=observed, wanted=wanted)


Agree = Callable[[FencePlan], None]


def run_fence(locked: LockedFleet, name: str, argv: Sequence[str], agree: Agree) -> FenceReport:
    """Make a node refuse every write from now on; only that node has to answer."""
    return _run(locked, name, argv, agree, wanted=True)


def run_unfence(locked: LockedFleet, name: str, argv: Sequence[str], agree: Agree) -> FenceReport:
    """Lift a fence: the node gets the topology's `min-replicas-to-write` again."""
    return _run(locked, name, argv, agree, wanted=False)


def _run(locked: LockedFleet, name: str, argv: Sequence[str], agree: Agree, *, wanted: bool) -> FenceReport:
    fleet = locked.fleet
    plan = plan_fence(fleet, name, wanted=wanted)
    if plan.changes:
        locked.take_key(plan.observed)
        agree(plan)
        locked.check()
        # A fenced node refuses to delete the lock key, so delete the key first; the file lock remains.
        locked.release()
        _journaled(fleet, plan.spec, argv, wanted=wanted)
    return FenceReport(name=fleet.topology.name, node=plan.spec.name, fenced=wanted, changed=plan.changes)


def _data_node(fleet: FleetSession, name: str) -> NodeSpec:
    specs = {spec.name: spec for spec in all_nodes(fleet.topology)}
    spec = specs.get(NodeName(name))
    if spec is None:
        raise NotFound(
            f"fleet {fleet.topology.name} has no node {name!r}", hint=f"its data nodes are {', '.join(_data(specs))}"
        )
    if spec.is_sentinel:
        raise UsageFault(
            f"{name} is a sentinel: it accepts no writes", hint=f"choose a data node: {', '.join(_data(specs))}"
        )
    return spec


def _data(specs: dict[NodeName, NodeSpec]) -> list[str]:
    return [name for name, spec in specs.items() if not spec.is_sentinel]


def _check_answers(fleet: FleetSession, observed: Observed, spec: NodeSpec) -> None:
    node = observed.node(spec.name)
    if not observed.exists:
        raise NotFound(f"{spec.name} is not deployed", hint="`rlctl deploy` builds the fleet")
    if is_unproven(node):
        raise Unreachable(f"{spec.name} is not proven ({node.evidence})", hint=proof_hint(fleet.topology))
    if not node.is_up:
        evidence = node.evidence or node.disk.unknown or node.presence
        raise Unreachable(
            f"{spec.name} does not answer: {evidence}",
            hint="only a node that answers can be fenced; stop it or disconnect it by other means",
        )


def _journaled(fleet: FleetSession, spec: NodeSpec, argv: Sequence[str], *, wanted: bool) -> None:
    journal = Journal(fleet.home.journal(fleet.topology.name), fleet.clock)
    journal.begin("fence" if wanted else "unfence", argv)
    try:
        value = FENCED_VALUE if wanted else unfenced_value(fleet.topology)
        _configure(fleet, spec, value)
        journal.step(f"{spec.name}: set {FENCE_SETTING} to {value}", "done")
        _check(fleet, spec, wanted=wanted)
    except RlctlError as failure:
        journal.end(failure.code)
        raise
    journal.end("done")


def _configure(fleet: FleetSession, spec: NodeSpec, value: str) -> None:
    try:
        fleet.connector.link(spec).call("CONFIG", "SET", FENCE_SETTING, value)
    except LinkFailure as failure:
        raise Unreachable(
            f"{spec.name} did not answer: {failure}", hint="`rlctl status --views` shows whether it is fenced"
        ) from failure
    except CommandFailed as failure:
        raise Refused(
            f"{spec.name} refuses the setting: {failure}", hint="`rlctl doctor` searches for the cause"
        ) from failure


def _check(fleet: FleetSession, spec: NodeSpec, *, wanted: bool) -> None:
    """Raise CheckFailed if the node is not in the wanted state.

    A fenced primary must also report that too few replicas keep up: only then does it refuse writes.
    """
    node = fleet.observe().node(spec.name)
    refuses = lacks_replicas(node) or node.role is not Role.PRIMARY
    state = "fenced" if wanted else "unfenced"
    if not node.is_up or is_fenced(node) != wanted or (wanted and not refuses):
        found = (
            f"{FENCE_SETTING} is {node.settings.get(FENCE_SETTING, 'unknown')}, {node.good_replicas} replicas keep up"
        )
        raise CheckFailed(
            f"{spec.name} is not {state} afterwards: {found if node.is_up else node.evidence}",
            hint="see `rlctl status --views`; the same command can be repeated",
        )
