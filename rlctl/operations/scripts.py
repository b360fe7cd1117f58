"""Apply a release of scripts to a fleet, and report its state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rlctl.errors import CheckFailed, NotFound, PartlyDone, RlctlError, Unreachable
from rlctl.execute.executor import Executor, StepResult
from rlctl.execute.fleet_records import (
    HISTORY_KEY,
    RELEASE_KEY,
    add_to_history,
    read_history,
    read_registered,
    write_registered,
)
from rlctl.execute.journal import Journal, current_user
from rlctl.execute.locking import LockedFleet, denied_access, primary_for_key, primary_unreachable
from rlctl.execute.progress import Progress
from rlctl.execute.service_users import check_deployed
from rlctl.execute.session import FleetSession
from rlctl.execute.stop import StopFlag
from rlctl.limits.release import Registered
from rlctl.observe import parse
from rlctl.observe.model import Observed
from rlctl.operations.script_check import verify
from rlctl.operations.script_drift import DriftClass, ScriptDrift, missing, script_drift
from rlctl.plan.planner import Plan, make_plan
from rlctl.plan.steps import LoadScripts, LoadUsers
from rlctl.render.acl import node_acl
from rlctl.scripts.rights import RightsChange, rights_change, rule_in
from rlctl.secrets import User
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink
from rlctl.topology.nodes import all_nodes, data_nodes

KIND = "scripts"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptsStatus:
    """Every node's scripts compared with the release.

    `has_registry` is False if the primary that stores the registry cannot be read; `registered` is then unknown.
    """

    release: str
    observed: Observed
    rows: tuple[dict[str, object], ...]
    drift: tuple[ScriptDrift, ...]
    registered: Registered | None
    has_registry: bool

    def to_json(self, verb: str = "status") -> dict[str, object]:
        """Return the JSON document of `scripts status`."""
        return {
            "schema": f"rlctl.scripts-{verb}/1",
            "release": self.release,
            "applied": self.registered and {"release": self.registered.release, "state": self.registered.state},
            "nodes": list(self.rows),
            "drift": [drift.to_json() for drift in self.drift],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyReport:
    results: tuple[StepResult, ...]
    status: ScriptsStatus

    def to_json(self) -> dict[str, object]:
        """Return the JSON form for `scripts apply -o json`."""
        return self.status.to_json("apply") | {
            "changed": bool(self.results),
            "steps": [result.to_json() for result in self.results],
        }


def read_scripts(fleet: FleetSession) -> ScriptsStatus:
    """Query every node for its scripts, and the registry for the applied release."""
    observed = fleet.observe()
    _check_deployed(fleet, observed)
    link = registry_link(fleet, observed)
    if link is None and (denied := denied_access(observed)):
        raise denied
    registered = read_registered(link) if link else None
    desired = fleet.desired(observed)
    return ScriptsStatus(
        release=fleet.release.version,
        observed=observed,
        rows=tuple(_rows(fleet, observed)),
        drift=script_drift(desired, observed, fleet.release, registered),
        registered=registered,
        has_registry=link is not None,
    )


def run_apply(
    locked: LockedFleet,
    argv: Sequence[str],
    progress: Progress,
    stop: StopFlag,
    agree: Callable[[Plan, RightsChange | None], None],
) -> ApplyReport:
    """Load missing scripts, replicas first, and check the result; raises PartlyDone if a node did not answer."""
    fleet = locked.fleet
    check_deployed(fleet)
    before = read_scripts(fleet)
    locked.take_key(before.observed)
    plan = script_plan(fleet, before.observed)
    current = before.registered == _registered(fleet, "applied")
    if current and not plan.steps and not before.drift:
        return ApplyReport(results=(), status=before)
    agree(plan, read_rights(fleet, before.observed, plan))
    journal = Journal(fleet.home.journal(fleet.topology.name), fleet.clock)
    journal.begin("scripts apply", argv)
    try:
        _register(fleet, before.observed, "pending")
        results = Executor(fleet, journal, progress, stop, locked.check).execute(plan)
        after = _prove(fleet)
    except RlctlError as failure:
        journal.end(failure.code)
        _mark_dirty(fleet, before.observed, progress)
        raise
    journal.end("done")
    return ApplyReport(results=results, status=after)


def register_first(fleet: FleetSession, observed: Observed, progress: Progress) -> None:
    """Register the first release, which came with a deploy, so that a rollback has a release to return to."""
    link = registry_link(fleet, observed)
    try:
        if link is not None and read_registered(link) is None:
            _register(fleet, observed, "applied")
    except RlctlError as failure:
        progress.note(f"the release was not registered: {failure.message}")


def script_plan(fleet: FleetSession, observed: Observed) -> Plan:
    """Plan the steps that load scripts and users, without the other steps of a deploy."""
    plan = make_plan(fleet.desired(observed), observed)
    return replace(plan, steps=tuple(step for step in plan.steps if isinstance(step, LoadScripts | LoadUsers)))


def read_rights(fleet: FleetSession, observed: Observed, plan: Plan) -> RightsChange | None:
    """Return the rights that the runtime user gains and loses by a plan; None if no node loads users.

    One node is queried, as all data nodes have the same users; raises Unreachable if it does not answer.
    """
    loading = {step.node for step in plan.steps if isinstance(step, LoadUsers)}
    spec = next((spec for spec in data_nodes(fleet.topology) if spec.name in loading), None)
    if spec is None:
        return None
    try:
        told = fleet.connector.link(spec).call("ACL", "GETUSER", User.LIMITER.value)
    except (LinkFailure, CommandFailed) as failure:
        raise Unreachable(f"cannot read the rights of user limiter on {spec.name}: {failure}") from failure
    own = parse.user(told) or {}
    before = " ".join(str(own.get(name, "")) for name in ("commands", "keys", "channels"))
    text = node_acl(spec, fleet.secrets, fleet.versions(observed)[spec.name], fleet.release.commands)
    return rights_change(User.LIMITER.value, before, rule_in(text, User.LIMITER.value))


def fleet_history(fleet: FleetSession) -> tuple[dict[str, object], ...]:
    """Return the releases that were applied to this fleet, newest first; raises Unreachable if they cannot be read."""
    observed = fleet.observe()
    _check_deployed(fleet, observed)
    link = _link_for_key(fleet, observed, HISTORY_KEY)
    if link is None:
        raise primary_unreachable(fleet, observed, "the history")
    return read_history(link, KIND)


def registry_link(fleet: FleetSession, observed: Observed) -> NodeLink | None:
    """Return a link to the primary that stores the registry, or None."""
    return _link_for_key(fleet, observed, RELEASE_KEY)


def _link_for_key(fleet: FleetSession, observed: Observed, key: str) -> NodeLink | None:
    """Return a link to the primary that stores `key`; registry and history may lie on different shards."""
    spec = primary_for_key(fleet, observed, key)
    return fleet.connector.link(spec) if spec else None


def _check_deployed(fleet: FleetSession, observed: Observed) -> None:
    if not observed.exists:
        raise NotFound(f"fleet {fleet.topology.name} is not deployed", hint="`rlctl deploy` builds the fleet")


def _prove(fleet: FleetSession) -> ScriptsStatus:
    """Check every script on every node, run the examples on every shard, and register the release."""
    status = read_scripts(fleet)
    wrong = [verdict for verdict in verify(fleet, status.observed) if verdict.evidence is not None]
    if wrong:
        first = wrong[0]
        raise CheckFailed(
            f"{len(wrong)} checks of scripts failed, first {first.script} on {first.node}: {first.evidence}",
            hint="`rlctl scripts verify` shows all of them",
        )
    unreached = [drift.node for drift in status.drift if drift.kind is DriftClass.UNREACHABLE]
    if unreached:
        raise PartlyDone(
            f"scripts were not loaded on {', '.join(str(node) for node in unreached)}, which did not answer",
            hint="start these nodes with `rlctl deploy`, then run `rlctl scripts apply` again",
        )
    _register(fleet, status.observed, "applied")
    return read_scripts(fleet)


def _register(fleet: FleetSession, observed: Observed, state: str) -> None:
    link = registry_link(fleet, observed)
    if link is None:
        return
    write_registered(link, _registered(fleet, state))
    history = _link_for_key(fleet, observed, HISTORY_KEY)
    if state != "pending" and history is not None:
        add_to_history(
            history,
            {
                "kind": KIND,
                "release": fleet.release.version,
                "digest": fleet.release.digest,
                "state": state,
                "by": current_user(),
                "at": fleet.clock.now().isoformat(timespec="seconds"),
            },
        )


def _mark_dirty(fleet: FleetSession, observed: Observed, progress: Progress) -> None:
    """Register the release as dirty after an apply failed.

    If the registration fails too, only note its error: the caller raises the error of the apply.
    """
    try:
        _register(fleet, observed, "dirty")
    except RlctlError as failure:
        progress.note(f"the release was not registered as dirty: {failure.message}")


def _registered(fleet: FleetSession, state: str) -> Registered:
    return Registered(release=fleet.release.version, digest=fleet.release.digest, state=state)


def _rows(fleet: FleetSession, observed: Observed) -> list[dict[str, object]]:
    specs = {spec.name: spec for spec in all_nodes(fleet.topology) if not spec.is_sentinel}
    return [
        {
            "id": node.id,
            "name": node.name,
            "host": specs[node.name].address,
            "port": specs[node.name].port,
            "role": node.role,
            "present": sorted(node.scripts or ()),
            "missing": [script.name for script in missing(fleet.release, node)],
            "reachable": node.scripts is not None,
        }
        for node in observed.nodes
        if node.name in specs
    ]
