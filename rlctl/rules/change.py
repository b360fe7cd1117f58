"""Changes the rules of a fleet: plans, asks for agreement, stores the revision, and reads it back from the nodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlctl.errors import CheckFailed, Refused, RlctlError, Unreachable
from rlctl.execute import fleet_records
from rlctl.execute.journal import Journal
from rlctl.execute.locking import LockedFleet, LockWait, lock_fleet, primary_for_key
from rlctl.execute.progress import SILENT_PROGRESS, Progress
from rlctl.execute.stop import StopFlag
from rlctl.limits.release import Release
from rlctl.limits.rule import Revision, RuleSet
from rlctl.plan.findings import difference_findings
from rlctl.rules.advice import Advice, advise, fresh_quotas
from rlctl.rules.diff import RuleChange, changes
from rlctl.rules.enforcement import Ending, endings
from rlctl.rules.in_force import RulesInForce, read_rules_in_force
from rlctl.rules.readback import NodeRules, read_back
from rlctl.rules.store import set_pointer, store_revision
from rlctl.state.home import Home
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.model import Topology
from rlctl.topology.nodes import data_nodes

KIND = "rules"
READ_BACK_S = 5.0
AT_ONCE = LockWait(wanted=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesPlan:
    """The changes from the rules in force to another rule set. `ends` are rules whose enforcement ends or loosens."""

    before: Revision | None
    after: RuleSet
    changes: tuple[RuleChange, ...]
    warnings: tuple[Advice, ...]
    ends: tuple[Ending, ...] = ()

    def to_json(self, verb: str = "plan") -> dict[str, object]:
        """The document that `rules plan -o json` prints; `verb` names the command in the schema."""
        return {
            "schema": f"rlctl.rules-{verb}/1",
            "revision": self.before and self.before.number,
            "changes": [change.to_json() for change in self.changes],
            "warnings": [warning.to_json() for warning in self.warnings],
            "enforcement_ends": [ending.to_json() for ending in self.ends],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """The result of a change. `nodes` has the revision on each node; `before` is the previous revision's number."""

    plan: RulesPlan
    revision: Revision | None
    nodes: tuple[NodeRules, ...]
    before: int | None
    changed: bool

    def to_json(self, verb: str) -> dict[str, object]:
        """The document that the command prints with `-o json`."""
        version = self.revision.version if self.revision is not None else None
        return self.plan.to_json(verb) | {
            "changed": self.changed,
            "revision": self.revision and self.revision.number,
            "before": self.before,
            "nodes": [node.to_json(version) for node in self.nodes],
        }


class NotReadBack(CheckFailed):
    """A revision was stored and put in force, but not every node that stores the rules confirmed it in time."""

    code = "not-read-back"

    def __init__(self, outcome: ChangeResult, message: str) -> None:
        super().__init__(message, hint="`rlctl rules status` reads the nodes again; `rlctl deploy` repairs the fleet")
        self.outcome = outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """A change of the rules: its author, its text in the history, and its time limit.

    `by` is the author, such as `ada@host`; `why` is the text in the history. rlctl calls `agree` with the plan before
    it stores anything; `agree` raises Declined to refuse the plan. Without `agree`, rlctl stores the change without a
    question. Nodes have `read_back_s` seconds to confirm the new revision.
    """

    by: str
    verb: str
    why: str
    argv: Sequence[str] = ()
    progress: Progress = SILENT_PROGRESS
    agree: Callable[[RulesPlan], None] | None = None
    read_back_s: float = READ_BACK_S
    ramp: "RampStep | None" = None


RulesEdit = Callable[[RulesInForce], RuleSet | Revision]


@dataclass(frozen=True, slots=True, kw_only=True)
class RampStep:
    """One step of a ramp. `last` returns the rules of the ramp's last step, for the plan.

    `before` is the number of the revision before the ramp; None in the first step.
    """

    last: Callable[[RulesInForce], RuleSet]
    before: int | None = None


def make_plan(now: RulesInForce, made: RuleSet | Revision, ramp: RampStep | None = None) -> RulesPlan:
    """Compare `made` with the rules in force.

    The plan of a ramp also lists rules whose enforcement ends only at the ramp's last step, because the operator
    confirms the plan once, before the first step.
    """
    after = made.rules if isinstance(made, Revision) else made
    ends = {one.definition.id: one for rules in _steps(now, after, ramp) for one in endings(now.rules, rules)}
    return RulesPlan(
        before=now.revision,
        after=after,
        changes=changes(now.rules, after),
        warnings=(*fresh_quotas(now.rules, after), *advise(after)),
        ends=tuple(ends.values()),
    )


def _steps(now: RulesInForce, after: RuleSet, ramp: RampStep | None) -> tuple[RuleSet, ...]:
    return (after,) if ramp is None else (after, ramp.last(now))


