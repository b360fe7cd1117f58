"""The context of a drill's run: a locked fleet, its fault injector and its clients' addresses."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from rlctl.drills.scenario.model import Side
from rlctl.execute.locking import LockedFleet
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.lab.faults import FaultInjector
from rlctl.lab.partition import ClientSource
from rlctl.lab.roles import Roles
from rlctl.system.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """One fleet, locked for one run. Faults may be injected only inside `breaking`."""

    held: LockedFleet
    injector: FaultInjector
    stop: StopFlag
    progress: Progress
    sources: Mapping[Side, ClientSource]
    breaking: Callable[[], AbstractContextManager[None]]

    @property
    def clock(self) -> Clock:
        """The clock of the run. Every timestamp is in its monotonic time."""
        return self.held.fleet.clock

    @property
    def roles(self) -> Roles:
        return self.injector.roles
