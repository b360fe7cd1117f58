"""What the engine waits for while the load runs, and the budgets that end a run."""

from collections.abc import Mapping

from rlctl.drills.engine.context import Stage
from rlctl.drills.engine.sampler import Sampler
from rlctl.drills.record.follow import Tail
from rlctl.drills.record.sample import SILENT, Sample, is_whole
from rlctl.drills.scenario.model import Budget, Condition, Side
from rlctl.lab.run_folder import RunJournal
from rlctl.topology.nodes import NodeSpec

LOOK_S = 0.01
TAIL_S = 0.05
# A client that got nothing acknowledged for so long, while it kept asking, is silent.
SILENCE_S = 0.5


class BudgetBlown(Exception):
    """The run must end now: it lasts too long, or a client waits too long."""


class Watch:
    """Looks at samples and at the clients' files."""

    def __init__(
        self, stage: Stage, sampler: Sampler, tails: Mapping[Side, Tail], journal: RunJournal, budget: Budget
    ) -> None:
        self._stage = stage
        self._sampler = sampler
        self._tails = tails
        self._journal = journal
        self._budget = budget
        self._started_s = stage.clock.monotonic()
        self._read_s = 0.0

    def begin(self) -> None:
        """The load begins: budgets count from here."""
        self._started_s = self._stage.clock.monotonic()

    def hold(self, ms: int) -> None:
        """Let time pass, to the millisecond."""
        end_s = self._stage.clock.monotonic() + ms / 1000
        while (left_s := end_s - self._stage.clock.monotonic()) > 0:
            self._check()
            self._stage.clock.sleep(min(left_s, LOOK_S))

    def wait_for(self, condition: Condition, within_ms: int) -> bool:
        """Until it is so, or the time is up; both are written down."""
        self._stage.progress.note(f"wait: {condition}")
        started_s = self._stage.clock.monotonic()
        end_s = started_s + within_ms / 1000
        while not (is_so := self._is_so(condition, started_s)) and self._stage.clock.monotonic() < end_s:
            self._check()
            self._stage.clock.sleep(LOOK_S)
        self._journal.write("awaited", condition=condition, came=is_so)
        return is_so

    def promoted(self) -> NodeSpec | None:
        """The replica that has become the primary."""
        replicas = self._stage.cast.replicas
        return next((spec for spec in replicas if self._sample(spec).role == "master"), None)

    def is_alive(self, spec: NodeSpec) -> bool:
        """Whether the node answered when it was last asked."""
        return self._sample(spec).alive

    def _sample(self, spec: NodeSpec) -> Sample:
        return self._sampler.latest.get(spec.name, SILENT)

    def _is_so(self, condition: Condition, since_s: float) -> bool:
        self._read_tails()
        match condition:
            case Condition.PROMOTED:
                return self.promoted() is not None
            case Condition.SERVED:
                return self._is_served()
            case Condition.SILENT:
                return self._is_silent(self._tails[Side.MINORITY], since_s)
            case Condition.REFUSED:
                return any(tail.refused for tail in self._tails.values())
            case Condition.RETURNED:
                return self._is_returned()
            case Condition.RESUMED:
                return (self._tails[Side.MAJORITY].last_ack_s or 0.0) > since_s
            case Condition.USED_UP:
                return all(tail.is_used_up for side, tail in self._tails.items() if side is not Side.OTHERS)

    def _is_served(self) -> bool:
        return any(tail.first_away_s is not None for side, tail in self._tails.items() if side is Side.MAJORITY)

    def _is_silent(self, tail: Tail, since_s: float) -> bool:
        quiet_since_s = max(since_s, tail.last_ack_s or 0.0)
        return self._stage.clock.monotonic() - quiet_since_s >= SILENCE_S

    def _is_returned(self) -> bool:
        return is_whole([self._sample(spec) for spec in self._stage.cast.shard])

    def _check(self) -> None:
        self._stage.stop.check()
        now_s = self._stage.clock.monotonic()
        if now_s - self._started_s > self._budget.run_ms / 1000:
            raise BudgetBlown(f"the run lasts longer than its budget of {self._budget.run_ms / 1000:g} s")
        self._read_tails()
        for side, tail in self._tails.items():
            if side is not Side.MAJORITY or tail.last_ack_s is None:
                continue
            if now_s - tail.last_ack_s > self._budget.gap_ms / 1000:
                raise BudgetBlown(f"no write was acknowledged for {self._budget.gap_ms / 1000:g} s, the budget's limit")

    def _read_tails(self) -> None:
        now_s = self._stage.clock.monotonic()
        if now_s - self._read_s >= TAIL_S:
            self._read_s = now_s
            for tail in self._tails.values():
                tail.read()
