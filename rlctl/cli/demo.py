"""rlctl demo: everything in one go on a throw-away local fleet."""

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.demo_run import run_demo
from rlctl.cli.drill.group import write_pages
from rlctl.cli.drill.output import show_run
from rlctl.cli.status import show
from rlctl.execute.stop import StopFlag

DEMO_S = 60.0


@click.command()
@with_app
def demo(app: App) -> None:
    """Deploy a throw-away 3+3 fleet, look at it, make a few decisions, remove it; then drill two failovers.

    Needs no topology file and touches nothing of yours: ports, folder and secrets are its own. The drills' reports are
    kept under RLCTL_HOME.

    \b
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
    app.output.line(f"healthy after {report.deployed.elapsed_s:.1f} s; the fleet is gone again")
    for run in report.drills:
        app.output.line("")
        show_run(app.output, run)
