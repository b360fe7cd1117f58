"""rlctl doctor: checks the machines and the fleet, and whether an operation may begin."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand
from rlctl.doctor.gates import GatedOperation, closing
from rlctl.doctor.model import Check, CheckSeverity
from rlctl.errors import Exit, NotFound
from rlctl.execute.session import open_fleet
from rlctl.operations.doctor import run_doctor
from rlctl.runbooks.answers import page_for_finding
from rlctl.topology.model import Topology


@click.command(cls=HelpCommand)
@click.option(
    "--gate",
    type=click.Choice([one.value for one in GatedOperation]),
    help="Operation that you plan: show only the checks that forbid it now.",
)
@with_app
def doctor(app: App, gate: str | None) -> int:
    """Check the machines and the fleet, with evidence and fixes.

    Shows the checks that did not pass; -v shows all. Exit 0 if all passed, 12 if a check is critical, else 11.

    With --gate, exit 0 if the operation may begin and 8 if a check forbids it. `drill` means a drill on the live fleet.

    Examples:
      rlctl doctor -v
      rlctl doctor --gate failover
    """
    topology = app.topology()
    with open_fleet(topology, app.home) as fleet:
        observed = fleet.observe()
        if gate not in {None, GatedOperation.DEPLOY} and not observed.exists:
            raise NotFound(f"fleet {topology.name} is not deployed: {gate} cannot begin", hint="run `rlctl deploy`")
        checks = tuple(map(_with_runbook, run_doctor(fleet, observed)))
    if gate is not None:
        return _gate(app, topology, GatedOperation(gate), checks)
    if app.output.as_json:
        app.output.result(_document(topology, checks))
    else:
        _show(app, checks)
    severities = {check.severity for check in checks}
    if CheckSeverity.CRITICAL in severities:
        return Exit.CRITICAL
    return Exit.DEGRADED if severities & {CheckSeverity.WARNING, CheckSeverity.UNKNOWN} else Exit.OK


def _with_runbook(check: Check) -> Check:
    """Return the check, with its runbook if it did not pass."""
    return check if check.severity is CheckSeverity.OK else replace(check, runbook=page_for_finding(check.name))


def _document(topology: Topology, checks: Iterable[Check]) -> dict[str, object]:
    entries = [check.to_json() for check in checks]
    return {"schema": "rlctl.doctor/1", "name": topology.name, "checks": entries}


def _gate(app: App, topology: Topology, operation: GatedOperation, checks: Iterable[Check]) -> int:
    """Show the checks that forbid the operation."""
    found = closing(operation, checks)
    names = sorted({check.name for check in found})
    if app.output.as_json:
        verdict = {"operation": operation, "open": not found, "closed_by": names}
        app.output.result(_document(topology, found) | {"gate": verdict})
    else:
        _list(app, found)
        app.output.text(f"{operation}: " + (f"must not begin: {', '.join(names)}" if found else "may begin"))
    return Exit.GUARD if found else Exit.OK


def _show(app: App, checks: Sequence[Check]) -> None:
    _list(app, [check for check in checks if app.verbose or check.severity is not CheckSeverity.OK])
    passed = sum(1 for check in checks if check.severity is CheckSeverity.OK)
    app.output.line(f"{len(checks)} checks, {passed} ok" + ("" if app.verbose else "; -v shows them all"))


def _list(app: App, checks: Iterable[Check]) -> None:
    for check in checks:
        page = f" ({check.runbook})" if check.runbook else ""
        app.output.line(f"{check.severity} {check.name} ({check.subject}): {check.evidence}{page}")
        if check.fix:
            app.output.line(f"    fix: {check.fix}")
