"""The executor: carries out a plan in batches of steps of one kind, journals each step, can stop between batches."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar, assert_never

from rlctl.errors import Interrupted, PartlyDone, RlctlError, TimedOut
from rlctl.execute.formation import Errors, Formation
from rlctl.execute.journal import Journal
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession
from rlctl.execute.stop import StopFlag
from rlctl.execute.users import load_users
from rlctl.execute.waits import wait_observed
from rlctl.observe.model import Observed
from rlctl.plan.ownership import shards
from rlctl.plan.planner import Plan
from rlctl.plan.sentinel import believed_primary
from rlctl.plan.steps import (
    AssignSlots,
    AwaitFailover,
    Configure,
    LoadScripts,
    LoadUsers,
    Meet,
    MonitorPrimary,
    PreparePlace,
    Replicate,
    SetEpoch,
    StartNode,
    StartSentinel,
    Step,
    TakeOver,
    describe,
    kind,
    place,
)
from rlctl.scripts.loader import load_scripts
from rlctl.system.clock import wait_until
from rlctl.system.redis import LinkFailure, NodeLink
from rlctl.targets.base import Launch
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeName, all_nodes

# Wait this many node time-outs for a failover: replicas retry a failed election every few node time-outs.
FAILOVER_FACTOR = 10
FAILOVER_MIN_S = 60.0
ELECTION_S = 3.0
LOADING_S = 60.0
ASK_AGAIN_S = 0.05
# The error code LOADING, alone or after the refused command.
_LOADING = re.compile(r"(^|: )LOADING ")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """A step and its outcome: `done`, or `failed: ` with the error."""

    step: Step
    outcome: str

    def to_json(self) -> dict[str, str]:
        """Return the JSON form for `deploy -o json`."""
        return {"kind": kind(self.step), "text": describe(self.step), "outcome": self.outcome}


class Executor:
    """Carries out plans on one fleet.

    `check_lock` is called before each batch and raises if the lock was lost.
    """

    def __init__(
        self,
        fleet: FleetSession,
        journal: Journal,
        progress: Progress,
        stop: StopFlag,
        check_lock: Callable[[], None],
    ) -> None:
        self._fleet = fleet
        self._journal = journal
        self._progress = progress
        self._stop = stop
        self._check_lock = check_lock
        self._elected: dict[int, NodeName] = {}
        self._formation = Formation(
            topology=fleet.topology,
            secrets=fleet.secrets,
            connector=fleet.connector,
            clock=fleet.clock,
            stop=stop,
        )

    def execute(self, plan: Plan) -> tuple[StepResult, ...]:
        """Carry out all steps in order; raises PartlyDone if a step fails and Interrupted if a stop was requested."""
        results: list[StepResult] = []
        for _type, group in groupby(plan.steps, key=type):
            batch = [self._with_elected_primary(step) for step in group]
            self._stop.check(done=len(results), of=len(plan.steps))
            self._check_lock()
            outcomes = self._outcomes(batch, done=len(results), of=len(plan.steps))
            results += [self._record(step, outcomes.get(step), plan, len(results) + n) for n, step in enumerate(batch)]
            if any(result.outcome != "done" for result in results):
                raise _partly_done(results, plan)
        return tuple(results)

    def _with_elected_primary(self, step: Step) -> Step:
        """Replace the planned primary by the one that was elected: a plan can only guess the winner of an election."""
        match step:
            case StartNode(node=node, follow=str(follow)):
                primary = self._primary_now(follow)
                return replace(step, follow=None if primary == node else primary)
            case StartSentinel(primary=primary) | Replicate(primary=primary) | MonitorPrimary(primary=primary):
                return replace(step, primary=self._primary_now(primary))
            case _:
                return step

    def _primary_now(self, planned: NodeName) -> NodeName:
        shard = next(spec.shard for spec in all_nodes(self._fleet.topology) if spec.name == planned)
        return planned if shard is None else self._elected.get(shard, planned)

    def _outcomes(self, batch: Sequence[Step], *, done: int, of: int) -> Mapping[Step, str]:
        """Carry out one batch; return the error of each step that failed."""
        try:
            errors = self._carry_out_when_loaded(batch)
        except Interrupted:
            self._stop.check(done=done, of=of)
            raise
        except RlctlError as failure:
            return dict.fromkeys(batch, failure.message + (f"; {failure.hint}" if failure.hint else ""))
        return {step: errors[place(step)] for step in batch if place(step) in errors}

    def _carry_out_when_loaded(self, batch: Sequence[Step]) -> Errors:
        """Carry out a batch; repeat the steps that a server refused with LOADING, as it was still reading its data."""
        deadline = self._fleet.clock.monotonic() + LOADING_S
        errors = self._carry_out(batch)
        while loading := [step for step in batch if _LOADING.search(errors.get(place(step), ""))]:
            if self._fleet.clock.monotonic() >= deadline:
                break
            self._stop.check()
            self._fleet.clock.sleep(ASK_AGAIN_S)
            others = {node: error for node, error in errors.items() if node not in set(map(place, loading))}
            errors = others | self._carry_out(loading)
        return errors

    def _record(self, step: Step, error: str | None, plan: Plan, position: int) -> StepResult:
        outcome = "done" if error is None else f"failed: {error}"
        self._journal.step(describe(step), outcome)
        self._progress.step(position + 1, len(plan.steps), describe(step), outcome)
        return StepResult(step=step, outcome=outcome)

    def _carry_out(self, batch: Sequence[Step]) -> Errors:  # noqa: C901  one line a member
        """Carry out a batch, whose steps are all of one type; return errors by node or host."""
        match batch[0]:
            case PreparePlace():
                return self._prepare(_only(PreparePlace, batch))
            case StartNode():
                return self._start_nodes(_only(StartNode, batch))
            case StartSentinel():
                return self._start_sentinels(_only(StartSentinel, batch))
            case AwaitFailover():
                return self._await_failovers(_only(AwaitFailover, batch))
            case TakeOver():
                return self._take_over(_only(TakeOver, batch))
            case SetEpoch():
                return self._formation.set_epochs(_only(SetEpoch, batch))
            case Meet():
                return self._formation.meet(_only(Meet, batch))
            case AssignSlots():
                return self._formation.assign_slots(_only(AssignSlots, batch))
            case Replicate():
                # Skip a node that a failover has elected as the primary after planning: it cannot replicate itself.
                return self._formation.replicate([s for s in _only(Replicate, batch) if s.node != s.primary])
            case MonitorPrimary():
                return self._formation.monitor(_only(MonitorPrimary, batch))
            case LoadScripts():
                return self._load_scripts(_only(LoadScripts, batch))
            case LoadUsers():
                return self._load_users(_only(LoadUsers, batch))
            case Configure():
                return self._configure(_only(Configure, batch))
            case _:
                assert_never(batch[0])

    def _prepare(self, batch: Sequence[PreparePlace]) -> Errors:
        self._progress.note(f"preparing {len(batch)} host{'s' if len(batch) != 1 else ''}")
        results = self._fleet.target.prepare([step.host for step in batch])
        return {host: result.error for host, result in results.items() if result.error is not None}

    def _start_nodes(self, batch: Sequence[StartNode]) -> Errors:
        specs = {spec.name: spec for spec in all_nodes(self._fleet.topology)}
        return self._launch(
            [Launch(spec=specs[step.node], follow=specs[step.follow] if step.follow else None) for step in batch]
        )

    def _start_sentinels(self, batch: Sequence[StartSentinel]) -> Errors:
        specs = {spec.name: spec for spec in all_nodes(self._fleet.topology)}
        return self._launch([Launch(spec=specs[step.node], follow=specs[step.primary]) for step in batch])

    def _launch(self, launches: Sequence[Launch]) -> Errors:
        self._progress.note(f"starting {len(launches)} server{'s' if len(launches) != 1 else ''}")
        results = self._fleet.target.converge(launches)
        for name in results:
            self._fleet.connector.hang_up(name)
        return {name: result.error for name, result in results.items() if result.error is not None}

    def _await_failovers(self, batch: Sequence[AwaitFailover]) -> Errors:
        for step in batch:
            try:
                self._await_successor(step.node, step.shard, at_most_s=self._election_s() if step.has_log else None)
            except TimedOut:
                if not step.has_log:
                    raise
                self._progress.note(f"no replica has taken over: {step.node} restarts as the primary from its log")
                self._elected[step.shard] = step.node
        return {}

    def _election_s(self) -> float:
        """Seconds to wait for the failover of a primary that could restart from its append-only file instead.

        The wait is short, because sentinels that failed over recently delay the next failover for minutes.
        """
        return self._fleet.topology.sentinel.down_after_ms / 1000 + ELECTION_S

    def _take_over(self, batch: Sequence[TakeOver]) -> Errors:
        for step in batch:
            self._await_replica_role(step)
            if errors := self._formation.take_over(step):
                return errors
            self._await_successor(step.dead, step.shard)
        return {}

    def _await_replica_role(self, step: TakeOver) -> None:
        """Wait until the node is a replica.

        After a restart, the node may be a primary that claims slots until it learns which node owns them now.
        """

        def is_replica() -> bool:
            self._stop.check()
            try:
                return bool(self._link(step.node).call("ROLE")[0] == "slave")
            except LinkFailure:
                return False

        wait_until(
            is_replica,
            timeout_s=FAILOVER_MIN_S,
            clock=self._fleet.clock,
            what=f"{step.node} becoming a replica of {step.dead}",
            hint="see `rlctl status`, then run `rlctl deploy` again",
        )

    def _await_successor(self, dead: NodeName, shard: int, at_most_s: float | None = None) -> None:
        topology = self._fleet.topology
        is_cluster = topology.kind is Kind.CLUSTER
        patience_ms = topology.cluster.node_timeout_ms if is_cluster else topology.sentinel.down_after_ms

        def has_successor(observed: Observed) -> bool:
            desired = self._fleet.desired(observed)
            owner = shards(topology, observed)[shard].owner if is_cluster else believed_primary(desired, observed)
            if owner is None or not owner.is_up or owner.name == dead:
                return False
            self._elected[shard] = owner.name
            return True

        wait_observed(
            self._fleet,
            self._stop,
            self._progress,
            has_successor,
            what=f"a replica taking over from {dead}",
            hint=f"{dead} stays down, because it could lose data; see `rlctl status`, then run `rlctl deploy` again",
            timeout_s=at_most_s or max(FAILOVER_MIN_S, patience_ms * FAILOVER_FACTOR / 1000),
        )

    def _load_scripts(self, batch: Sequence[LoadScripts]) -> Errors:
        """Load scripts, and check each SHA1 that a server returns against the release."""
        errors: Errors = {}
        for step in batch:
            problem = load_scripts(self._link(step.node), self._fleet.release.with_earlier(step.scripts))
            if problem is not None:
                errors[step.node] = problem
        return errors

    def _load_users(self, batch: Sequence[LoadUsers]) -> Errors:
        observed = self._fleet.observe()
        files = self._fleet.users(observed)
        silent: Errors = {step.node: "it does not answer" for step in batch if step.node not in files}
        wanted = {step.node: files[step.node] for step in batch if step.node in files}
        return silent | load_users(wanted, self._link, lambda names: self._write_files(names, observed))

    def _configure(self, batch: Sequence[Configure]) -> Errors:
        """Set the values, and write the nodes' files so that the values survive a restart."""
        written = self._write_files([step.node for step in batch], self._fleet.observe())
        return written or self._formation.configure(batch)

    def _write_files(self, names: Sequence[NodeName], observed: Observed) -> Errors:
        specs = {spec.name: spec for spec in all_nodes(self._fleet.topology)}
        versions = self._fleet.versions(observed)
        results = self._fleet.target.configure({specs[name]: versions[name] for name in names if name in versions})
        return {name: result.error for name, result in results.items() if result.error is not None}

    def _link(self, name: NodeName) -> NodeLink:
        return self._fleet.connector.link(next(spec for spec in all_nodes(self._fleet.topology) if spec.name == name))


def _only(kind_of_step: type[T], batch: Sequence[Step]) -> list[T]:
    return [step for step in batch if isinstance(step, kind_of_step)]


def _partly_done(results: Sequence[StepResult], plan: Plan) -> PartlyDone:
    failed = [f"{describe(result.step)}: {result.outcome}" for result in results if result.outcome != "done"]
    done = len(results) - len(failed)
    return PartlyDone(
        f"{done} of {len(plan.steps)} steps done, {len(failed)} failed: " + "; ".join(failed[:3]),
        hint="repair the cause and run the same command again: it continues from there",
    )
