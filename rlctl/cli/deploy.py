"""rlctl deploy: makes the fleet match its topology."""

from pathlib import Path

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand
from rlctl.errors import Exit, UsageFault
from rlctl.execute.locking import LockWait, lock_fleet
from rlctl.execute.session import open_fleet
from rlctl.execute.stop import StopFlag
from rlctl.operations.deploy import DeployOptions, DeployReport, plan_deploy, read_saved, run_deploy
from rlctl.plan.planner import Plan
from rlctl.plan.saved import to_text
from rlctl.plan.steps import describe, kind
from rlctl.system.files import write_private
from rlctl.topology.advice import warnings

DEPLOY_S = 60.0


@click.command(cls=HelpCommand)
@click.option("--dry-run", is_flag=True, help="Show the plan and change nothing; exit 10 if there are changes.")
@click.option("--plan-out", type=click.Path(path_type=Path), help="File to save the plan in; needs --dry-run.")
@click.option(
    "--plan", "plan_in", type=click.Path(path_type=Path), help="Saved plan to run; refused if the fleet changed since."
)
@click.option("--yes", is_flag=True, help="Agree to the plan in advance; does not cover data loss.")
@click.option("--confirm", metavar="NAME", help="Fleet's name, to agree in advance to steps that lose data.")
@click.option("--wait", is_flag=True, help="Wait for another operation to end, at most --timeout if given.")
@with_app
def deploy(
    app: App,
    dry_run: bool,
    plan_out: Path | None,
    plan_in: Path | None,
    yes: bool,
    confirm: str | None,
    wait: bool,
) -> int:
    """Build, change or repair the fleet to match its topology.

    If the fleet already matches its topology, rlctl changes nothing, so you can repeat the command at any time.

    Examples:
      rlctl deploy --dry-run
      rlctl deploy --yes
      # Save a plan, review it, then run exactly that plan
      rlctl deploy --dry-run --plan-out plan.json
      rlctl deploy --plan plan.json --yes
    """
    if dry_run and plan_in:
        raise UsageFault("--dry-run and --plan exclude each other", hint="see `rlctl deploy --help`")
    if plan_out and not dry_run:
        raise UsageFault("--plan-out needs --dry-run", hint="see `rlctl deploy --help`")
    topology = app.topology()
    saved = read_saved(plan_in) if plan_in else None
    for warning in warnings(topology):
        app.output.note(f"warning: {warning}")
    if dry_run:
        with open_fleet(topology, app.home) as fleet:
            return _dry_run(app, plan_deploy(fleet, app.output), plan_out)
    options = DeployOptions(argv=app.argv, saved=saved, timeout_s=app.timeout(DEPLOY_S))
    waiting = LockWait(wanted=wait, at_most_s=app.timeout_s)
    stop = StopFlag()

    def agree(plan: Plan) -> None:
        _agree(app, plan, yes=yes, confirm=confirm)

    with stop.armed(), lock_fleet(topology, app.home, "deploy", stop, app.output, waiting=waiting) as locked:
        report = run_deploy(locked, options, app.output, stop, agree)
    if app.output.as_json:
        app.output.result(report.to_json())
    else:
        app.output.text(f"{topology.name}: {_ending(report)}")
    return Exit.OK


def _ending(report: DeployReport) -> str:
    state = f"healthy except for a fence on {', '.join(report.fenced)}" if report.fenced else "healthy"
    if not report.results:
        return f"{state}, nothing to do"
    return f"{state} after {len(report.results)} steps in {report.elapsed_s:.1f} s"


def _dry_run(app: App, plan: Plan, plan_out: Path | None) -> int:
    if plan_out:
        write_private(plan_out, to_text(plan))
    if app.output.as_json:
        steps = planned_steps(plan)
        app.output.result({"schema": "rlctl.deploy/1", "changed": False, "steps": steps, "elapsed_s": 0.0})
    elif plan.steps:
        app.output.text("\n".join(describe(step) for step in plan.steps))
        for loss in plan.dangers:
            app.output.text(f"LOSS: {loss}")
    else:
        app.output.text(f"{plan.fleet}: no change")
    return Exit.CHANGES if plan.steps else Exit.OK


def planned_steps(plan: Plan) -> list[dict[str, str]]:
    return [{"kind": kind(step), "text": describe(step), "outcome": "planned"} for step in plan.steps]


def _agree(app: App, plan: Plan, *, yes: bool, confirm: str | None) -> None:
    if plan.dangers:
        app.agree_to_loss(plan.fleet, plan.dangers, confirmed=confirm)
        return
    if yes or confirm == plan.fleet:
        return
    steps = (f"  {describe(step)}" for step in plan.steps)
    app.agree(f"{plan.fleet}: carry out {len(plan.steps)} steps?", yes=False, about=steps)
