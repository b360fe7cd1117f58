"""rlctl rules canary: gives a share of the identities other parameters, at once or in a ramp."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand
from rlctl.cli.options import Duration
from rlctl.cli.rules.change import ChangeOptions, RulesChanger, change_options, plan_change, run_change
from rlctl.cli.rules.output import show_outcome
from rlctl.errors import Exit, UsageFault
from rlctl.execute.session import open_fleet
from rlctl.execute.stop import StopFlag
from rlctl.files.yaml import Scalar
from rlctl.limits.rule import RuleSet
from rlctl.rules.change import RampStep
from rlctl.rules.conditions import AbortCondition, parse_condition
from rlctl.rules.edits import set_canary
from rlctl.rules.in_force import RulesInForce
from rlctl.rules.ramp import parse_steps, run_ramp, why_step, with_first_step
from rlctl.rules.ramp_watch import Ramp, RampContext
from rlctl.rules.table import PARAMETERS, PERCENT
from rlctl.scripts.release import load_release
from rlctl.system.clock import SystemClock

VERB = "canary"
HOLD_S = 600.0


class _Percent(click.ParamType[int]):
    """An option value from 0 to 100 with up to two decimals, converted to parts of 10,000."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        try:
            share: int = PERCENT.type.read(Scalar(line=0, text=str(value), is_plain=True))
            wrong = PERCENT.type.refuse(share)
        except ValueError as failure:
            self.fail(str(failure), param, ctx)
        return share if not wrong else self.fail(wrong, param, ctx)


class _Steps(click.ParamType[tuple[int, ...]]):
    """An option value such as `10,50,100`: rising percentages."""

    name = "steps"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:  # noqa: ANN401
        try:
            return parse_steps([_Percent().convert(word.strip(), param, ctx) for word in str(value).split(",")])
        except ValueError as failure:
            self.fail(str(failure), param, ctx)


class _Condition(click.ParamType[AbortCondition]):
    """An option value such as `errors>1%`."""

    name = "condition"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> AbortCondition:  # noqa: ANN401
        try:
            return parse_condition(str(value))
        except ValueError as failure:
            self.fail(str(failure), param, ctx)


def _parameters(command: Any) -> Any:  # noqa: ANN401  click's decorators are untyped
    for field in reversed(list(PARAMETERS.values())):
        command = click.option(
            f"--{field.key.replace('_', '-')}", metavar="VALUE", help=f"Value for the canary: {field.doc}."
        )(command)
    return command


@click.command(cls=HelpCommand)
@click.argument("rule")
@click.option(
    "--percent",
    "share",
    type=_Percent(),
    help="Percentage of identities in the canary, 0 for none; with --ramp, the first step.",
)
@click.option(
    "--ramp", "shares", type=_Steps(), help="Percentages of a ramp, such as 10,50,100; each lasts for --hold."
)
@click.option("--hold", "hold_s", type=Duration(), help="Time to hold each step of a ramp [10m].")
@click.option(
    "--abort-if",
    "conditions",
    type=_Condition(),
    multiple=True,
    help="Condition that aborts a ramp: errors>1%, denied>20%, p99>5ms; may be repeated. "
    "denied uses the parameters of the canary even for identities with a tier.",
)
@_parameters
@change_options
@with_app
def canary(
    app: App,
    rule: str,
    share: int | None,
    shares: tuple[int, ...] | None,
    hold_s: float | None,
    conditions: tuple[AbortCondition, ...],
    yes: bool,
    confirm: str | None,
    dry_run: bool,
    wait: bool,
    **parameters: str | None,
) -> int:
    """Give a share of the identities other parameters.

    A higher percentage keeps the current canary identities and adds more. Write parameters as in a rules file; without
    parameters, the canary keeps its current values. A tier's parameters override the canary's parameters. `rlctl rules
    promote` applies the canary to all identities.

    A ramp aborts if a condition holds, or if a condition could not be measured during a step. rlctl then restores the
    earlier rules and exits with 15. An interrupted ramp keeps its current percentage. errors and p99 cover all EVALSHA
    calls on the fleet; denied is the share of sampled canary identities that have used up their limit.

    Examples:
      rlctl rules canary api-per-key --percent 10 --limit 800 --yes
      rlctl rules canary api-per-key --ramp 10,50,100 --abort-if 'errors>1%'
    """
    steps = _steps(share, shares)
    _check_belongs_to_ramp(shares, {"--hold": hold_s, "--abort-if": conditions or None})
    release, options = load_release(), ChangeOptions(yes=yes, confirm=confirm, dry_run=dry_run, wait=wait)
    words = {name: word for name, word in parameters.items() if word is not None}
    make = set_canary(rule, words, release)
    if dry_run:
        ramp = None if shares is None else RampStep(last=partial(make, steps[-1]))
        return plan_change(app, VERB, partial(make, steps[0]), release, ramp)
    if shares is None:
        return run_change(app, VERB, why_step(rule, steps[0]), partial(make, steps[0]), release, options)
    held_s = HOLD_S if hold_s is None else hold_s
    _ramp(app, Ramp(rule_id=rule, shares=steps, hold_s=held_s, conditions=conditions), make, options)
    return Exit.OK


def _steps(share: int | None, shares: tuple[int, ...] | None) -> tuple[int, ...]:
    if shares is None:
        if share is None:
            raise UsageFault("--percent or --ramp is missing", hint="see `rlctl rules canary --help`")
        return (share,)
    try:
        return shares if share is None else with_first_step(share, shares)
    except ValueError as failure:
        raise UsageFault(
            f"--percent: {failure}", hint="give the first step of --ramp, or a lower percentage"
        ) from failure


def _check_belongs_to_ramp(shares: tuple[int, ...] | None, options: Mapping[str, object]) -> None:
    """Refuse options of a ramp without --ramp."""
    misplaced = next((name for name, value in options.items() if value is not None), None)
    if shares is None and misplaced is not None:
        raise UsageFault(f"{misplaced} needs --ramp", hint="`--ramp 10` is a ramp of one step")


def _ramp(app: App, ramp: Ramp, make: Callable[[int, RulesInForce], RuleSet], options: ChangeOptions) -> None:
    release, stop, changer = load_release(), StopFlag(), RulesChanger(app, options)
    context = RampContext(
        change=lambda why, made, step: changer.change(VERB, why, made, release, stop, step),
        open=lambda: open_fleet(app.topology(), app.home, release),
        clock=SystemClock(),
        stop=stop,
        progress=app.output,
    )
    with stop.armed():
        show_outcome(app, VERB, run_ramp(ramp, make, context))