def change_rules(
    topology: Topology,
    home: Home,
    request: ChangeRequest,
    make: RulesEdit,
    *,
    release: Release | None = None,
    stop: StopFlag | None = None,
    waiting: LockWait = AT_ONCE,
) -> ChangeResult:
    """Lock the fleet, edit its rules with `make`, and put the result in force.

    A Revision that `make` returns is stored already, so only the pointer moves. A failure leaves the previous
    revision in force, with two exceptions. NotReadBack: the new revision is in force, but not every node confirmed it
    in time. Unreachable while rlctl stored the revision: either revision may be in force.
    """
    command, stop = f"rules {request.verb}", stop or StopFlag()
    with lock_fleet(topology, home, command, stop, request.progress, waiting=waiting, release=release) as held:
        for finding in difference_findings(held.fleet.refusals):
            request.progress.note(f"{finding.code}: {finding.text}")
        return _change(held, request, make)


def _change(held: LockedFleet, request: ChangeRequest, make: RulesEdit) -> ChangeResult:
    fleet = held.fleet
    held.take_key(fleet.observe())
    # Read the rules only after locking: an earlier operation may have changed them.
    now = read_rules_in_force(fleet)
    made = make(now)
    plan = make_plan(now, made, request.ramp)
    moves = isinstance(made, Revision) and made.version != now.version
    if not plan.changes and not moves:
        return ChangeResult(plan=plan, revision=now.revision, nodes=(), before=now.number, changed=False)
    _check_scripts(now, plan.after)
    if request.agree is not None:
        request.agree(plan)
    held.check()
    journal = Journal(fleet.home.journal(fleet.topology.name), fleet.clock)
    journal.begin(f"rules {request.verb}", request.argv)
    try:
        revision = _store(now, request, made)
        journal.step(f"revision {revision.number} in force", "done")
        _record_in_history(now, request, revision, plan)
        nodes = read_back(now.fleet, now.observed, revision.version, request.read_back_s)
        outcome = ChangeResult(plan=plan, revision=revision, nodes=nodes, before=now.number, changed=True)
        _check_read_back(outcome, revision, request)
    except RlctlError as failure:
        journal.end(failure.code)
        raise
    journal.end("done")
    return outcome


def _store(now: RulesInForce, request: ChangeRequest, made: RuleSet | Revision) -> Revision:
    if isinstance(made, Revision):
        assert now.pointer is not None
        set_pointer(now.link, now.pointer, made.version, _entry(now, request, made.number))
        return made
    number = now.pointer.last + 1 if now.pointer is not None else 1
    revision = Revision(
        number=number,
        parent=now.number,
        rules=made,
        by=request.by,
        at=now.fleet.clock.now().isoformat(timespec="milliseconds"),
        why=request.why,
        before_ramp=request.ramp.before if request.ramp is not None else None,
    )
    store_revision(now.link, now.pointer, revision, _entry(now, request, number))
    return revision


def _entry(now: RulesInForce, request: ChangeRequest, number: int) -> dict[str, object]:
    return {
        "revision": number,
        "before": now.number,
        "why": request.why,
        "by": request.by,
        "at": now.fleet.clock.now().isoformat(timespec="milliseconds"),
    }


def _check_scripts(now: RulesInForce, rules: RuleSet) -> None:
    """Refuse rules whose script is missing on a node, because calls to that node would fail with NOSCRIPT."""
    wanted = {rule.script.sha1: f"{rule.definition.algorithm} {rule.script.version}" for rule in rules.rules}
    up = {node.name for node in now.observed.up}
    for spec in data_nodes(now.fleet.topology):
        if spec.name not in up:
            continue
        try:
            held = now.fleet.connector.link(spec).call("SCRIPT", "EXISTS", *wanted)
        except (LinkFailure, CommandFailed) as failure:
            raise Unreachable(f"{spec.name}: {failure}", hint="`rlctl status` shows the fleet's state") from failure
        lacking = [name for name, exists in zip(wanted.values(), held, strict=True) if not exists]
        if lacking:
            raise Refused(
                f"{spec.name} lacks {', '.join(lacking)}; the rules are unchanged",
                hint="`rlctl scripts apply` loads the scripts; add --release VERSION for an earlier release",
            )


def _check_read_back(outcome: ChangeResult, revision: Revision, request: ChangeRequest) -> None:
    late = [node for node in outcome.nodes if node.version != revision.version and not node.deposed]
    if late:
        first, names = late[0].evidence or "has another revision", ", ".join(node.name for node in late)
        stored = f"revision {revision.number} is in force, but {names} did not confirm it"
        raise NotReadBack(outcome, f"{stored} within {request.read_back_s:g} s: {first}")


def _record_in_history(now: RulesInForce, request: ChangeRequest, revision: Revision, plan: RulesPlan) -> None:
    """Add the change to the fleet's history. If that fails, print a note: the change is already in force."""
    summary = {
        "kind": KIND,
        **_entry(now, request, revision.number),
        "rules": [change.rule for change in plan.changes],
    }
    spec = primary_for_key(now.fleet, now.observed, fleet_records.HISTORY_KEY)
    if spec is None:
        request.progress.note("the fleet's history could not be written: its primary does not answer")
        return
    try:
        fleet_records.add_to_history(now.fleet.connector.link(spec), summary)
    except RlctlError as failure:
        request.progress.note(f"the fleet's history could not be written: {failure.message}")
