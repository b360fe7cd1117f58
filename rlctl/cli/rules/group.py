"""rlctl rules: limits as data."""

from pathlib import Path

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.opened import opened
from rlctl.cli.rules.canary import canary
from rlctl.cli.rules.change import Agreed, changing, plan_change, run_change
from rlctl.cli.rules.output import show_explained, show_status
from rlctl.errors import Exit, NotFound, Unreachable
from rlctl.files.yaml import MAX_BYTES
from rlctl.limits.release import Release
from rlctl.limits.rule import RuleSet
from rlctl.rules.compile import compile_file
from rlctl.rules.edit import find_rule
from rlctl.rules.edits import promote_canary, replace_rules, roll_back, set_shadow
from rlctl.rules.explain import explain as explain_identity
from rlctl.rules.explain import unknown_tier
from rlctl.rules.in_force import read_rules_in_force, rules_status
from rlctl.rules.load import load_rules
from rlctl.scripts.release import load_release
from rlctl.system.files import read_given

DEFAULT_FILE = "rules.yaml"


@click.group()
def rules() -> None:
    """Change the limits of a fleet without touching its services: plan, apply, watch, take back.

    \b
    rlctl rules plan rules.yaml              what would change; exit 10 when there is something
    rlctl rules apply rules.yaml --yes       store a revision, put it in force, read it back
    rlctl rules canary api --percent 10 --limit 800
    rlctl rules rollback --yes               the revision before is in force again
    """


_file = click.argument("source", metavar="[FILE]", type=click.Path(path_type=Path), default=DEFAULT_FILE)


@rules.command()
@_file
@with_app
def plan(app: App, source: Path) -> int:
    """What FILE [rules.yaml] would change in the fleet, and what is unwise in it; exit 10 when there is a change.

    \b
    rlctl rules plan rules.yaml
    """
    release = load_release()
    return plan_change(app, "plan", replace_rules(_read(source, release)), release)


@rules.command()
@_file
@changing
@with_app
def apply(app: App, source: Path, yes: bool, confirm: str | None, dry_run: bool, wait: bool) -> int:
    """Put the rules of FILE [rules.yaml] in force: a new revision, read back from every node that holds it.

    Removing an enforced rule, or loosening one of class security, wants --confirm NAME; --yes does not cover it.

    \b
    rlctl rules apply rules.yaml --dry-run
    rlctl rules apply rules.yaml --yes
    """
    release = load_release()
    make, agreed = replace_rules(_read(source, release)), Agreed(yes=yes, confirm=confirm, dry_run=dry_run, wait=wait)
    return run_change(app, "apply", f"apply {source.name}", make, release, agreed)


rules.add_command(canary)


@rules.command()
@with_app
def status(app: App) -> int:
    """The revision in force, its rules, and what each node that holds it says; exit 10 where one lags.

    \b
    rlctl rules status -o json
    """
    with opened(app) as fleet:
        found = rules_status(fleet)
    if app.output.as_json:
        app.output.result(found.to_json())
    else:
        show_status(app, found)
    return Exit.CHANGES if found.lagging_nodes or found.in_force.trouble else Exit.OK


@rules.command()
@click.argument("rule")
@click.option("--off", is_flag=True, help="Enforce it again.")
@changing
@with_app
def shadow(app: App, rule: str, off: bool, yes: bool, confirm: str | None, dry_run: bool, wait: bool) -> int:
    """Let RULE only count, on keys of its own: it never denies, and services count what it would have denied.

    That ends its enforcement and wants --confirm NAME; --yes does not cover it.

    \b
    rlctl rules shadow api-per-key --confirm limiter
    rlctl rules shadow api-per-key --off --yes
    """
    release = load_release()
    why, make = f"shadow {rule}{' off' if off else ''}", set_shadow(rule, shadow=not off, release=release)
    return run_change(app, "shadow", why, make, release, Agreed(yes=yes, confirm=confirm, dry_run=dry_run, wait=wait))


@rules.command()
@click.argument("rule")
@changing
@with_app
def promote(app: App, rule: str, yes: bool, confirm: str | None, dry_run: bool, wait: bool) -> int:
    """Give everybody the parameters of RULE's canary, and enforce it where it was in shadow.

    \b
    rlctl rules promote api-per-key --yes
    """
    release = load_release()
    agreed = Agreed(yes=yes, confirm=confirm, dry_run=dry_run, wait=wait)
    return run_change(app, "promote", f"promote {rule}", promote_canary(rule, release), release, agreed)


@rules.command()
@click.argument("rule", required=False)
@click.option("--to", type=click.IntRange(min=1), help="A revision by its number [the one before].")
@changing
@with_app
def rollback(
    app: App, rule: str | None, to: int | None, yes: bool, confirm: str | None, dry_run: bool, wait: bool
) -> int:
    """Put the revision before in force again; with RULE, only that rule as it was before it changed.

    The steps of a ramp count as one change: rollback goes back to the revision before the ramp.

    Without RULE the pointer moves and nothing is stored. Where only numbers differ, counts stay: nobody gets a fresh
    quota, and nobody loses one. Another algorithm, window, key template, script state, or shadow is another key: that
    is announced before, as `rlctl rules plan` does.

    \b
    rlctl rules rollback --yes
    rlctl rules rollback --to 3
    rlctl rules rollback api-per-key
    """
    why, agreed = f"rollback {rule or ''}".strip(), Agreed(yes=yes, confirm=confirm, dry_run=dry_run, wait=wait)
    return run_change(app, "rollback", why, roll_back(rule, to), load_release(), agreed)


@rules.command()
@click.argument("rule")
@click.argument("identity")
@click.option(
    "--tier", help="The tier to ask for; one that the rule does not name gets the base limit, with a warning."
)
@click.option("--service", metavar="S", help="Of the keys of this service.")
@with_app
def explain(app: App, rule: str, identity: str, tier: str | None, service: str | None) -> None:
    """Say what RULE means for IDENTITY: values, key, slot, node, count; spends nothing.

    IDENTITY is one value, or names all it needs: user=ada,endpoint=/x.

    \b
    rlctl rules explain api-per-key ada --tier free
    rlctl rules explain api-per-key ada --service checkout
    """
    with opened(app) as fleet:
        now = read_rules_in_force(fleet)
        found = explain_identity(now, rule, identity, tier, service)
    if (warning := unknown_tier(find_rule(now.required().rules, rule), tier)) is not None:
        app.output.note(f"warning: {warning}")
    if app.output.as_json:
        app.output.result(found)
    else:
        show_explained(app, found)


def _read(path: Path, release: Release) -> RuleSet:
    """A rules file, compiled."""
    try:
        text = read_given(path, MAX_BYTES)
    except FileNotFoundError as failure:
        raise NotFound(f"{path}: no such file", hint="name a rules file; README.md shows one") from failure
    except OSError as failure:
        raise Unreachable(f"cannot read {path}: {failure.strerror}", hint="name a readable file") from failure
    return compile_file(load_rules(text, str(path)), release)
