"""Removes throw-away fleets and their folders, also those that a killed run left."""

import shutil

from rlctl.execute.locking import LockWait, lock_fleet
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


def remove_fleet(topology: Topology, home: Home, progress: Progress) -> None:
    """Destroy a throw-away fleet of this machine that a killed run left."""
    with lock_fleet(topology, home, ARGV[0], StopFlag(), progress, waiting=WAITING, removing=True) as locked:
        run_destroy(locked, ARGV, progress)


def remove_twin_folder(folder: RunFolder) -> None:
    """Its last processes may just be ending, and somebody else may sweep too: entries come and go for a moment."""

    def is_gone() -> bool:
        shutil.rmtree(folder.twin, ignore_errors=True)
        return not folder.twin.exists()

    what = f"{folder.twin} removed"
    wait_until(is_gone, timeout_s=REMOVE_S, clock=SystemClock(), what=what, hint="remove it by hand")
