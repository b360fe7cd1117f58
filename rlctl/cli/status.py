"""rlctl status: the fleet as it is, against the topology."""

import contextlib

import click

from rlctl.cli.app import App, with_app
from rlctl.errors import Exit, TimedOut
from rlctl.execute.fleet import Fleet, open_fleet
from rlctl.execute.status import FleetStatus, NodeStatus, read_status
from rlctl.plan.findings import State
from rlctl.system.clock import wait_until

WAIT_S = 60.0
WAIT_EVERY_S = 0.2
WATCH_EVERY_S = 1.0
_EXITS = {
    State.HEALTHY: Exit.OK,
    State.DEGRADED: Exit.DEGRADED,
    State.CRITICAL: Exit.CRITICAL,
    State.ABSENT: Exit.NOT_FOUND,
}


@click.command()
@click.option("--watch", is_flag=True, help="Show it again every second, until interrupted.")
@click.option("--wait", is_flag=True, help="Wait until the fleet is healthy, at most --timeout [60s].")
@with_app
def status(app: App, watch: bool, wait: bool) -> int:
    """Show nodes, roles, slots, lag and views against the topology.

    Exit 0 healthy, 11 degraded, 12 critical, 5 absent.

    \b
    rlctl status --watch
    rlctl status --wait --timeout 2m
    rlctl status -o json
    """
    with open_fleet(app.topology(), app.home) as fleet:
        if watch:
            return _watch(app, fleet)
        report = _wait(app, fleet) if wait else read_status(fleet)
    show(app, report)
    return _EXITS[report.state]


def show(app: App, report: FleetStatus) -> None:
    """The result in the form that was asked for."""
    if app.output.as_json:
        app.output.result(report.to_json())
        return
    title = f"{report.state} fleet {report.name}, {report.kind}, {len(report.nodes)} nodes"
    headers = ["NODE", "ROLE", "SHARD", "ADDRESS", "SLOTS", "LINK", "LAG", "VIEW", "VERSION"]
    app.output.table(
        headers + (["ID"] if app.verbose else []),
        [_row(node) + ([node.id] if app.verbose else []) for node in report.nodes],
        title=title,
    )
    for finding in report.findings:
        app.output.line(f"{finding.severity} {finding.text}")


def _row(node: NodeStatus) -> list[str]:
    return [
        node.name,
        node.role if node.alive else f"down ({node.role})",
        "-" if node.shard is None else str(node.shard),
        f"{node.host}:{node.port}",
        str(node.slots) if node.slots else "-",
        node.link if node.link != "none" else "-",
        "-" if node.lag_bytes is None else f"{node.lag_bytes} B",
        node.view or "-",
        node.version or "-",
    ]


def _wait(app: App, fleet: Fleet) -> FleetStatus:
    """The last reading, healthy or not: how it stands then is the result."""
    report = read_status(fleet)

    def is_healthy() -> bool:
        nonlocal report
        if report.state is not State.HEALTHY:
            report = read_status(fleet)
        return report.state is State.HEALTHY

    timeout_s = app.timeout(WAIT_S)
    try:
        wait_until(is_healthy, timeout_s=timeout_s, clock=fleet.clock, what="healthy", every_s=WAIT_EVERY_S)
    except TimedOut:
        app.output.note(f"not healthy after {timeout_s:g} s")
    return report


def _watch(app: App, fleet: Fleet) -> int:
    """Until Ctrl-C, which is no failure here; on a terminal each reading replaces the one before."""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            report = read_status(fleet)
            if not app.output.as_json:
                click.clear()
            show(app, report)
            fleet.clock.sleep(WATCH_EVERY_S)
    return Exit.INTERRUPTED
