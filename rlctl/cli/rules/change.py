"""What all verbs that change rules share: options, questions, the lock."""

from dataclasses import dataclass, replace
from typing import Any

import click

from rlctl.cli.app import ENFORCEMENT, App
from rlctl.cli.opened import opened
from rlctl.cli.rules.output import show_outcome, show_plan
from rlctl.errors import Exit
from rlctl.execute.lock import Owner
from rlctl.execute.locking import Waiting
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
class Agreed:
    """What was said in advance."""

    yes: bool
    confirm: str | None
    dry_run: bool
    wait: bool


def changing(command: Any) -> Any:  # noqa: ANN401  click's decorators are untyped
    """What every changing verb takes."""
    for option in (
        click.option("--wait", is_flag=True, help="Wait while the fleet is locked."),
        click.option(
            "--confirm", metavar="NAME", help="The fleet's name, agreeing in advance to enforcement that ends."
        ),
        click.option("--dry-run", is_flag=True, help="Only show what would change; exit 10 when there is something."),
        click.option("--yes", is_flag=True, help="Agree in advance."),
    ):
        command = option(command)
    return command


def run_change(app: App, verb: str, why: str, make: RulesEdit, release: Release, agreed: Agreed) -> int:
    """Carry a changing verb out, or only show its plan."""
    if agreed.dry_run:
        return plan_change(app, verb, make, release)
    stop = StopFlag()
    asking = Asking(app, agreed)
    with stop.armed():
        show_outcome(app, verb, asking.change(verb, why, make, release, stop))
    return Exit.OK


class Asking:
    """Changes under the fleet's lock, after a question: the first agreement covers all changes that follow."""

    def __init__(self, app: App, agreed: Agreed) -> None:
        self._app = app
        self._agreed = agreed
        self._is_settled = False

    def change(
        self, verb: str, why: str, make: RulesEdit, release: Release, stop: StopFlag, ramp: RampStep | None = None
    ) -> ChangeResult:
        """One change."""
        app = self._app
        owner = Owner.myself(verb)
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
        waiting = Waiting(wanted=self._agreed.wait, at_most_s=app.timeout_s)
        return change_rules(app.topology(), app.home, request, make, release=release, stop=stop, waiting=waiting)

    def _agree(self, found: RulesPlan) -> None:
        warnings = [f"warning {warning.rule}: {warning.text}" for warning in found.warnings]
        changes = [f"  {change.describe()}" for change in found.changes]
        name, confirm = self._app.topology().name, self._agreed.confirm
        wants_name = bool(found.ends) and not self._is_settled
        agrees = self._agreed.yes or wants_name or confirm == name
        self._app.agree(f"{name}: put this in force?", yes=agrees, about=(*warnings, *changes))
        if wants_name:
            ends = tuple(ending.text for ending in found.ends)
            self._app.agree_to_loss(name, ends, confirmed=confirm, danger=ENFORCEMENT)
        self._agreed = replace(self._agreed, yes=True, wait=True)
        self._is_settled = True


def plan_change(app: App, verb: str, make: RulesEdit, release: Release, ramp: RampStep | None = None) -> int:
    """What a change would be; exit 10 where there is one."""
    with opened(app, release) as fleet:
        now = read_rules_in_force(fleet)
        found = make_plan(now, make(now), ramp)
    show_plan(app, verb, found)
    return Exit.CHANGES if found.changes else Exit.OK
