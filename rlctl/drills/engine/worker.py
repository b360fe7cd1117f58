"""The process that carries a run out: on a twin in namespaces of its own, on a twin beside others, or on the fleet.

It is told by its folder what to do, and by its standard input, whose end means that rlctl has gone.
"""

import os
import sys
from pathlib import Path

from rlctl.drills.engine.context import Processes, RunContext
from rlctl.drills.engine.environment import RunSetup, open_environment
from rlctl.drills.engine.run_files import read_run_request, requested_scenario
from rlctl.drills.engine.run_request import RunRequest
from rlctl.drills.engine.runner import Run
from rlctl.errors import Exit, RlctlError, Unreachable
from rlctl.execute.stop import StopFlag
from rlctl.lab.roles import assign_roles
from rlctl.lab.run_folder import RunFolder, RunJournal
from rlctl.lab.worker import JsonProgress, StopWithParent
from rlctl.system.clock import SystemClock
from rlctl.system.redis import CommandFailed, LinkFailure


def carry_out(folder: RunFolder, request: RunRequest, progress: JsonProgress, stop: StopFlag) -> None:
    """The run that is ordered, from building its arena to taking it down."""
    journal = RunJournal(folder, SystemClock())
    scenario = requested_scenario(folder, request)
    setup = RunSetup(folder=folder, request=request, scenario=scenario, progress=progress, stop=stop)
    journal.write("ordered", scenario=scenario.name)
    with open_environment(setup) as found:
        journal.write("deployed")
        fleet = found.held.fleet
        parts = assign_roles(fleet.topology, fleet.observe())
        context = RunContext(
            held=found.held,
            partitioner=found.partitioner,
            roles=parts,
            processes=Processes(found.held, journal),
            stop=stop,
            progress=progress,
            sources=found.sources,
            breaking=found.breaking,
        )
        Run(context=context, scenario=scenario, folder=folder, journal=journal).carry_out()
    journal.write("ended")


def main() -> int:
    """Carry out the run in the folder that is named."""
    # Ledgers and histories are nobody else's business.
    os.umask(0o077)
    folder = RunFolder(Path(sys.argv[1]))
    progress = JsonProgress()
    stop = StopWithParent()
    try:
        with stop.armed():
            carry_out(folder, read_run_request(folder), progress, stop)
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
