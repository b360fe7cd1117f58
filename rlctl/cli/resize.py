"""rlctl resize: raises maxmemory in the topology file and on the fleet."""

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.deploy import DEPLOY_S, planned_steps
from rlctl.cli.help import HelpCommand
from rlctl.cli.options import Size
from rlctl.errors import Exit
from rlctl.execute.locking import LockWait, lock_fleet
from rlctl.execute.stop import StopFlag
from rlctl.operations.deploy import DeployOptions
from rlctl.operations.resize import Resize, make_resize, plan_resize, run_resize
from rlctl.plan.planner import Plan
from rlctl.plan.steps import describe


@click.command(cls=HelpCommand)
@click.argument("size", type=Size(), required=False)
@click.option("--dry-run", is_flag=True, help="Show the plan and change nothing; exit 10 if there are changes.")
@click.option("--yes", is_flag=True, help="Agree in advance.")
@click.option("--wait", is_flag=True, help="Wait for another operation to end, at most --timeout if given.")
@with_app
def resize(app: App, size: int | None, dry_run: bool, yes: bool, wait: bool) -> int:
    """Raise the memory of every data node.

    Writes SIZE as maxmemory into the topology file and deploys the file. Without SIZE, memory doubles.

    Refused if the fleet differs from the file, if a machine lacks memory, or if SIZE is below the current maxmemory.

    Examples:
      rlctl resize --dry-run
      rlctl resize 512mb --yes
    """
    change = make_resize(app.file, app.source(), size)
    if dry_run:
        return _dry_run(app, change, plan_resize(change, app.home, app.output))
    options = DeployOptions(argv=app.argv, saved=None, timeout_s=app.timeout(DEPLOY_S), command="resize")
    waiting = LockWait(wanted=wait, at_most_s=app.timeout_s)
    stop = StopFlag()

    def agree(plan: Plan) -> None:
        if yes:
            return
        head = f"{_headline(change)}; {app.file} and {len(plan.steps)} steps:"
        steps = (f"  {describe(step)}" for step in plan.steps)
        app.agree(f"{change.before.name}: write and deploy this?", yes=False, about=(head, *steps))

    with stop.armed(), lock_fleet(change.after, app.home, "resize", stop, app.output, waiting=waiting) as locked:
        report = run_resize(locked, change, options, app.output, stop, agree)
    if app.output.as_json:
        done = report.to_json()
        app.output.result(change.to_json() | {key: done[key] for key in ("changed", "steps", "elapsed_s")})
    elif report.results:
        app.output.text(f"{_headline(change)} after {len(report.results)} steps in {report.elapsed_s:.1f} s")
        app.output.text(f"commit {app.file}")
    else:
        app.output.text(f"{_headline(change)}: nothing to do")
    return Exit.OK


def _dry_run(app: App, change: Resize, plan: Plan) -> int:
    if app.output.as_json:
        steps = planned_steps(plan)
        app.output.result(change.to_json() | {"changed": False, "steps": steps, "elapsed_s": 0.0})
    elif plan.steps:
        app.output.text("\n".join([_headline(change), *(describe(step) for step in plan.steps)]))
    else:
        app.output.text(f"{_headline(change)}: no change")
    return Exit.CHANGES if plan.steps else Exit.OK


def _headline(change: Resize) -> str:
    return f"{change.before.name}: maxmemory of every data node from {change.was} to {change.now}"
