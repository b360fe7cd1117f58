"""rlctl doctor: checks with evidence and fixes."""

import click

from rlctl.cli.app import App, with_app
from rlctl.doctor.model import Check, Severity
from rlctl.errors import Exit
from rlctl.execute.doctor import run_doctor
from rlctl.execute.fleet import open_fleet


@click.command()
@with_app
def doctor(app: App) -> int:
    """Check the machines and the fleet: before a deploy, and when something feels wrong.

    Shows what is not well; -v shows the checks that passed too. Exit 0, 11 for warnings, 12 when critical.

    \b
    rlctl doctor -v
    """
    topology = app.topology()
    with open_fleet(topology, app.home) as fleet:
        checks = run_doctor(fleet)
    if app.output.as_json:
        entries = [check.to_json() for check in checks]
        app.output.result({"schema": "rlctl.doctor/1", "name": topology.name, "checks": entries})
    else:
        _show(app, checks)
    severities = {check.severity for check in checks}
    if Severity.CRITICAL in severities:
        return Exit.CRITICAL
    return Exit.DEGRADED if severities & {Severity.WARNING, Severity.UNKNOWN} else Exit.OK


def _show(app: App, checks: tuple[Check, ...]) -> None:
    shown = [check for check in checks if app.verbose or check.severity is not Severity.OK]
    for check in shown:
        app.output.line(f"{check.severity} {check.name} ({check.subject}): {check.evidence}")
        if check.fix:
            app.output.line(f"    fix: {check.fix}")
    passed = sum(1 for check in checks if check.severity is Severity.OK)
    app.output.line(f"{len(checks)} checks, {passed} ok" + ("" if app.verbose else "; -v shows them all"))
