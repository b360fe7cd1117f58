"""rlctl unlock: shows the fleet's lock and breaks it."""

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand
from rlctl.cli.opened import opened
from rlctl.operations.unlock import break_lock, find_lock


@click.command(cls=HelpCommand)
@click.option("--yes", is_flag=True, help="Agree in advance.")
@with_app
def unlock(app: App, yes: bool) -> None:
    """Show which operation holds the fleet's lock, and break it.

    Asks before it breaks the lock. You rarely need this command: when the process that holds the lock ends, the lock on
    this machine ends too, and the lock in the fleet expires within 30 s.

    Examples:
      rlctl unlock
      rlctl unlock --yes
    """
    topology = app.topology()
    with opened(app) as fleet:
        held = find_lock(fleet)
        if held is None:
            _show(app, topology.name, owner=None, broken=False)
            return
        owner = f"{topology.name}: locked by {held.describe()}"
        app.agree("break this lock? The operation that holds it stops at its next step", yes=yes, about=(owner,))
        break_lock(fleet, held)
    _show(app, topology.name, owner=held.owner.describe() if held.owner else "unknown", broken=True)


def _show(app: App, name: str, *, owner: str | None, broken: bool) -> None:
    if app.output.as_json:
        app.output.result({"schema": "rlctl.unlock/1", "name": name, "owner": owner, "broken": broken})
    else:
        app.output.text(f"{name}: lock broken" if broken else f"{name}: not locked")
