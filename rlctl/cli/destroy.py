"""rlctl destroy: remove the fleet from where it runs."""

import click

from rlctl.cli.app import App, with_app
from rlctl.execute.destroy import run_destroy
from rlctl.execute.locking import Waiting, hold
from rlctl.execute.stop import StopFlag
from rlctl.topology.model import TargetName


@click.command()
@click.option("--confirm", metavar="NAME", help="The fleet's name, in place of typing it.")
@click.option("--wait", is_flag=True, help="Wait while the fleet is locked, at most --timeout where it is given.")
@with_app
def destroy(app: App, confirm: str | None, wait: bool) -> None:
    """Stop and remove the processes, data and secrets of this fleet; what is not there is fine.

    \b
    rlctl destroy --confirm limiter
    """
    topology = app.topology()
    where = "on its hosts and on this machine" if topology.target is TargetName.HOSTS else "on this machine"
    losses = (f"all counters, data and secrets of fleet {topology.name} {where}",)
    app.agree_to_loss(topology.name, losses, confirmed=confirm)
    waiting = Waiting(wanted=wait, at_most_s=app.timeout_s)
    stop = StopFlag()
    with (
        stop.armed(),
        hold(topology, app.home, "destroy", stop, app.output, waiting=waiting, removing=True) as held,
    ):
        report = run_destroy(held, app.argv, app.output)
    if app.output.as_json:
        app.output.result(report.to_json())
    elif report.removed:
        app.output.text(f"{report.name}: removed {len(report.removed)} nodes")
    else:
        app.output.text(f"{report.name}: nothing there")
