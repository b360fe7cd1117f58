"""Worker process of a drill: runs the scenario on a twin, with or without namespaces, or on the live fleet."""

import sys

from rlctl.drills.engine.context import RunContext
from rlctl.drills.engine.environment import RunSetup, open_environment
from rlctl.drills.engine.run_files import read_run_request, requested_scenario
from rlctl.drills.engine.runner import Run
from rlctl.execute.progress import Progress
from rlctl.lab.faults import FaultInjector
from rlctl.lab.processes import Processes
from rlctl.lab.roles import assign_roles
from rlctl.lab.run_folder import RunFolder, RunJournal
from rlctl.lab.worker import StopWithParent, serve
from rlctl.system.clock import SystemClock


def carry_out(folder: RunFolder, progress: Progress) -> None:
    """Open the requested environment, run the scenario in it, and close it."""
    stop = StopWithParent()
    with stop.armed():
        request = read_run_request(folder)
        journal = RunJournal(folder, SystemClock())
        scenario = requested_scenario(folder, request)
        setup = RunSetup(folder=folder, request=request, scenario=scenario, progress=progress, stop=stop)
        journal.write("ordered", scenario=scenario.name)
        with open_environment(setup) as found:
            journal.write("deployed")
            fleet = found.held.fleet
            injector = FaultInjector(
                fleet=fleet,
                roles=assign_roles(fleet.topology, fleet.observe()),
                processes=Processes(fleet, journal),
                partitioner=found.partitioner,
                far_clients=found.far_clients,
            )
            context = RunContext(
                held=found.held,
                injector=injector,
                stop=stop,
                progress=progress,
                sources=found.sources,
                breaking=found.breaking,
            )
            Run(context=context, scenario=scenario, folder=folder, journal=journal).carry_out()
        journal.write("ended")


if __name__ == "__main__":
    sys.exit(serve(carry_out))
