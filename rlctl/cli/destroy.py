"""rlctl destroy: remove the fleet from this machine."""

import click

from rlctl.cli.app import App, with_app
from rlctl.execute.destroy import run_destroy
from rlctl.execute.fleet import open_fleet_for_removal
from rlctl.execute.stop import StopFlag


@click.command()
@click.option("--confirm", metavar="NAME", help="The fleet's name, in place of typing it.")
@click.option("--wait", is_flag=True, help="Wait while somebody else holds the fleet's lock.")
@with_app
def destroy(app: App, confirm: str | None, wait: bool) -> None:
    """Stop and remove the processes, data and secrets of this fleet; what is not there is fine."""
    topology = app.topology()
    with open_fleet_for_removal(topology, app.home) as fleet:
        losses = (f"all counters, data and secrets of fleet {topology.name} on this machine",)
        app.agree_to_loss(topology.name, losses, confirmed=confirm)
        stop = StopFlag()
        with stop.armed():
            report = run_destroy(fleet, app.argv, app.output, stop, wait_for_lock=wait)
    if app.output.as_json:
        app.output.result(report.to_json())
    elif report.removed:
        app.output.text(f"{report.name}: removed {len(report.removed)} nodes")
    else:
        app.output.text(f"{report.name}: nothing there")
