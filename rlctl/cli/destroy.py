"""rlctl destroy: remove the fleet from where it runs."""

import click

from rlctl.cli.app import App, with_app
from rlctl.errors import UsageFault
from rlctl.execute.locking import Waiting, hold
from rlctl.execute.stop import StopFlag
from rlctl.operations.destroy import DestroyReport, run_destroy
from rlctl.topology.model import TargetName


@click.command()
@click.option("--confirm", metavar="NAME", help="The fleet's name, in place of typing it.")
@click.option("--packages", is_flag=True, help="Target hosts: also remove packages that nothing else uses.")
@click.option("--wait", is_flag=True, help="Wait while the fleet is locked, at most --timeout where it is given.")
@with_app
def destroy(app: App, confirm: str | None, packages: bool, wait: bool) -> None:
    """Stop and remove the processes, data and secrets of this fleet; what is not there is fine.

    Exit 4 where servers answer on its ports and nothing here proves whose they are: they are named and left alone.
    Packages that rlctl installed on hosts stay. --packages removes them, and never purges them, from hosts without
    another fleet, unless a process, a unit or files that are not rlctl's use them.

    \b
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
    waiting = Waiting(wanted=wait, at_most_s=app.timeout_s)
    stop = StopFlag()
    with (
        stop.armed(),
        hold(topology, app.home, "destroy", stop, app.output, waiting=waiting, removing=True) as held,
    ):
        report = run_destroy(held, app.argv, app.output, packages=packages)
    if app.output.as_json:
        app.output.result(report.to_json())
    else:
        _show(app, report)
    if report.packages.kept and not packages:
        app.output.note("`rlctl destroy --packages` removes the packages that nothing else uses")


def _show(app: App, report: DestroyReport) -> None:
    done = f"removed {len(report.removed)} nodes" if report.removed else "nothing there"
    app.output.text(f"{report.name}: {done}")
    for text in dict.fromkeys(report.packages.kept.values()):
        hosts = ", ".join(host for host, own in report.packages.kept.items() if own == text)
        app.output.text(f"{hosts}: {text}")
