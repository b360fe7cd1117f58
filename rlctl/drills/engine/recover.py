"""Repairs a fleet after a drill, by the plan that `rlctl deploy` makes."""

from rlctl.drills.engine.context import RunContext
from rlctl.drills.engine.sampler import NodeSampler
from rlctl.drills.record.sample import SILENT, is_one
from rlctl.errors import CheckFailed, PartlyDone
from rlctl.execute.locking import LockedFleet
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.lab.cleanup import ARGV
from rlctl.lab.run_folder import RunJournal
from rlctl.operations.deploy import DeployOptions, DeployReport, run_deploy
from rlctl.system.clock import wait_until

REPAIR_S = 90.0
ATTEMPTS = 3


def recover(context: RunContext, sampler: NodeSampler, journal: RunJournal) -> None:
    """Repair the fleet, wait until the victim's shard has one primary and equal offsets, and record `healed`."""
    repair(context.held, context.progress, context.stop)

    def is_whole() -> bool:
        return is_one([sampler.latest.get(spec.name, SILENT) for spec in context.roles.shard])

    what = "the shard whole again"
    wait_until(is_whole, timeout_s=REPAIR_S, clock=context.clock, what=what, hint="see `rlctl status`")
    journal.write("healed")


def repair(held: LockedFleet, progress: Progress, stop: StopFlag) -> DeployReport:
    """Repair the fleet by a deploy of its own topology. A deploy that fails is tried again, up to ATTEMPTS in total."""
    options = DeployOptions(argv=ARGV, saved=None, timeout_s=REPAIR_S)
    for _attempt in range(ATTEMPTS - 1):
        try:
            return run_deploy(held, options, progress, stop, lambda _plan: None)
        except (CheckFailed, PartlyDone):
            # A plan fails if a sentinel changes a role while rlctl carries out the plan. The next attempt makes a new
            # plan.
            continue
    return run_deploy(held, options, progress, stop, lambda _plan: None)
