"""Deploy: observe the fleet, plan, ask for agreement, carry out, check the result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlctl.errors import CheckFailed, InvalidFile, NotFound, PartlyDone, Refused, RlctlError
from rlctl.execute.directives import check_directives, refuse
from rlctl.execute.executor import Executor, StepResult
from rlctl.execute.journal import Journal
from rlctl.execute.locking import LockedFleet
from rlctl.execute.progress import Progress
from rlctl.execute.service_users import check_passwords
from rlctl.execute.session import FleetSession
from rlctl.execute.stop import StopFlag
from rlctl.execute.waits import wait_healthy
from rlctl.observe.model import Observed
from rlctl.operations.scripts import register_first
from rlctl.plan.clients import lowered_maxclients
from rlctl.plan.fence import fenced
from rlctl.plan.finding import Finding
from rlctl.plan.planner import Plan, make_plan
from rlctl.plan.saved import SavedPlan
from rlctl.plan.steps import LoadScripts, StartNode, StartSentinel
from rlctl.plan.unproven import is_unproven
from rlctl.render.redis_conf import max_clients
from rlctl.topology.nodes import NodeName, all_nodes

# How long a deploy without steps waits for a node that is just starting.
IDLE_WAIT_S = 15.0
_PLAN_HINT = "write one with `rlctl deploy --dry-run --plan-out FILE`"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOptions:
    argv: Sequence[str]
    saved: SavedPlan | None
    timeout_s: float
    # The name of the operation in the journal.
    command: str = "deploy"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployReport:
    """Result of a deploy. Fenced nodes stay fenced."""

    results: tuple[StepResult, ...]
    fenced: tuple[NodeName, ...]
    elapsed_s: float

    def to_json(self) -> dict[str, object]:
        """Return the JSON document of `deploy -o json`."""
        return {
            "schema": "rlctl.deploy/1",
            "changed": bool(self.results),
            "steps": [result.to_json() for result in self.results],
            "elapsed_s": round(self.elapsed_s, 3),
        }


def plan_deploy(fleet: FleetSession, progress: Progress) -> Plan:
    """Plan what deploy would do now; hosts that could not be read are reported through `progress`."""
    fleet.check_deployable()
    planned = _plan(fleet, fleet.observe())
    if not planned.is_checked:
        progress.note(f"section `redis` not checked: image {fleet.topology.docker.image} is not on this machine yet")
    for trouble in planned.troubles:
        progress.note(f"host not read: {trouble.message}")
    return planned.plan


def run_deploy(
    locked: LockedFleet, options: DeployOptions, progress: Progress, stop: StopFlag, agree: Callable[[Plan], None]
) -> DeployReport:
    """Bring the fleet to its topology; `agree` raises Declined if the user rejects the plan."""
    fleet = locked.fleet
    fleet.check_deployable()
    observed = fleet.observe()
    locked.take_key(observed)
    planned = _plan(fleet, observed)
    plan = planned.plan
    if options.saved is not None:
        options.saved.check(plan)
    if plan.steps:
        agree(plan)
    if not planned.is_checked:
        check_directives(fleet, fetch=True)
    return _carry_out(planned, options, locked, progress, stop, agree)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedDeploy:
    """A plan for the hosts that could be read, and the errors of the other hosts.

    `is_checked`: the section `redis` was tried on a server.
    """

    plan: Plan
    troubles: tuple[RlctlError, ...]
    is_checked: bool


def _plan(fleet: FleetSession, observed: Observed) -> _PlannedDeploy:
    # Check directives before the guards: a guard would report an invalid value as a value that needs a restart.
    is_checked = check_directives(fleet)
    observed = _proven(fleet, observed)
    desired = fleet.desired(observed)
    # Only run the guards here: if a guard refuses, the hosts need not be read, which takes seconds.
    make_plan(desired, observed)
    check_passwords(fleet, observed)
    _check_removed(fleet)
    drift = fleet.target.drift()
    refuse(fleet.topology, (refusal for found in drift.values() for refusal in found.refused))
    troubles = tuple(found.problem for found in drift.values() if found.problem is not None)
    if drift:
        # Observe again: reading the hosts took seconds, in which a failover may have ended.
        observed = fleet.observe()
        desired = fleet.desired(observed)
    plan = make_plan(desired, observed, {host: found.changes for host, found in drift.items()})
    # A new fleet needs all its hosts; an existing fleet is repaired on the hosts that answer.
    if troubles and not (observed.exists and plan.steps):
        raise _all_in_one(troubles)
    if any(isinstance(step, StartNode | StartSentinel) for step in plan.steps):
        # Report a missing or outdated server program before anything is changed.
        fleet.target.check()
    return _PlannedDeploy(plan=plan, troubles=troubles, is_checked=is_checked)


def _proven(fleet: FleetSession, observed: Observed) -> Observed:
    """Read the hosts of unproven nodes: raise the errors of the hosts that cannot be read, else observe again."""
    nodes = all_nodes(fleet.topology)
    hosts = {spec.host for spec in nodes if spec.host is not None and is_unproven(observed.node(spec.name))}
    if not hosts:
        return observed
    found = fleet.target.machines()
    troubles = [trouble for host in sorted(hosts) if isinstance(trouble := found.get(host), RlctlError)]
    if troubles:
        raise _all_in_one(troubles)
    # The proofs may succeed now: reading the hosts has a longer timeout than a proof, and leaves open ssh connections
    # that the next proofs use.
    return fleet.observe()


def _all_in_one(troubles: Sequence[RlctlError]) -> RlctlError:
    return type(troubles[0])("; ".join(trouble.message for trouble in troubles), hint=troubles[0].hint)


def _check_removed(fleet: FleetSession) -> None:
    named = {spec.name for spec in all_nodes(fleet.topology)}
    removed = [name for name in fleet.target.placed() if name not in named]
    if removed:
        raise Refused(
            f"nodes of this fleet are no longer in the topology: {', '.join(removed)}",
            hint="removing nodes is not available yet: undo the edit",
        )


def _carry_out(
    planned: _PlannedDeploy,
    options: DeployOptions,
    locked: LockedFleet,
    progress: Progress,
    stop: StopFlag,
    agree: Callable[[Plan], None],
) -> DeployReport:
    fleet, plan = locked.fleet, planned.plan
    started = fleet.clock.monotonic()
    journal = Journal(fleet.home.journal(fleet.topology.name), fleet.clock)
    # Store the record even without steps: some edits, such as the ssh user of a host, need no step.
    if plan.steps or not fleet.is_recorded:
        fleet.save()
    if plan.steps:
        journal.begin(options.command, options.argv)
    fleet.target.rotate_logs()
    try:
        results, observed = _walk_until_healthy(planned, options, locked, journal, progress, stop, agree)
        if any(isinstance(step, LoadScripts) for step in plan.steps):
            register_first(fleet, observed, progress)
    except RlctlError as failure:
        if plan.steps:
            journal.end(failure.code)
        raise
    if plan.steps:
        journal.end("done")
    names = tuple(node.name for node in fenced(observed))
    for name in names:
        progress.note(f"{name} stays fenced: it refuses writes; `rlctl unfence {name}` lifts the fence")
    _note_lowered_maxclients(fleet, observed, progress)
    return DeployReport(results=results, fenced=names, elapsed_s=fleet.clock.monotonic() - started)


def _note_lowered_maxclients(fleet: FleetSession, observed: Observed, progress: Progress) -> None:
    found = lowered_maxclients(fleet.desired(observed), observed)
    if found:
        listed = ", ".join(f"{name} {most}" for name, most in found.items())
        wanted = max_clients(fleet.topology)
        progress.note(f"maxclients is below {wanted} (limit of open files): {listed}; `rlctl doctor` shows what to do")


def _check_complete(planned: _PlannedDeploy) -> None:
    if planned.troubles:
        missing = "; ".join(trouble.message for trouble in planned.troubles)
        raise PartlyDone(
            f"{len(planned.plan.steps)} steps done, but some hosts were not reached: {missing}",
            hint=f"{planned.troubles[0].hint}; then run the same command again",
        )


def _walk_until_healthy(
    planned: _PlannedDeploy,
    options: DeployOptions,
    locked: LockedFleet,
    journal: Journal,
    progress: Progress,
    stop: StopFlag,
    agree: Callable[[Plan], None],
) -> tuple[tuple[StepResult, ...], Observed]:
    """Carry out the plan and wait for a healthy fleet. If servers have ended since the plan was made, plan again.

    A server that received SIGTERM still answers for a while. A plan made before the server ends does not start it.
    """
    fleet, plan = locked.fleet, planned.plan
    executor = Executor(fleet, journal, progress, stop, locked.check)
    results = executor.execute(plan)
    _check_complete(planned)
    timeout_s = options.timeout_s if plan.steps else min(options.timeout_s, IDLE_WAIT_S)
    # Never plan again if the user gave a saved plan: it is carried out exactly as it was reviewed.
    may_repeat = bool(plan.steps) and options.saved is None

    def has_ended_servers(observed: Observed) -> bool:
        return may_repeat and _plan_of_restarts(fleet, observed) is not None

    observed, findings = wait_healthy(
        fleet, stop, progress, timeout_s=timeout_s, at_most_s=options.timeout_s, is_hopeless=has_ended_servers
    )
    if findings and may_repeat and (again := _plan_of_restarts(fleet, observed)):
        progress.note("servers have ended since the plan was made: rlctl plans again")
        agree(again)
        results += executor.execute(again)
        observed, findings = wait_healthy(fleet, stop, progress, timeout_s=timeout_s)
    _check_healthy(findings)
    return results, observed


def _plan_of_restarts(fleet: FleetSession, observed: Observed) -> Plan | None:
    """Plan again; return None if the plan starts no server or a guard refuses it."""
    try:
        plan = make_plan(fleet.desired(observed), observed)
    except RlctlError:
        return None
    return plan if any(isinstance(step, StartNode | StartSentinel) for step in plan.steps) else None


def _check_healthy(findings: Sequence[Finding]) -> None:
    if findings:
        listed = "; ".join(finding.text for finding in findings[:3])
        more = f" (+{len(findings) - 3} more)" if len(findings) > 3 else ""
        in_tilt = any(finding.code == "sentinel-tilt" for finding in findings)
        hint = "`rlctl status --wait` waits until TILT ends" if in_tilt else "`rlctl status` shows all findings"
        raise CheckFailed(f"the fleet is not healthy afterwards: {listed}{more}", hint=hint)


def read_saved(path: Path) -> SavedPlan:
    """Read a plan that --plan-out wrote."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as failure:
        raise NotFound(f"{path}: no such file", hint=_PLAN_HINT) from failure
    except (OSError, UnicodeDecodeError) as failure:
        raise InvalidFile(f"{path}:1: cannot be read as a plan: {failure}", hint=_PLAN_HINT) from failure
    return SavedPlan.from_text(text, str(path))
