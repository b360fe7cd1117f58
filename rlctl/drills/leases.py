"""Whatever a drill breaks beside other people heals by itself: a watchdog waits for our end, and then undoes it."""

from collections.abc import Iterator
from contextlib import contextmanager

from rlctl.drills.records import RunFolder
from rlctl.errors import Unreachable
from rlctl.system.process import OWN_PYTHON
from rlctl.system.talk import Child

ARMED_S = 30.0
ARMED, DONE = "armed", "done"
# A run that is over its budget ends itself; the watchdog only acts when it does not.
GRACE_S = 120.0


@contextmanager
def guarded(folder: RunFolder, budget_ms: int) -> Iterator[None]:
    """Nothing is broken in here before the watchdog has said that it is armed."""
    deadline_s = budget_ms / 1000 + GRACE_S
    argv = [*OWN_PYTHON, "-m", "rlctl.drills.watchdog", str(folder.root), f"{deadline_s:g}"]
    child = Child(argv, detached=True)
    try:
        if child.hear(timeout_s=ARMED_S) != ARMED:
            raise Unreachable(f"the watchdog does not start: {child.complaint()}", hint="no drill without one")
        yield
        child.tell(DONE)
    finally:
        child.end()
