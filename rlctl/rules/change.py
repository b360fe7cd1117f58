"""Changing the rules of a fleet, as functions on plain values: the CLI stands on them, and an HTTP API may."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlctl.errors import AccessDenied, CheckFailed, NotFound, Refused, RlctlError, Unreachable
from rlctl.execute import fleet_records
from rlctl.execute.journal import Journal
from rlctl.execute.locking import HeldFleet, keeper, no_keeper
from rlctl.execute.progress import QUIET, Progress
from rlctl.execute.session import FleetSession
from rlctl.limits.rule import POINTER_KEY, Revision, RuleSet, Version
from rlctl.observe.model import Observed, Presence
from rlctl.rules.advice import Advice, advise, announce
from rlctl.rules.diff import RuleChange, changes
from rlctl.rules.enforcement import Ending, endings
from rlctl.rules.readback import NodeRules, read_back, read_nodes
from rlctl.rules.store import Pointer, point, put, read_entries, read_pointer, read_stored
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink
from rlctl.topology.nodes import data_nodes

KIND = "rules"
READ_BACK_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """What a fleet says of its rules, and the connection to the primary that says it.

    `trouble` says why the revision that the pointer names cannot be read.
    """

    fleet: FleetSession
    observed: Observed
    link: NodeLink
    pointer: Pointer | None
    revision: Revision | None
    trouble: RlctlError | None = None

    @property
    def version(self) -> Version | None:
        """What the pointer says, whether the revision can be read or not."""
        return self.pointer.version if self.pointer is not None else None

    @property
    def number(self) -> int | None:
        """The revision in force, by its number."""
        return self.version.revision if self.version is not None else None

    @property
    def rules(self) -> RuleSet | None:
        """The rules in force; None where none ever were."""
        return self.revision.rules if self.revision is not None else None

    def required(self) -> Revision:
        """The revision in force; NotFound where there is none, its trouble where it cannot be read."""
        if self.trouble is not None:
            raise self.trouble
        if self.revision is None:
            raise NotFound("no rules are in force", hint="`rlctl rules apply FILE` puts rules in force")
        return self.revision


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesPlan:
    """What another rule set would change."""

    before: Revision | None
    after: RuleSet
    changes: tuple[RuleChange, ...]
    warnings: tuple[Advice, ...]
    ends: tuple[Ending, ...] = ()

    def to_json(self, verb: str = "plan") -> dict[str, object]:
        """As `rules plan -o json` shows it."""
        return {
            "schema": f"rlctl.rules-{verb}/1",
            "revision": self.before and self.before.number,
            "changes": [change.to_json() for change in self.changes],
            "warnings": [warning.to_json() for warning in self.warnings],
            "enforcement_ends": [ending.to_json() for ending in self.ends],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a changing verb did; `nodes` is what was read back, `before` the number that was in force."""

    plan: RulesPlan
    revision: Revision | None
    nodes: tuple[NodeRules, ...]
    before: int | None
    changed: bool

    def to_json(self, verb: str) -> dict[str, object]:
        """As the verb's `-o json` shows it."""
        version = self.revision.version if self.revision is not None else None
        return self.plan.to_json(verb) | {
            "changed": self.changed,
            "revision": self.revision and self.revision.number,
            "before": self.before,
            "nodes": [node.to_json(version) for node in self.nodes],
        }


