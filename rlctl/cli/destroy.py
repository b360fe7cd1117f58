"""rlctl destroy: removes a fleet and its data."""

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand
from rlctl.errors import UsageFault
from rlctl.execute.locking import LockWait, lock_fleet
from rlctl.execute.stop import StopFlag
from rlctl.operations.destroy import DestroyReport, run_destroy
from rlctl.topology.model import TargetName


@click.command(cls=HelpCommand)
@click.option("--confirm", metavar="NAME", help="Fleet's name, to agree in advance.")
@click.option("--packages", is_flag=True, help="On target hosts: also remove packages that nothing else uses.")
@click.option("--wait", is_flag=True, help="Wait for another operation to end, at most --timeout if given.")
@with_app
def destroy(app: App, confirm: str | None, packages: bool, wait: bool) -> None:
    """Stop and remove the fleet's processes, data and secrets.

    Parts that do not exist are skipped. If servers answer on the fleet's ports and rlctl cannot prove that they
    belong to the fleet, destroy lists these servers, does not stop them and exits with 4.

    By default, destroy keeps the packages that rlctl installed on hosts. --packages removes them without purging, but
    only from hosts without another fleet, and only if no process, unit or file outside rlctl uses them.

    Examples:
      rlctl destroy --confirm limiter
      rlctl destroy --confirm limiter --packages
    """
    topology = app.topology()
    if packages and topology.target is not TargetName.HOSTS:
        raise UsageFault(
            f"--packages is for target hosts; rlctl installs no packages for target {topology.target}",
            hint="run destroy without --packages",
        )
    where = "on its hosts and on this machine" if topology.target is TargetName.HOSTS else "on this machine"
    losses = (f"all counters, data and secrets of fleet {topology.name} {where}",)
    app.agree_to_loss(topology.name, losses, confirmed=confirm)
    waiting = LockWait(wanted=wait, at_most_s=app.timeout_s)
    stop = StopFlag()
    with (
        stop.armed(),
        lock_fleet(topology, app.home, "destroy", stop, app.output, waiting=waiting, removing=True) as locked,
    ):
        report = run_destroy(locked, app.argv, app.output, packages=packages)
    if app.output.as_json:
        app.output.result(report.to_json())
    else:
        _show(app, report)
    if report.packages.kept and not packages:
        app.output.note("`rlctl destroy --packages` removes the packages that nothing else uses")


def _show(app: App, report: DestroyReport) -> None:
    done = f"removed {len(report.removed)} nodes" if report.removed else "no nodes found"
    app.output.text(f"{report.name}: {done}")
    for text in dict.fromkeys(report.packages.kept.values()):
        hosts = ", ".join(host for host, own in report.packages.kept.items() if own == text)
        app.output.text(f"{hosts}: {text}")
