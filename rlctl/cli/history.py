"""rlctl history: shows the journal of a fleet on this machine."""

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand
from rlctl.execute.journal import JournalEntry, read


@click.command(cls=HelpCommand)
@click.option(
    "-n", "--last", type=click.IntRange(min=1), default=20, show_default=True, help="Number of operations to show."
)
@with_app
def history(app: App, last: int) -> None:
    """List the operations that this machine ran on the fleet.

    Each line has the time, the operator, the command and the outcome. -v shows every step.

    Examples:
      rlctl history -n 3 -v
    """
    topology = app.topology()
    operations = read(app.home.journal(topology.name))[-last:]
    if app.output.as_json:
        entries = [operation.to_json() for operation in operations]
        app.output.result({"schema": "rlctl.history/1", "name": topology.name, "operations": entries})
        return
    if not operations:
        app.output.text(f"{topology.name}: this machine has changed nothing")
        return
    headers = ["STARTED", "BY", "COMMAND", "OUTCOME", "STEPS"]
    app.output.table(headers, [_row(operation) for operation in operations])
    if app.verbose:
        for operation in operations:
            app.output.text(f"\n{operation.started}  rlctl {' '.join(operation.argv)}")
            for text, outcome in operation.steps:
                app.output.text(f"  {text}: {outcome}")


def _row(operation: JournalEntry) -> list[str]:
    failed = sum(1 for _text, outcome in operation.steps if outcome != "done")
    steps = f"{len(operation.steps)}" + (f" ({failed} failed)" if failed else "")
    return [
        operation.started[:19].replace("T", " "),
        f"{operation.user}@{operation.host}",
        operation.command,
        operation.outcome,
        steps,
    ]
