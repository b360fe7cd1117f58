"""Opens the deployed fleet for a command, and prints why deploy would refuse the topology file."""

from collections.abc import Iterator
from contextlib import contextmanager

from rlctl.cli.app import App
from rlctl.execute.session import FleetSession, open_fleet
from rlctl.limits.release import Release
from rlctl.plan.findings import difference_findings


@contextmanager
def opened(app: App, release: Release | None = None) -> Iterator[FleetSession]:
    """Open the fleet for one command, and close its connections afterwards."""
    with open_fleet(app.topology(), app.home, release) as fleet:
        note_differences(app, fleet)
        yield fleet


def note_differences(app: App, fleet: FleetSession) -> None:
    """Print why deploy would refuse the topology file, for commands that do not show the fleet's findings."""
    for finding in difference_findings(fleet.refusals):
        app.output.note(f"{finding.code}: {finding.text}")
