"""Where a run takes place: a fleet, what can be broken in it, and who plays which part."""

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from rlctl.drills.cast import Cast
from rlctl.drills.faults import Faults, Stamp
from rlctl.drills.model import Side
from rlctl.drills.records import RunJournal
from rlctl.errors import Unreachable
from rlctl.execute.locking import HeldFleet
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.system.clock import Clock
from rlctl.system.process import ProcessId
from rlctl.targets.base import Launch
from rlctl.topology.nodes import NodeName, NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One fleet, held for one run."""

    held: HeldFleet
    faults: Faults
    cast: Cast
    processes: "Processes"
    stop: StopFlag
    progress: Progress
    has_network: bool
    addresses: Mapping[Side, str]

    @property
    def clock(self) -> Clock:
        """Everything is stamped by one monotonic clock."""
        return self.held.fleet.clock

    @property
    def shut_out(self) -> tuple[str, ...]:
        """The clients that stand on the majority's side of a cut, by their addresses."""
        return tuple(address for side, address in self.addresses.items() if side is not Side.MINORITY)


class Processes:
    """The fleet's server processes, looked up before anything is broken: at the moment of a kill there is no time."""

    def __init__(self, held: HeldFleet, journal: RunJournal) -> None:
        self._held = held
        self._journal = journal
        self._known: dict[NodeName, ProcessId] = {}
        self._paused: dict[NodeName, NodeSpec] = {}

    def look_up(self, nodes: Sequence[NodeSpec]) -> None:
        """Find the processes of these nodes."""
        for name, found in self._held.fleet.target.inspect(nodes).items():
            process = None if found.pid is None else ProcessId.of(found.pid)
            if process is not None:
                self._known[name] = process

    def kill(self, nodes: Iterable[NodeSpec]) -> Stamp:
        """SIGKILL."""
        return self._send(nodes, signal.SIGKILL)

    def pause(self, nodes: Sequence[NodeSpec]) -> Stamp:
        """SIGSTOP."""
        self._paused |= {spec.name: spec for spec in nodes}
        # Written down before it is done: whoever sweeps after us must know whom to wake.
        self._journal.write("stopping_processes", processes=[asdict(self._known[spec.name]) for spec in nodes])
        return self._send(nodes, signal.SIGSTOP)

    def resume(self, nodes: Sequence[NodeSpec]) -> Stamp:
        """SIGCONT."""
        stamp = self._send(nodes, signal.SIGCONT)
        for spec in nodes:
            self._paused.pop(spec.name, None)
        return stamp

    def resume_all(self) -> None:
        """Whoever is still paused goes on."""
        self.resume(list(self._paused.values()))

    def start(self, spec: NodeSpec) -> None:
        """Start a dead node with what it has on disk."""
        fleet = self._held.fleet
        result = fleet.target.converge([Launch(spec=spec)])[spec.name]
        if result.error is not None:
            raise Unreachable(f"{spec.name} does not start: {result.error}", hint="see its log")
        self.look_up([spec])

    def _send(self, nodes: Iterable[NodeSpec], number: signal.Signals) -> Stamp:
        clock = self._held.fleet.clock
        before_s = clock.monotonic()
        for spec in nodes:
            self._known[spec.name].send(number)
        return Stamp(before_s=before_s, after_s=clock.monotonic())
