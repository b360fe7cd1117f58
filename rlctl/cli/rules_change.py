"""What all verbs that change rules share: options, questions, the lock."""

from dataclasses import dataclass, replace
from typing import Any

import click

from rlctl.cli.app import App
from rlctl.cli.rules_output import show_outcome, show_plan
from rlctl.errors import Exit
from rlctl.execute.fleet import open_fleet
from rlctl.execute.lock import Owner
from rlctl.execute.locking import Waiting
from rlctl.execute.stop import StopFlag
from rlctl.rules import admin
from rlctl.rules.admin import READ_BACK_S, Make, Outcome, RulesPlan
from rlctl.rules.locked import change_rules
from rlctl.rules.model import Revision
from rlctl.scripts.model import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """What was said in advance."""

    yes: bool
    dry_run: bool
    wait: bool


def changing(command: Any) -> Any:  # noqa: ANN401  click's decorators are untyped
    """What every changing verb takes."""
    for option in (
        click.option("--wait", is_flag=True, help="Wait while the fleet is locked."),
        click.option("--dry-run", is_flag=True, help="Only show what would change; exit 10 when there is something."),
        click.option("--yes", is_flag=True, help="Agree in advance."),
    ):
        command = option(command)
    return command


def run_change(app: App, verb: str, why: str, make: Make, release: Release, agreed: Agreed) -> int:
    """A changing verb to its end."""
    if agreed.dry_run:
        return plan_change(app, verb, make, release)
    stop = StopFlag()
    asking = Asking(app, agreed)
    with stop.armed():
        show_outcome(app, verb, asking.change(verb, why, make, release, stop))
    return Exit.OK


class Asking:
    """Changes under the fleet's lock, after a question: whoever agreed once agreed to all that follows."""

    def __init__(self, app: App, agreed: Agreed) -> None:
        self._app = app
        self._agreed = agreed

    def change(self, verb: str, why: str, make: Make, release: Release, stop: StopFlag) -> Outcome:
        """One change."""
        app = self._app
        owner = Owner.myself(verb)
        request = admin.Request(
            by=f"{owner.user}@{owner.host}",
            verb=verb,
            why=why,
            argv=app.argv,
            progress=app.output,
            agree=self._agree,
            read_back_s=app.timeout(READ_BACK_S),
        )
        waiting = Waiting(wanted=self._agreed.wait, at_most_s=app.timeout_s)
        return change_rules(app.topology(), app.home, request, make, release=release, stop=stop, waiting=waiting)

    def _agree(self, found: RulesPlan) -> None:
        warnings = [f"warning {warning.rule}: {warning.text}" for warning in found.warnings]
        changes = [f"  {change.describe()}" for change in found.changes]
        question = f"{self._app.topology().name}: put this in force?"
        self._app.agree(question, yes=self._agreed.yes, about=(*warnings, *changes))
        self._agreed = replace(self._agreed, yes=True, wait=True)


def plan_change(app: App, verb: str, make: Make, release: Release) -> int:
    """What a change would be; exit 10 where there is one."""
    with open_fleet(app.topology(), app.home, release) as fleet:
        now = admin.in_force(fleet)
        made = make(now)
    found = admin.make_plan(now, made.rules if isinstance(made, Revision) else made)
    show_plan(app, verb, found)
    return Exit.CHANGES if found.changes else Exit.OK
