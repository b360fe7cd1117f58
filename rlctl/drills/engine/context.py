"""Where a run takes place: a fleet, what can be broken in it, and who plays which part."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from signal import Signals

from rlctl.drills.scenario.model import Side
from rlctl.errors import Unreachable
from rlctl.execute.locking import LockedFleet
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.lab.partition import ClientSource
from rlctl.lab.partitioner import Interval, Partitioner
from rlctl.lab.roles import Roles
from rlctl.lab.run_folder import RunJournal
from rlctl.system.clock import Clock, wait_until
from rlctl.targets.base import Launch
from rlctl.topology.nodes import NodeName, NodeSpec

# The journal's word before processes are paused.
STOPPING = "stopping_processes"
END_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """One fleet, held for one run."""

    held: LockedFleet
    partitioner: Partitioner
    roles: Roles
    processes: "Processes"
    stop: StopFlag
    progress: Progress
    sources: Mapping[Side, ClientSource]
    breaking: Callable[[], AbstractContextManager[None]]

    @property
    def clock(self) -> Clock:
        """Everything is stamped by one monotonic clock."""
        return self.held.fleet.clock

    @property
    def shut_out(self) -> tuple[ClientSource, ...]:
        """Where the clients are that stand on the majority's side of a cut."""
        return tuple(source for side, source in self.sources.items() if side is not Side.MINORITY)


class Processes:
    """The fleet's servers as processes."""

    def __init__(self, held: LockedFleet, journal: RunJournal) -> None:
        self._held = held
        self._journal = journal
        self._paused: dict[NodeName, NodeSpec] = {}

    def kill(self, nodes: Sequence[NodeSpec]) -> Interval:
        """SIGKILL."""
        return self._send(nodes, Signals.SIGKILL)

    def pause(self, nodes: Sequence[NodeSpec]) -> Interval:
        """SIGSTOP."""
        self._paused |= {spec.name: spec for spec in nodes}
        # Written down before it is done: whoever sweeps after us must know whom to wake.
        self._journal.write(STOPPING, nodes=[spec.name for spec in nodes])
        return self._send(nodes, Signals.SIGSTOP)

    def resume(self, nodes: Sequence[NodeSpec]) -> Interval:
        """SIGCONT."""
        interval = self._send(nodes, Signals.SIGCONT)
        for spec in nodes:
            self._paused.pop(spec.name, None)
        return interval

    def resume_all(self) -> None:
        """Whoever is still paused goes on."""
        if self._paused:
            self.resume(list(self._paused.values()))

    def start(self, spec: NodeSpec) -> None:
        """Start a dead node with what it has on disk; one that was just killed may need a moment to end."""

        def has_ended() -> bool:
            return not self._held.fleet.target.inspect([spec])[spec.name].running

        wait_until(has_ended, timeout_s=END_S, clock=self._held.fleet.clock, what=f"the end of {spec.name}")
        result = self._held.fleet.target.converge([Launch(spec=spec)])[spec.name]
        if result.error is not None:
            raise Unreachable(f"{spec.name} does not start: {result.error}", hint="see its log")

    def _send(self, nodes: Sequence[NodeSpec], number: Signals) -> Interval:
        fleet = self._held.fleet
        before_s = fleet.clock.monotonic()
        fleet.target.signal(nodes, number)
        return Interval(before_s=before_s, after_s=fleet.clock.monotonic())
