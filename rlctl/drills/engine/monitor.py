"""Waits for a scenario's conditions while the load runs, and ends a run that exceeds its budget."""

from collections.abc import Mapping

from rlctl.drills.engine.context import RunContext
from rlctl.drills.engine.sampler import NodeSampler
from rlctl.drills.record.follow import HistoryFollower
from rlctl.drills.record.sample import SILENT, Sample, is_whole
from rlctl.drills.scenario.model import AwaitedCondition, Budget, Side
from rlctl.lab.run_folder import RunJournal
from rlctl.topology.nodes import NodeSpec

LOOK_S = 0.01
FOLLOW_S = 0.05
# A client that keeps sending and gets no acknowledgement for this long counts as silent.
SILENCE_S = 0.5


class BudgetExceeded(Exception):
    """The run lasts too long, or the client on side `majority` waits too long for an acknowledgement."""


class RunMonitor:
    """Evaluates conditions from samples of the nodes and from the clients' histories."""

    def __init__(
        self,
        context: RunContext,
        sampler: NodeSampler,
        followers: Mapping[Side, HistoryFollower],
        journal: RunJournal,
        budget: Budget,
    ) -> None:
        self._context = context
        self._sampler = sampler
        self._followers = followers
        self._journal = journal
        self._budget = budget
        self._started_s = context.clock.monotonic()
        self._read_s = 0.0

    def begin(self) -> None:
        """Measure the run's budget from now on. Call this when the load begins."""
        self._started_s = self._context.clock.monotonic()

    def hold(self, ms: int) -> None:
        """Wait for `ms`. Raises BudgetExceeded if a limit of the budget is reached first."""
        end_s = self._context.clock.monotonic() + ms / 1000
        while (left_s := end_s - self._context.clock.monotonic()) > 0:
            self._check()
            self._context.clock.sleep(min(left_s, LOOK_S))

    def wait_for(self, condition: AwaitedCondition, within_ms: int) -> bool:
        """Wait at most `within_ms` for the condition. Record and return whether the condition holds."""
        self._context.progress.note(f"wait: {condition}")
        started_s = self._context.clock.monotonic()
        end_s = started_s + within_ms / 1000
        while not (holds := self._holds(condition, started_s)) and self._context.clock.monotonic() < end_s:
            self._check()
            self._context.clock.sleep(LOOK_S)
        self._journal.write("awaited", condition=condition, came=holds)
        return holds

    def promoted(self) -> NodeSpec | None:
        """The replica that has become the primary, according to its latest sample; None if there is none."""
        replicas = self._context.roles.replicas
        return next((spec for spec in replicas if self._sample(spec).role == "master"), None)

    def is_alive(self, spec: NodeSpec) -> bool:
        """Whether the node answered its latest sample."""
        return self._sample(spec).alive

    def _sample(self, spec: NodeSpec) -> Sample:
        return self._sampler.latest.get(spec.name, SILENT)

    def _holds(self, condition: AwaitedCondition, since_s: float) -> bool:
        self._read_histories()
        match condition:
            case AwaitedCondition.PROMOTED:
                return self.promoted() is not None
            case AwaitedCondition.SERVED:
                return self._is_served()
            case AwaitedCondition.SILENT:
                return self._is_silent(self._followers[Side.MINORITY], since_s)
            case AwaitedCondition.REFUSED:
                return any(follower.refused for follower in self._followers.values())
            case AwaitedCondition.RETURNED:
                return self._is_returned()
            case AwaitedCondition.RESUMED:
                return (self._followers[Side.MAJORITY].last_ack_s or 0.0) > since_s
            case AwaitedCondition.USED_UP:
                return all(follower.is_used_up for side, follower in self._followers.items() if side is not Side.OTHERS)

    def _is_served(self) -> bool:
        return any(
            follower.first_away_s is not None for side, follower in self._followers.items() if side is Side.MAJORITY
        )

    def _is_silent(self, follower: HistoryFollower, since_s: float) -> bool:
        silent_since_s = max(since_s, follower.last_ack_s or 0.0)
        return self._context.clock.monotonic() - silent_since_s >= SILENCE_S

    def _is_returned(self) -> bool:
        return is_whole([self._sample(spec) for spec in self._context.roles.shard])

    def _check(self) -> None:
        self._context.stop.check()
        now_s = self._context.clock.monotonic()
        if now_s - self._started_s > self._budget.run_ms / 1000:
            raise BudgetExceeded(f"the run lasts longer than its budget of {self._budget.run_ms / 1000:g} s")
        self._read_histories()
        for side, follower in self._followers.items():
            if side is not Side.MAJORITY or follower.last_ack_s is None:
                continue
            if now_s - follower.last_ack_s > self._budget.gap_ms / 1000:
                raise BudgetExceeded(
                    f"no write was acknowledged for {self._budget.gap_ms / 1000:g} s, the budget's limit"
                )

    def _read_histories(self) -> None:
        now_s = self._context.clock.monotonic()
        if now_s - self._read_s >= FOLLOW_S:
            self._read_s = now_s
            for follower in self._followers.values():
                follower.read()
