"""The servers of a fleet as processes: killed, paused, resumed and started again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from signal import Signals

from rlctl.errors import Unreachable
from rlctl.execute.session import FleetSession
from rlctl.lab.run_folder import RunJournal
from rlctl.system.clock import Clock, wait_until
from rlctl.targets.base import Launch
from rlctl.topology.nodes import NodeName, NodeSpec

# Journal event that is written before processes are paused.
PAUSING = "stopping_processes"
END_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The time range in which an action took effect: between `before_s` and `after_s`, in monotonic time."""

    before_s: float
    after_s: float


def timed(clock: Clock, do: Callable[[], object]) -> Interval:
    """Call `do`, and return the time range in which it took effect."""
    before_s = clock.monotonic()
    do()
    return Interval(before_s=before_s, after_s=clock.monotonic())


class Processes:
    """Signals to the servers of one fleet, and their restarts."""

    def __init__(self, fleet: FleetSession, journal: RunJournal) -> None:
        self._fleet = fleet
        self._journal = journal
        self._paused: dict[NodeName, NodeSpec] = {}

    def kill(self, nodes: Sequence[NodeSpec]) -> Interval:
        """Send SIGKILL."""
        return self._send(nodes, Signals.SIGKILL)

    def pause(self, nodes: Sequence[NodeSpec]) -> Interval:
        """Send SIGSTOP."""
        self._paused |= {spec.name: spec for spec in nodes}
        # Write the journal before the signal. If this process is killed after the signal, the clean-up finds in the
        # journal which nodes to resume.
        self._journal.write(PAUSING, nodes=[spec.name for spec in nodes])
        return self._send(nodes, Signals.SIGSTOP)

    def resume(self, nodes: Sequence[NodeSpec]) -> Interval:
        """Send SIGCONT."""
        interval = self._send(nodes, Signals.SIGCONT)
        for spec in nodes:
            self._paused.pop(spec.name, None)
        return interval

    def resume_all(self) -> None:
        """Resume every node that is still paused."""
        if self._paused:
            self.resume(list(self._paused.values()))

    def start(self, spec: NodeSpec) -> None:
        """Start a dead node with the data on its disk. Waits at most END_S for a node that was just killed to end."""

        def has_ended() -> bool:
            return not self._fleet.target.inspect([spec])[spec.name].running

        wait_until(has_ended, timeout_s=END_S, clock=self._fleet.clock, what=f"the end of {spec.name}")
        result = self._fleet.target.converge([Launch(spec=spec)])[spec.name]
        if result.error is not None:
            raise Unreachable(f"{spec.name} does not start: {result.error}", hint="see its log")
        self._fleet.connector.hang_up(spec.name)

    def _send(self, nodes: Sequence[NodeSpec], number: Signals) -> Interval:
        return timed(self._fleet.clock, lambda: self._fleet.target.signal(nodes, number))
