"""Brings a fleet back after a drill, by the same plan that `deploy` makes, and notes when it is whole again."""

from rlctl.drills.engine.context import RunContext
from rlctl.drills.engine.sampler import NodeSampler
from rlctl.drills.record.sample import SILENT, is_one
from rlctl.errors import CheckFailed, PartlyDone
from rlctl.lab.run_folder import RunJournal
from rlctl.operations.deploy import DeployOptions, run_deploy
from rlctl.system.clock import wait_until

HEAL_S = 90.0


_AGAIN = 3


def heal(context: RunContext, sampler: NodeSampler, journal: RunJournal) -> None:
    """Start what is dead, let roles settle, and wait until the victim's shard is one again."""
    _deploy(context)

    def is_whole() -> bool:
        samples = [sampler.latest.get(spec.name, SILENT) for spec in context.roles.shard]
        return is_one(samples)

    wait_until(is_whole, timeout_s=HEAL_S, clock=context.clock, what="the shard whole again", hint="see `rlctl status`")
    journal.write("healed")


def _deploy(context: RunContext) -> None:
    """What moves on by itself while a plan is made, such as a role that a sentinel corrects, wants another plan."""
    options = DeployOptions(argv=("failover-drill", "heal"), saved=None, timeout_s=HEAL_S)
    for again in range(_AGAIN, 0, -1):
        try:
            run_deploy(context.held, options, context.progress, context.stop, lambda _plan: None)
        except (CheckFailed, PartlyDone):
            if again == 1:
                raise
        else:
            return
