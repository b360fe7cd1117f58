"""rlctl fence and unfence: one data node refuses every write, until it may take them again."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.opened import note_differences, opened
from rlctl.errors import Exit
from rlctl.execute.locking import HeldFleet, Waiting, hold
from rlctl.execute.stop import StopFlag
from rlctl.operations.fence import FencePlan, FenceReport, plan_fence, run_fence, run_unfence
from rlctl.plan.fence import loss
from rlctl.topology.model import Topology


@click.command()
@click.argument("node")
@click.option("--confirm", metavar="NAME", help="The fleet's name, agreeing in advance to what is refused.")
@click.option("--dry-run", is_flag=True, help="Say what would be refused, and change nothing; exit 10.")
@click.option("--wait", is_flag=True, help="Wait while the fleet is locked, at most --timeout where it is given.")
@with_app
def fence(app: App, node: str, confirm: str | None, dry_run: bool, wait: bool) -> int:
    """Let a data node refuse every write from now on, whoever sends it, also from scripts.

    Clients get NOREPLICAS. Reads and replication go on. Only NODE itself has to answer, so it works in a partition.
    Nothing is written into a file: `unfence` lifts it, and so does a restart of the node; deploy leaves it alone.

    \b
    rlctl fence node-0 --dry-run
    rlctl fence node-0 --confirm limiter
    """
    topology = app.topology()
    if dry_run:
        return _dry_run(app, node, wanted=True)

    with _held(app, topology, "fence", wait=wait) as held:

        def agree(plan: FencePlan) -> None:
            losses = (loss(held.fleet.topology, plan.observed, plan.node),)
            app.agree_to_loss(topology.name, losses, confirmed=confirm)

        report = run_fence(held, node, app.argv, agree)
    _tell(app, report, "fence")
    return Exit.OK


@click.command()
@click.argument("node")
@click.option("--yes", is_flag=True, help="Lift the fence without asking.")
@click.option("--dry-run", is_flag=True, help="Say whether there is a fence to lift, and change nothing; exit 10.")
@click.option("--wait", is_flag=True, help="Wait while the fleet is locked, at most --timeout where it is given.")
@with_app
def unfence(app: App, node: str, yes: bool, dry_run: bool, wait: bool) -> int:
    """Let a fenced data node take writes again, as the topology says; one that is not fenced stays as it is.

    \b
    rlctl unfence node-0 --yes
    """
    topology = app.topology()
    if dry_run:
        return _dry_run(app, node, wanted=False)

    def agree(plan: FencePlan) -> None:
        app.agree(f"let {plan.spec.name} take writes again?", yes=yes)

    with _held(app, topology, "unfence", wait=wait) as held:
        report = run_unfence(held, node, app.argv, agree)
    _tell(app, report, "unfence")
    return Exit.OK


def _dry_run(app: App, node: str, *, wanted: bool) -> int:
    with opened(app) as fleet:
        plan, topology = plan_fence(fleet, node, wanted=wanted), fleet.topology
    now = FenceReport(name=topology.name, node=plan.spec.name, fenced=wanted != plan.changes, changed=False)
    if app.output.as_json or not plan.changes:
        _tell(app, now, "fence" if wanted else "unfence")
    elif wanted:
        app.output.text(f"LOSS: {loss(topology, plan.observed, plan.node)}")
    else:
        app.output.text(f"{plan.spec.name}: would take writes again")
    return Exit.CHANGES if plan.changes else Exit.OK


@contextmanager
def _held(app: App, topology: Topology, command: str, *, wait: bool) -> Iterator[HeldFleet]:
    stop = StopFlag()
    waiting = Waiting(wanted=wait, at_most_s=app.timeout_s)
    with stop.armed(), hold(topology, app.home, command, stop, app.output, waiting=waiting) as held:
        note_differences(app, held.fleet)
        yield held


def _tell(app: App, report: FenceReport, verb: str) -> None:
    if app.output.as_json:
        app.output.result(report.to_json(verb))
        return
    state = "refuses every write" if report.fenced else "is not fenced"
    app.output.text(f"{report.node}: {state}" + ("" if report.changed else ", as before"))
