"""rlctl demo: everything in one go on a throw-away local fleet."""

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.status import show
from rlctl.execute.demo import run_demo
from rlctl.execute.stop import StopFlag

DEMO_S = 60.0


@click.command()
@with_app
def demo(app: App) -> None:
    """Deploy a throw-away 3+3 fleet, look at it, count a few keys, and remove it again.

    Needs no topology file and touches nothing of yours: ports, folder and secrets are its own.

    \b
    rlctl demo
    """
    stop = StopFlag()
    with stop.armed():
        report = run_demo(app.output, stop, app.timeout(DEMO_S))
    if app.output.as_json:
        app.output.result(report.to_json())
        return
    show(app, report.status)
    app.output.table(["KEY", "COUNT", "SLOT"], [[one.key, str(one.value), str(one.slot)] for one in report.counters])
    app.output.line(f"healthy after {report.deployed.elapsed_s:.1f} s; the fleet is gone again")
