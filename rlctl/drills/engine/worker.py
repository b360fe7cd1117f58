"""The process that carries a run out: on a twin in namespaces of its own, on a twin beside others, or on the fleet.

It is told by its folder what to do, and by its standard input, whose end means that rlctl has gone.
"""

import os
import sys
from pathlib import Path

from rlctl.drills.engine.context import Processes, Stage
from rlctl.drills.engine.environment import Setting, arena
from rlctl.drills.engine.run_files import ordered_scenario, read_order
from rlctl.drills.engine.run_request import Order
from rlctl.drills.engine.runner import Run
from rlctl.errors import Exit, RlctlError, Unreachable
from rlctl.execute.stop import StopFlag
from rlctl.execute.worker import HeirStop, Teller
from rlctl.lab.roles import cast
from rlctl.lab.run_folder import RunFolder, RunJournal
from rlctl.system.clock import SystemClock
from rlctl.system.redis import CommandFailed, LinkFailure


def carry_out(folder: RunFolder, order: Order, teller: Teller, stop: StopFlag) -> None:
    """The run that is ordered, from building its arena to taking it down."""
    journal = RunJournal(folder, SystemClock())
    scenario = ordered_scenario(folder, order)
    setting = Setting(folder=folder, order=order, scenario=scenario, progress=teller, stop=stop)
    journal.write("ordered", scenario=scenario.name)
    with arena(setting) as found:
        journal.write("deployed")
        fleet = found.held.fleet
        parts = cast(fleet.topology, fleet.observe())
        stage = Stage(
            held=found.held,
            faults=found.faults,
            cast=parts,
            processes=Processes(found.held, journal),
            stop=stop,
            progress=teller,
            sources=found.sources,
            breaking=found.breaking,
        )
        Run(stage=stage, scenario=scenario, folder=folder, journal=journal).carry_out()
    journal.write("ended")


def main() -> int:
    """Carry out the run in the folder that is named."""
    # Ledgers and histories are nobody else's business.
    os.umask(0o077)
    folder = RunFolder(Path(sys.argv[1]))
    teller = Teller()
    stop = HeirStop()
    try:
        with stop.armed():
            carry_out(folder, read_order(folder), teller, stop)
    except (LinkFailure, CommandFailed) as failure:
        return _failed(
            folder, Unreachable(f"a node did not do as told: {failure}", hint="its log is in the run's folder")
        )
    except RlctlError as failure:
        return _failed(folder, failure)
    return Exit.OK


def _failed(folder: RunFolder, failure: RlctlError) -> int:
    journal = RunJournal(folder, SystemClock())
    journal.write("failed", code=failure.code, message=failure.message, hint=failure.hint)
    return failure.exit_code


if __name__ == "__main__":
    sys.exit(main())
