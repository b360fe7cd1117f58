"""Opens what a run beside other people can break: packet filters in containers and on hosts, or Redis' own switches."""

from rlctl.drills.faults import Faults, ReplicationFaults
from rlctl.drills.records import RunFolder
from rlctl.execute.fleet import Fleet


def open_faults(fleet: Fleet, folder: RunFolder) -> Faults:
    """What can be cut where this fleet's target places nodes."""
    del folder
    return ReplicationFaults(fleet)
