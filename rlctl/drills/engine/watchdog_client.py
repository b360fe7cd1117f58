"""Starts the watchdog of a drill without namespaces, and sends time limits to the watchdog."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlctl.errors import Unreachable
from rlctl.lab.run_folder import RunFolder
from rlctl.system.child import Child
from rlctl.system.process import OWN_PYTHON

ARMED_S = 30.0
ARMED, DONE = "armed", "done"
# The watchdog waits this long after the budget, since a run that exceeds its budget ends by itself.
GRACE_S = 120.0
# Limit while no node is broken: deploying and removing a fleet may take minutes on slow hosts.
UNBROKEN_S = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogClient:
    """The watchdog of a run. It cleans up if the current time limit passes before a new limit arrives."""

    watchdog: Child
    budget_ms: int

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """Context in which nodes may be broken. The watchdog's limit is the run's budget plus GRACE_S."""
        self.watchdog.send_line(f"{self.budget_ms / 1000 + GRACE_S:g}")
        try:
            yield
        finally:
            self.watchdog.send_line(f"{UNBROKEN_S:g}")


@contextmanager
def watchdog_for(folder: RunFolder, budget_ms: int) -> Iterator[WatchdogClient]:
    """Start a watchdog, wait until it is armed, and end it on exit."""
    argv = [*OWN_PYTHON, "-m", "rlctl.drills.engine.watchdog", str(folder.root), f"{UNBROKEN_S:g}"]
    child = Child(argv, detached=True)
    try:
        if child.read_line(timeout_s=ARMED_S) != ARMED:
            raise Unreachable(f"the watchdog does not start: {child.last_errors()}", hint=f"see {folder.root}")
        yield WatchdogClient(watchdog=child, budget_ms=budget_ms)
        child.send_line(DONE)
    finally:
        child.end()
