"""rlctl fence and unfence: make one data node refuse writes, and accept them again."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand
from rlctl.cli.opened import note_differences, opened
from rlctl.errors import Exit
from rlctl.execute.locking import LockedFleet, LockWait, lock_fleet
from rlctl.execute.stop import StopFlag
from rlctl.operations.fence import FencePlan, FenceReport, plan_fence, run_fence, run_unfence
from rlctl.plan.fence import loss
from rlctl.topology.model import Topology


@click.command(cls=HelpCommand)
@click.argument("node")
@click.option("--confirm", metavar="NAME", help="Fleet's name, to agree in advance to the refused writes.")
@click.option("--dry-run", is_flag=True, help="Show which writes would be refused, change nothing, and exit 10.")
@click.option("--wait", is_flag=True, help="Wait for another operation to end, at most --timeout if given.")
@with_app
def fence(app: App, node: str, confirm: str | None, dry_run: bool, wait: bool) -> int:
    """Make a data node refuse every write until it is unfenced.

    Clients and scripts get NOREPLICAS; reads and replication continue. Only NODE itself has to answer, so a fence also
    works during a partition.

    A fence is not stored in a file: `unfence` or a restart of the node removes it. A deploy keeps the fence.

    Examples:
      rlctl fence node-0 --dry-run
      rlctl fence node-0 --confirm limiter
    """
    topology = app.topology()
    if dry_run:
        return _dry_run(app, node, wanted=True)

    with _held(app, topology, "fence", wait=wait) as locked:

        def agree(plan: FencePlan) -> None:
            losses = (loss(locked.fleet.topology, plan.observed, plan.node),)
            app.agree_to_loss(topology.name, losses, confirmed=confirm)

        report = run_fence(locked, node, app.argv, agree)
    _show(app, report, "fence")
    return Exit.OK


@click.command(cls=HelpCommand)
@click.argument("node")
@click.option("--yes", is_flag=True, help="Agree in advance.")
@click.option("--dry-run", is_flag=True, help="Show whether the node is fenced, change nothing; exit 10 if it is.")
@click.option("--wait", is_flag=True, help="Wait for another operation to end, at most --timeout if given.")
@with_app
def unfence(app: App, node: str, yes: bool, dry_run: bool, wait: bool) -> int:
    """Let a fenced data node accept writes again.

    Sets min-replicas-to-write to its value in the topology. Changes nothing if the node is not fenced.

    Examples:
      rlctl unfence node-0 --yes
    """
    topology = app.topology()
    if dry_run:
        return _dry_run(app, node, wanted=False)

    def agree(plan: FencePlan) -> None:
        app.agree(f"let {plan.spec.name} accept writes again?", yes=yes)

    with _held(app, topology, "unfence", wait=wait) as locked:
        report = run_unfence(locked, node, app.argv, agree)
    _show(app, report, "unfence")
    return Exit.OK


def _dry_run(app: App, node: str, *, wanted: bool) -> int:
    with opened(app) as fleet:
        plan, topology = plan_fence(fleet, node, wanted=wanted), fleet.topology
    now = FenceReport(name=topology.name, node=plan.spec.name, fenced=wanted != plan.changes, changed=False)
    if app.output.as_json or not plan.changes:
        _show(app, now, "fence" if wanted else "unfence")
    elif wanted:
        app.output.text(f"LOSS: {loss(topology, plan.observed, plan.node)}")
    else:
        app.output.text(f"{plan.spec.name}: would accept writes again")
    return Exit.CHANGES if plan.changes else Exit.OK


@contextmanager
def _held(app: App, topology: Topology, command: str, *, wait: bool) -> Iterator[LockedFleet]:
    stop = StopFlag()
    waiting = LockWait(wanted=wait, at_most_s=app.timeout_s)
    with stop.armed(), lock_fleet(topology, app.home, command, stop, app.output, waiting=waiting) as locked:
        note_differences(app, locked.fleet)
        yield locked


def _show(app: App, report: FenceReport, verb: str) -> None:
    if app.output.as_json:
        app.output.result(report.to_json(verb))
        return
    state = "refuses every write" if report.fenced else "is not fenced"
    app.output.text(f"{report.node}: {state}" + ("" if report.changed else ", as before"))
