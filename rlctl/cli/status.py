"""rlctl status: compares the fleet with its topology."""

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand
from rlctl.cli.opened import note_differences
from rlctl.cli.polling import PolledReport
from rlctl.cli.views import VIEWS
from rlctl.errors import Exit
from rlctl.execute.session import open_fleet
from rlctl.operations.status import FleetStatus, NodeStatus, read_status
from rlctl.plan.finding import State
from rlctl.runbooks.answers import page_for_finding

_EXITS = {
    State.HEALTHY: Exit.OK,
    State.DEGRADED: Exit.DEGRADED,
    State.CRITICAL: Exit.CRITICAL,
    State.ABSENT: Exit.NOT_FOUND,
}


@click.command(cls=HelpCommand)
@click.option("--views", is_flag=True, help="Show what every node reports about the others, side by side.")
@click.option("--watch", is_flag=True, help="Refresh every second until interrupted.")
@click.option(
    "--wait",
    is_flag=True,
    help="Wait until the fleet is healthy (--views: until nodes agree), at most --timeout [60s].",
)
@with_app
def status(app: App, views: bool, watch: bool, wait: bool) -> int:
    """Show nodes, roles, slots, lag and findings of the fleet.

    Exit 0 healthy, 11 degraded, 12 critical, 5 not deployed. If deploy would refuse the topology file, status shows the
    deployed fleet and the finding topology-differs.

    With --views: exit 0 if all nodes agree. Exit 12 if a shard has two primaries that accept writes or none, or if
    sentinels disagree. Exit 11 for any other difference.

    Examples:
      rlctl status --watch
      rlctl status --wait --timeout 2m
      rlctl status --views
      rlctl status -o json
    """
    with open_fleet(app.topology(), app.home) as fleet:
        if views:
            note_differences(app, fleet)
            return VIEWS.run(app, fleet, watch=watch, wait=wait)
        return STATUS.run(app, fleet, watch=watch, wait=wait)


def show(app: App, report: FleetStatus) -> None:
    if app.output.as_json:
        app.output.result(_document(report))
        return
    title = f"{report.state} fleet {report.name}, {report.kind}, {len(report.nodes)} nodes"
    headers = ["NODE", "ROLE", "SHARD", "ADDRESS", "SLOTS", "LINK", "LAG", "VIEW", "VERSION"]
    app.output.table(
        headers + (["ID"] if app.verbose else []),
        [_row(node) + ([node.id] if app.verbose else []) for node in report.nodes],
        title=title,
    )
    for finding in report.findings:
        page = page_for_finding(finding.code)
        app.output.line(f"{finding.severity} {finding.text}" + (f" ({page})" if page else ""))


def _document(report: FleetStatus) -> dict[str, object]:
    """Return the JSON form of the report, with the runbook of each finding."""
    findings = [{**finding.to_json(), "runbook": page_for_finding(finding.code)} for finding in report.findings]
    return {**report.to_json(), "findings": findings}


def _row(node: NodeStatus) -> list[str]:
    return [
        node.name,
        node.role if node.alive else f"{'unproven' if node.unproven else 'down'} ({node.role})",
        "-" if node.shard is None else str(node.shard),
        f"{node.host}:{node.port}",
        str(node.slots) if node.slots else "-",
        node.link if node.link != "none" else "-",
        "-" if node.lag_bytes is None else f"{node.lag_bytes} B",
        node.view or "-",
        node.version or "-",
    ]


STATUS = PolledReport(
    read=read_status,
    wanted="healthy",
    is_reached=lambda report: report.state is State.HEALTHY,
    show=show,
    exit_code=lambda report: _EXITS[report.state],
)
