"""Removes throw-away fleets and their folders, including the fleets and folders of killed runs."""

import shutil
from collections.abc import Callable

from rlctl.execute.locking import LockedFleet, LockWait, lock_fleet
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.lab.run_folder import RunFolder
from rlctl.operations.destroy import run_destroy
from rlctl.state.home import Home
from rlctl.system.clock import SystemClock, wait_until
from rlctl.topology.model import Topology

WAIT_S = 60.0
REMOVE_S = 10.0
ARGV = ("failover-drill", "heal")
WAITING = LockWait(wanted=True, at_most_s=WAIT_S)


def remove_fleet(
    topology: Topology, home: Home, progress: Progress, before: Callable[[LockedFleet], None] = lambda _held: None
) -> None:
    """Destroy a throw-away fleet, even if the run was stopped. `before` runs first, while the fleet is locked."""
    with lock_fleet(topology, home, ARGV[0], StopFlag(), progress, waiting=WAITING, removing=True) as held:
        before(held)
        run_destroy(held, ARGV, progress)


def remove_twin_folder(folder: RunFolder) -> None:
    def is_gone() -> bool:
        # Errors are ignored and the removal is tried again, because processes that are about to end, or another
        # clean-up, may add and remove entries at the same time.
        shutil.rmtree(folder.twin, ignore_errors=True)
        return not folder.twin.exists()

    what = f"{folder.twin} removed"
    wait_until(is_gone, timeout_s=REMOVE_S, clock=SystemClock(), what=what, hint=f"rm -r {folder.twin}")
