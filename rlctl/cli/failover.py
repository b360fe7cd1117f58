"""rlctl failover: moves a shard's primary to its best replica."""

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand
from rlctl.cli.opened import note_differences, opened
from rlctl.errors import Exit, UsageFault
from rlctl.execute.locking import LockWait, lock_fleet
from rlctl.execute.stop import StopFlag
from rlctl.operations.failover import FailoverOptions, FailoverReport, plan_failover, run_failover
from rlctl.plan.failover import FailoverMode, FailoverPlan
from rlctl.topology.model import Kind, Topology


@click.command(cls=HelpCommand)
@click.argument("shard", type=click.IntRange(min=0))
@click.option("--force", is_flag=True, help="Fail over even if the old primary is dead; can lose writes.")
@click.option(
    "--takeover", is_flag=True, help="Promote without votes, in a cluster that lost its majority; can lose writes."
)
@click.option("--dry-run", is_flag=True, help="Show which replica would be promoted, change nothing, and exit 10.")
@click.option("--yes", is_flag=True, help="Agree to a planned failover in advance; does not cover data loss.")
@click.option("--confirm", metavar="NAME", help="Fleet's name, to agree in advance to a failover that can lose data.")
@click.option("--wait", is_flag=True, help="Wait for another operation to end, at most --timeout if given.")
@with_app
def failover(
    app: App, shard: int, force: bool, takeover: bool, dry_run: bool, yes: bool, confirm: str | None, wait: bool
) -> int:
    """Move the primary of a shard to its best replica.

    SHARD is the shard's number; a Sentinel fleet has only shard 0. A planned failover loses no write: clients wait
    until the replica has received all writes.

    Examples:
      rlctl failover 0 --dry-run
      rlctl failover 0 --yes
      # The primary is dead
      rlctl failover 0 --force --confirm limiter
      # The primary and the majority of the cluster are dead
      rlctl failover 0 --takeover --confirm limiter
    """
    topology = app.topology()
    options = FailoverOptions(
        shard=shard, mode=_mode(force=force, takeover=takeover), argv=app.argv, timeout_s=app.timeout_s
    )
    if dry_run:
        with opened(app) as fleet:
            _check_mode(fleet.topology, options.mode)
            return _dry_run(app, plan_failover(fleet, options))
    waiting = LockWait(wanted=wait, at_most_s=app.timeout_s)
    stop = StopFlag()

    def agree(plan: FailoverPlan) -> None:
        _agree(app, topology.name, plan, yes=yes, confirm=confirm)

    with stop.armed(), lock_fleet(topology, app.home, "failover", stop, app.output, waiting=waiting) as locked:
        note_differences(app, locked.fleet)
        _check_mode(locked.fleet.topology, options.mode)
        report = run_failover(locked, options, app.output, stop, agree)
    if not report.is_old_back:
        app.output.note(f"{report.plan.old} does not answer: `rlctl deploy` starts it as a replica")
    if app.output.as_json:
        app.output.result(report.to_json())
    else:
        lost = "no write was lost" if report.lost_bytes == 0 else "it is not known whether writes were lost"
        app.output.text(f"{report.name}: {_moved(report)} in {report.elapsed_s:.1f} s; {lost}")
    return Exit.OK


def _mode(*, force: bool, takeover: bool) -> FailoverMode:
    if force and takeover:
        raise UsageFault("--force and --takeover exclude each other", hint="see `rlctl failover --help`")
    if takeover:
        return FailoverMode.TAKEOVER
    return FailoverMode.FORCE if force else FailoverMode.PLANNED


def _check_mode(topology: Topology, mode: FailoverMode) -> None:
    if mode is FailoverMode.TAKEOVER and topology.kind is Kind.SENTINEL:
        raise UsageFault(
            "--takeover is for clusters; this is a Sentinel fleet",
            hint="use --force, which needs one sentinel that answers",
        )


def _dry_run(app: App, report: FailoverReport) -> int:
    if app.output.as_json:
        app.output.result(report.to_json())
        return Exit.CHANGES
    app.output.text(report.plan.text)
    if report.plan.loss is not None:
        app.output.text(f"LOSS: {report.plan.loss}")
    return Exit.CHANGES


def _agree(app: App, name: str, plan: FailoverPlan, *, yes: bool, confirm: str | None) -> None:
    if plan.loss is not None:
        app.agree_to_loss(name, (plan.loss,), confirmed=confirm)
        return
    app.agree(f"{name}: {plan.text}?", yes=yes or confirm == name)


def _moved(report: FailoverReport) -> str:
    return f"shard {report.plan.shard} moved from {report.plan.old} to {report.new} ({report.plan.mode})"
