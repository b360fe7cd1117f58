"""rlctl unlock: who holds the fleet, and breaking a lock that outlived its owner."""

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.opened import opened
from rlctl.operations.unlock import break_lock, look


@click.command()
@click.option("--yes", is_flag=True, help="Break the lock without asking.")
@with_app
def unlock(app: App, yes: bool) -> None:
    """Show who holds the fleet's lock and break it after a question.

    A lock on this machine ends with its process; the one in the fleet at most 30 s after it.

    \b
    rlctl unlock
    """
    topology = app.topology()
    with opened(app) as fleet:
        held = look(fleet)
        if held is None:
            _tell(app, topology.name, owner=None, broken=False)
            return
        owner = f"{topology.name}: locked by {held.describe()}"
        app.agree("break this lock? Whoever holds it will stop at its next step", yes=yes, about=(owner,))
        break_lock(fleet, held)
    _tell(app, topology.name, owner=held.owner.describe() if held.owner else "unknown", broken=True)


def _tell(app: App, name: str, *, owner: str | None, broken: bool) -> None:
    if app.output.as_json:
        app.output.result({"schema": "rlctl.unlock/1", "name": name, "owner": owner, "broken": broken})
    else:
        app.output.text(f"{name}: lock broken" if broken else f"{name}: not locked")
