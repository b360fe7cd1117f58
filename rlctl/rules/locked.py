"""A change of rules from the lock to the end, with plain values: for the CLI, and for whatever else changes rules."""

from rlctl.execute.locking import Waiting, hold
from rlctl.execute.stop import StopFlag
from rlctl.limits.release import Release
from rlctl.plan.findings import differences
from rlctl.rules import change
from rlctl.rules.change import Make, Outcome, Request
from rlctl.state.home import Home
from rlctl.topology.model import Topology

AT_ONCE = Waiting(wanted=False)


def change_rules(
    topology: Topology,
    home: Home,
    request: Request,
    make: Make,
    *,
    release: Release | None = None,
    stop: StopFlag | None = None,
    waiting: Waiting = AT_ONCE,
) -> Outcome:
    """One change under the fleet's lock, which was opened for it; `change.change` says what can go wrong."""
    command, stop = f"rules {request.verb}", stop or StopFlag()
    with hold(topology, home, command, stop, request.progress, waiting=waiting, release=release) as held:
        for finding in differences(held.fleet.refusals):
            request.progress.note(f"{finding.code}: {finding.text}")
        return change.change(held, request, make)