class NotReadBack(CheckFailed):
    """A revision was stored and the pointer moved, but not every node that holds them says so."""

    code = "not-read-back"

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message, hint="`rlctl rules status` asks again; `rlctl deploy` repairs the fleet")
        self.outcome = outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesStatus:
    """What is in force, and what each node that holds it says."""

    in_force: InForce
    nodes: tuple[NodeRules, ...]
    entries: tuple[dict[str, object], ...]

    @property
    def stragglers(self) -> tuple[NodeRules, ...]:
        """Nodes that say something else, or nothing."""
        version = self.in_force.version
        return tuple(node for node in self.nodes if node.evidence or node.version != version)

    def to_json(self) -> dict[str, object]:
        """The contract of `rules status`."""
        revision, version, trouble = self.in_force.revision, self.in_force.version, self.in_force.trouble
        return {
            "schema": "rlctl.rules-status/1",
            "name": self.in_force.fleet.topology.name,
            "revision": version and version.revision,
            "digest": version and version.digest,
            "trouble": trouble and trouble.message,
            "parent": revision and revision.parent,
            "release": revision and revision.rules.release,
            "by": revision and revision.by,
            "at": revision and revision.at,
            "why": revision and revision.why,
            "rules": [rule.to_json() for rule in revision.rules.rules] if revision is not None else [],
            "nodes": [node.to_json(version) for node in self.nodes],
            "history": list(self.entries),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who wants a change, how it is called in records, and how long it may take to be read back.

    `by` stands in the history, with the revision; `agree` is shown the plan before anything is stored, and raises
    where the change is declined.
    """

    by: str
    verb: str
    why: str
    argv: Sequence[str] = ()
    progress: Progress = QUIET
    agree: Callable[[RulesPlan], None] = lambda _plan: None
    read_back_s: float = READ_BACK_S
    ramp: "RampStep | None" = None


Make = Callable[[InForce], RuleSet | Revision]


@dataclass(frozen=True, slots=True, kw_only=True)
class RampStep:
    """A change that is one step of a ramp: the rules of its last step, and the revision before its first."""

    last: Callable[[InForce], RuleSet]
    before: int | None = None


def in_force(fleet: FleetSession, observed: Observed | None = None) -> InForce:
    """The rules as the primary that keeps them says; Unreachable where it cannot be asked."""
    observed = observed or fleet.observe()
    if not observed.exists:
        raise NotFound(f"fleet {fleet.topology.name} is not deployed", hint="`rlctl deploy` builds it")
    spec = keeper(fleet, observed, POINTER_KEY)
    if spec is None:
        raise _not_asked(fleet, observed)
    link = fleet.connector.link(spec)
    pointer = read_pointer(link)
    revision: Revision | None = None
    trouble: RlctlError | None = None
    try:
        revision = read_stored(link, pointer.required().revision) if pointer is not None else None
    except (NotFound, Refused) as failure:
        # Another revision can be put in force all the same.
        trouble = failure
    return InForce(fleet=fleet, observed=observed, link=link, pointer=pointer, revision=revision, trouble=trouble)


def _not_asked(fleet: FleetSession, observed: Observed) -> RlctlError:
    denied = [node for node in observed.nodes if node.presence is Presence.DENIED]
    if denied:
        return AccessDenied(
            "; ".join(f"{node.name} refuses our password ({node.evidence})" for node in denied),
            hint="bring this fleet's secrets: `rlctl secrets import FILE`, or RLCTL_SECRETS=FILE",
        )
    return no_keeper(fleet, observed, "the rules", meanwhile="; services go on with what they have")


def make_plan(now: InForce, made: RuleSet | Revision, ramp: RampStep | None = None) -> RulesPlan:
    """What would change, what is unwise, which identities get a fresh quota, and where enforcement ends.

    Of a ramp also where enforcement ends at its last step: it is agreed to as a whole.
    """
    after = made.rules if isinstance(made, Revision) else made
    ends = {one.definition.id: one for rules in _steps(now, after, ramp) for one in endings(now.rules, rules)}
    return RulesPlan(
        before=now.revision,
        after=after,
        changes=changes(now.rules, after),
        warnings=(*announce(now.rules, after), *advise(after)),
        ends=tuple(ends.values()),
    )


def _steps(now: InForce, after: RuleSet, ramp: RampStep | None) -> tuple[RuleSet, ...]:
    return (after,) if ramp is None else (after, ramp.last(now))


def status(fleet: FleetSession) -> RulesStatus:
    """What is in force, asked node by node."""
    now = in_force(fleet)
    return RulesStatus(in_force=now, nodes=read_nodes(fleet, now.observed), entries=read_entries(now.link))


def change(held: HeldFleet, request: Request, make: Make) -> Outcome:
    """Put what `make` makes of the present rules in force; a stored revision only moves the pointer.

    Every failure leaves the revision in force that was, but for two: NotReadBack says that the new one was stored,
    though not read back everywhere in time; and where the connection breaks while it is stored, nobody knows.
    """
    fleet = held.fleet
    held.take(fleet.observe())
    # Only now: whoever had the lock may have changed the rules.
    now = in_force(fleet)
    made = make(now)
    plan = make_plan(now, made, request.ramp)
    moves = isinstance(made, Revision) and made.version != now.version
    if not plan.changes and not moves:
        return Outcome(plan=plan, revision=now.revision, nodes=(), before=now.number, changed=False)
    _check_scripts(now, plan.after)
    request.agree(plan)
    held.check()
    journal = Journal(fleet.home.journal(fleet.topology.name), fleet.clock)
    journal.begin(f"rules {request.verb}", request.argv)
    try:
        revision = _store(now, request, made)
        journal.step(f"revision {revision.number} in force", "done")
        _remember(now, request, revision, plan)
        nodes = read_back(now.fleet, now.observed, revision.version, request.read_back_s)
        outcome = Outcome(plan=plan, revision=revision, nodes=nodes, before=now.number, changed=True)
        _prove(outcome, revision, request)
    except RlctlError as failure:
        journal.end(failure.code)
        raise
    journal.end("done")
    return outcome


def _store(now: InForce, request: Request, made: RuleSet | Revision) -> Revision:
    if isinstance(made, Revision):
        assert now.pointer is not None
        point(now.link, now.pointer, made.version, _entry(now, request, made.number))
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
    put(now.link, now.pointer, revision, _entry(now, request, number))
    return revision


def _entry(now: InForce, request: Request, number: int) -> dict[str, object]:
    return {
        "revision": number,
        "before": now.number,
        "why": request.why,
        "by": request.by,
        "at": now.fleet.clock.now().isoformat(timespec="milliseconds"),
    }


def _check_scripts(now: InForce, rules: RuleSet) -> None:
    """A rule whose script a node lacks would be answered with NOSCRIPT there: never put in force."""
    wanted = {rule.script.sha1: f"{rule.definition.algorithm} {rule.script.version}" for rule in rules.rules}
    up = {node.name for node in now.observed.up}
    for spec in data_nodes(now.fleet.topology):
        if spec.name not in up:
            continue
        try:
            held = now.fleet.connector.link(spec).call("SCRIPT", "EXISTS", *wanted)
        except (LinkFailure, CommandFailed) as failure:
            raise Unreachable(f"{spec.name}: {failure}", hint="`rlctl status` shows how the fleet stands") from failure
        lacking = [name for name, exists in zip(wanted.values(), held, strict=True) if not exists]
        if lacking:
            raise Refused(
                f"{spec.name} lacks {', '.join(lacking)}; the rules are as they were",
                hint="`rlctl scripts apply` loads the release, with --release an earlier one",
            )


def _prove(outcome: Outcome, revision: Revision, request: Request) -> None:
    late = [node for node in outcome.nodes if node.version != revision.version and not node.deposed]
    if late:
        first, names = late[0].evidence or "says another revision", ", ".join(node.name for node in late)
        told = f"revision {revision.number} was stored, but within {request.read_back_s:g} s not read back from {names}"
        raise NotReadBack(outcome, f"{told}: {first}")


def _remember(now: InForce, request: Request, revision: Revision, plan: RulesPlan) -> None:
    """A part of the fleet's own history; that it could not be written there undoes nothing."""
    summary = {
        "kind": KIND,
        **_entry(now, request, revision.number),
        "rules": [change.rule for change in plan.changes],
    }
    spec = keeper(now.fleet, now.observed, fleet_records.HISTORY_KEY)
    if spec is None:
        request.progress.note("the fleet's history could not be written: its primary does not answer")
        return
    try:
        fleet_records.remember(now.fleet.connector.link(spec), summary)
    except RlctlError as failure:
        request.progress.note(f"the fleet's history could not be written: {failure.message}")
