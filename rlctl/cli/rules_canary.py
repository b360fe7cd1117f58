"""rlctl rules canary: other parameters for a share of the identities, at once or in steps."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import click

from rlctl.cli.app import App, Duration, with_app
from rlctl.cli.rules_change import Agreed, changing, locked_change, plan_change, run_change
from rlctl.cli.rules_output import show_outcome
from rlctl.errors import Exit, UsageFault
from rlctl.execute.fleet import open_fleet
from rlctl.execute.stop import StopFlag
from rlctl.rules.admin import InForce, Make, Outcome
from rlctl.rules.conditions import Condition, parse_condition
from rlctl.rules.model import RuleSet
from rlctl.rules.ramp import Hands, Ramp, parse_steps, run_ramp
from rlctl.rules.table import PARAMETERS, PERCENT
from rlctl.rules.verbs import canaried
from rlctl.scripts.release import load_release
from rlctl.system.clock import SystemClock
from rlctl.topology.yaml_lines import Scalar

VERB = "canary"


class _Percent(click.ParamType[int]):
    """0 to 100 with up to two decimals, in parts of 10,000."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        """As a rules file spells it."""
        try:
            share: int = PERCENT.type.read(Scalar(line=0, text=str(value), is_plain=True))
            wrong = PERCENT.type.refuse(share)
        except ValueError as failure:
            self.fail(str(failure), param, ctx)
        return share if not wrong else self.fail(wrong, param, ctx)


class _Steps(click.ParamType[tuple[int, ...]]):
    """`10,50,100`."""

    name = "steps"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:  # noqa: ANN401
        """Rising shares."""
        try:
            return parse_steps([_Percent().convert(word.strip(), param, ctx) for word in str(value).split(",")])
        except ValueError as failure:
            self.fail(str(failure), param, ctx)


class _Condition(click.ParamType[Condition]):
    """`errors>1%`."""

    name = "condition"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Condition:  # noqa: ANN401
        """One condition."""
        try:
            return parse_condition(str(value))
        except ValueError as failure:
            self.fail(str(failure), param, ctx)


def _parameters(command: Any) -> Any:  # noqa: ANN401  click's decorators are untyped
    for field in reversed(list(PARAMETERS.values())):
        command = click.option(f"--{field.key.replace('_', '-')}", metavar="VALUE", help=f"Override: {field.doc}.")(
            command
        )
    return command


@click.command()
@click.argument("rule")
@click.option("--percent", "share", type=_Percent(), help="For so many of 100 identities; 0 for nobody.")
@click.option("--ramp", "shares", type=_Steps(), help="In steps, such as 10,50,100, each held and watched.")
@click.option("--hold", "hold_s", type=Duration(), default="10m", show_default=True, help="How long each step is held.")
@click.option(
    "--abort-if",
    "conditions",
    type=_Condition(),
    multiple=True,
    help="Take all of a ramp back: errors>1%, denied>20%, p99>5ms; may be repeated.",
)
@_parameters
@changing
@with_app
def canary(
    app: App,
    rule: str,
    share: int | None,
    shares: tuple[int, ...] | None,
    hold_s: float,
    conditions: tuple[Condition, ...],
    yes: bool,
    dry_run: bool,
    wait: bool,
    **parameters: str | None,
) -> int:
    """Give a share of the identities other parameters: the same people, and more of them at a higher percentage.

    The parameters are spelled as in a rules file; without any, those of the canary that the rule has. Tiers stay above
    a canary, and `rlctl rules promote` gives it to everybody. errors and p99 are those of all EVALSHA on the fleet;
    denied is the share of a sample of the canary's identities that have nothing left. A ramp that is broken off exits
    with 15, and the rules are as before it; interrupted, it stays at its step.

    \b
    rlctl rules canary api-per-key --percent 10 --limit 800 --yes
    rlctl rules canary api-per-key --limit 800 --ramp 10,50,100 --hold 10m --abort-if 'errors>1%' --yes
    """
    if (share is None) == (shares is None):
        raise UsageFault("one of --percent and --ramp says for how many", hint="see `rlctl rules canary --help`")
    if conditions and shares is None:
        raise UsageFault("--abort-if belongs to --ramp", hint="`rlctl rules rollback` takes a canary back")
    release, agreed = load_release(), Agreed(yes=yes, dry_run=dry_run, wait=wait)
    words = {name: word for name, word in parameters.items() if word is not None}
    make = canaried(rule, words, release)
    if shares is None:
        assert share is not None
        return run_change(app, VERB, f"canary {rule}", partial(make, share), release, agreed)
    if dry_run:
        return plan_change(app, VERB, partial(make, shares[0]), release)
    _ramp(app, Ramp(rule_id=rule, shares=shares, hold_s=hold_s, conditions=conditions), make, agreed)
    return Exit.OK


def _ramp(app: App, ramp: Ramp, make: Callable[[int, InForce], RuleSet], agreed: Agreed) -> None:
    release, stop = load_release(), StopFlag()
    asked = [agreed]

    def change(why: str, made: Make) -> Outcome:
        # Whoever agreed to the first step agreed to the ramp.
        now, asked[0] = asked[0], replace(agreed, yes=True, wait=True)
        return locked_change(app, VERB, why, made, release, now, stop)

    hands = Hands(
        change=change,
        open=lambda: open_fleet(app.topology(), app.home, release),
        clock=SystemClock(),
        stop=stop,
        progress=app.output,
    )
    with stop.armed():
        show_outcome(app, VERB, run_ramp(ramp, make, hands))
