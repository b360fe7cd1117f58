"""rlctl demo: shows deploy, decisions and drills on throw-away local fleets."""

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.demo_run import run_demo
from rlctl.cli.drill.group import write_pages
from rlctl.cli.drill.output import show_run
from rlctl.cli.help import HelpCommand
from rlctl.cli.status import show
from rlctl.execute.stop import StopFlag

DEMO_S = 60.0


@click.command(cls=HelpCommand)
@with_app
def demo(app: App) -> None:
    """Show deploy, decisions and drills on a throw-away fleet.

    The demo deploys three primaries and three replicas on this machine, makes a few decisions and removes the fleet.
    Then it runs two failover drills. It needs no topology file, and uses its own ports, folder and secrets. rlctl keeps
    the reports of the drills under RLCTL_HOME.

    Examples:
      rlctl demo
    """
    stop = StopFlag()
    with stop.armed():
        report = run_demo(app.home, app.output, stop, app.timeout(DEMO_S))
    write_pages(app, report.drills)
    if app.output.as_json:
        app.output.result(report.to_json())
        return
    show(app, report.status)
    rows = [
        [
            one.identity,
            "allowed" if one.decision.allowed else "denied",
            str(one.decision.remaining),
            str(one.decision.retry_after_ms),
        ]
        for one in report.decisions
    ]
    app.output.table(["IDENTITY", "DECISION", "REMAINING", "RETRY AFTER MS"], rows)
    app.output.line(f"healthy after {report.deployed.elapsed_s:.1f} s; the fleet is removed again")
    for run in report.drills:
        app.output.line("")
        show_run(app.output, run)
