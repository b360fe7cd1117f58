"""Options, questions and locking of the commands that change rules."""

from dataclasses import dataclass, replace
from typing import Any

import click

from rlctl.cli.app import ENFORCEMENT, App
from rlctl.cli.opened import opened
from rlctl.cli.rules.output import show_outcome, show_plan
from rlctl.errors import Exit
from rlctl.execute.lock import LockOwner
from rlctl.execute.locking import LockWait
from rlctl.execute.stop import StopFlag
from rlctl.limits.release import Release
from rlctl.rules.change import (
    READ_BACK_S,
    ChangeRequest,
    ChangeResult,
    RampStep,
    RulesEdit,
    RulesPlan,
    change_rules,
    make_plan,
)
from rlctl.rules.in_force import read_rules_in_force


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    yes: bool
    confirm: str | None
    dry_run: bool
    wait: bool


def change_options(command: Any) -> Any:  # noqa: ANN401  click's decorators are untyped
    """Add the options of a command that changes rules."""
    for option in (
        click.option("--wait", is_flag=True, help="Wait for another operation to end, at most --timeout if given."),
        click.option("--confirm", metavar="NAME", help="Fleet's name, to agree in advance to the end of enforcement."),
        click.option("--dry-run", is_flag=True, help="Show the plan and change nothing; exit 10 if there are changes."),
        click.option("--yes", is_flag=True, help="Agree in advance."),
    ):
        command = option(command)
    return command


def run_change(app: App, verb: str, why: str, make: RulesEdit, release: Release, options: ChangeOptions) -> int:
    """Change the rules and show the outcome; with --dry-run, only show the plan."""
    if options.dry_run:
        return plan_change(app, verb, make, release)
    stop = StopFlag()
    changer = RulesChanger(app, options)
    with stop.armed():
        show_outcome(app, verb, changer.change(verb, why, make, release, stop))
    return Exit.OK


class RulesChanger:
    """Changes rules under the fleet's lock.

    Asks before the first change only, because the answer covers all later changes, such as the steps of a ramp.
    """

    def __init__(self, app: App, options: ChangeOptions) -> None:
        self._app = app
        self._options = options
        self._has_agreed = False

    def change(
        self, verb: str, why: str, make: RulesEdit, release: Release, stop: StopFlag, ramp: RampStep | None = None
    ) -> ChangeResult:
        app = self._app
        owner = LockOwner.myself(verb)
        request = ChangeRequest(
            by=f"{owner.user}@{owner.host}",
            verb=verb,
            why=why,
            argv=app.argv,
            progress=app.output,
            agree=self._agree,
            read_back_s=app.timeout(READ_BACK_S),
            ramp=ramp,
        )
        waiting = LockWait(wanted=self._options.wait, at_most_s=app.timeout_s)
        return change_rules(app.topology(), app.home, request, make, release=release, stop=stop, waiting=waiting)

    def _agree(self, found: RulesPlan) -> None:
        warnings = [f"warning {warning.rule}: {warning.text}" for warning in found.warnings]
        changes = [f"  {change.describe()}" for change in found.changes]
        name, confirm = self._app.topology().name, self._options.confirm
        needs_name = bool(found.ends) and not self._has_agreed
        agrees = self._options.yes or needs_name or confirm == name
        self._app.agree(f"{name}: put these rules in force?", yes=agrees, about=(*warnings, *changes))
        if needs_name:
            ends = tuple(ending.text for ending in found.ends)
            self._app.agree_to_loss(name, ends, confirmed=confirm, danger=ENFORCEMENT)
        self._options = replace(self._options, yes=True, wait=True)
        self._has_agreed = True


def plan_change(app: App, verb: str, make: RulesEdit, release: Release, ramp: RampStep | None = None) -> int:
    """Show the plan of a change, and return exit code 10 if there are changes."""
    with opened(app, release) as fleet:
        now = read_rules_in_force(fleet)
        found = make_plan(now, make(now), ramp)
    show_plan(app, verb, found)
    return Exit.CHANGES if found.changes else Exit.OK
