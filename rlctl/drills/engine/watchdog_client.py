"""Whatever a drill breaks beside other people heals by itself: a watchdog waits for our end, and then undoes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlctl.errors import Unreachable
from rlctl.lab.run_folder import RunFolder
from rlctl.system.child import Child
from rlctl.system.process import OWN_PYTHON

ARMED_S = 30.0
ARMED, DONE = "armed", "done"
# A run that is over its budget ends itself; the watchdog only acts when it does not.
GRACE_S = 120.0
# Nothing is broken while a fleet is built, healed or taken down, which takes its time on slow hosts.
CALM_S = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogClient:
    """The watchdog of a run: it wants to hear from us again within the time that it was told last."""

    watchdog: Child
    budget_ms: int

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """In here something may be broken: no longer than the run's budget and some grace."""
        self.watchdog.send_line(f"{self.budget_ms / 1000 + GRACE_S:g}")
        try:
            yield
        finally:
            self.watchdog.send_line(f"{CALM_S:g}")


@contextmanager
def guarded(folder: RunFolder, budget_ms: int) -> Iterator[WatchdogClient]:
    """Nothing is broken in here before the watchdog has said that it is armed."""
    argv = [*OWN_PYTHON, "-m", "rlctl.drills.engine.watchdog", str(folder.root), f"{CALM_S:g}"]
    child = Child(argv, detached=True)
    try:
        if child.read_line(timeout_s=ARMED_S) != ARMED:
            raise Unreachable(f"the watchdog does not start: {child.last_errors()}", hint="no drill without one")
        yield WatchdogClient(watchdog=child, budget_ms=budget_ms)
        child.send_line(DONE)
    finally:
        child.end()
