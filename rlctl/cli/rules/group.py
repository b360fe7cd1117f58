"""rlctl rules: shows and changes the limits of a fleet."""

from pathlib import Path

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpGroup
from rlctl.cli.opened import opened
from rlctl.cli.rules.canary import canary
from rlctl.cli.rules.change import ChangeOptions, change_options, plan_change, run_change
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


@click.group(cls=HelpGroup)
def rules() -> None:
    """Change the fleet's limits without changing its services.

    Examples:
      rlctl rules plan rules.yaml
      rlctl rules apply rules.yaml --yes
      rlctl rules canary api --percent 10 --limit 800
      rlctl rules rollback --yes
    """


_file = click.argument("source", metavar="[FILE]", type=click.Path(path_type=Path), default=DEFAULT_FILE)


@rules.command()
@_file
@with_app
def plan(app: App, source: Path) -> int:
    """Show what a rules file would change, with warnings.

    FILE is the rules file [rules.yaml]. Exits with 10 if there are changes.

    Examples:
      rlctl rules plan rules.yaml
    """
    release = load_release()
    return plan_change(app, "plan", replace_rules(_read(source, release)), release)


@rules.command()
@_file
@change_options
@with_app
def apply(app: App, source: Path, yes: bool, confirm: str | None, dry_run: bool, wait: bool) -> int:
    """Put the rules of a file in force as a new revision.

    FILE is the rules file [rules.yaml]. rlctl reads the revision back from every node that stores it. To remove an
    enforced rule or to loosen a rule of class security, you need --confirm NAME; --yes is not enough.

    Examples:
      rlctl rules apply rules.yaml --dry-run
      rlctl rules apply rules.yaml --yes
    """
    release = load_release()
    make, options = (
        replace_rules(_read(source, release)),
        ChangeOptions(yes=yes, confirm=confirm, dry_run=dry_run, wait=wait),
    )
    return run_change(app, "apply", f"apply {source.name}", make, release, options)


rules.add_command(canary)


@rules.command()
@with_app
def status(app: App) -> int:
    """Show the revision in force, its rules and its nodes.

    Exits with 10 if a node that stores the rules has another revision.

    Examples:
      rlctl rules status
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
@click.option("--off", is_flag=True, help="Enforce the rule again.")
@change_options
@with_app
def shadow(app: App, rule: str, off: bool, yes: bool, confirm: str | None, dry_run: bool, wait: bool) -> int:
    """Make a rule count without denying.

    A rule in shadow counts on separate keys, and services count the requests that the rule would have denied. Shadow
    ends the rule's enforcement, so the command needs --confirm NAME; --yes is not enough.

    Examples:
      rlctl rules shadow api-per-key --confirm limiter
      rlctl rules shadow api-per-key --off --yes
    """
    release = load_release()
    why, make = f"shadow {rule}{' off' if off else ''}", set_shadow(rule, shadow=not off, release=release)
    return run_change(
        app, "shadow", why, make, release, ChangeOptions(yes=yes, confirm=confirm, dry_run=dry_run, wait=wait)
    )


@rules.command()
@click.argument("rule")
@change_options
@with_app
def promote(app: App, rule: str, yes: bool, confirm: str | None, dry_run: bool, wait: bool) -> int:
    """Apply the parameters of a rule's canary to all identities.

    A rule in shadow is enforced from then on.

    Examples:
      rlctl rules promote api-per-key --yes
    """
    release = load_release()
    options = ChangeOptions(yes=yes, confirm=confirm, dry_run=dry_run, wait=wait)
    return run_change(app, "promote", f"promote {rule}", promote_canary(rule, release), release, options)


@rules.command()
@click.argument("rule", required=False)
@click.option("--to", type=click.IntRange(min=1), help="Number of the revision [the one before].")
@change_options
@with_app
def rollback(
    app: App, rule: str | None, to: int | None, yes: bool, confirm: str | None, dry_run: bool, wait: bool
) -> int:
    """Put an earlier revision in force again.

    With RULE, only that rule returns to its state before its last change. The steps of a ramp count as one change:
    rollback returns to the revision before the ramp.

    If only numbers differ, rlctl keeps the counters: no identity gains or loses quota. If the algorithm, window, key
    template, script state or shadow of a rule differs, the rule counts on other keys, from zero. rlctl warns of this
    before it asks.

    Examples:
      rlctl rules rollback --yes
      rlctl rules rollback --to 3
      rlctl rules rollback api-per-key
    """
    why, options = f"rollback {rule or ''}".strip(), ChangeOptions(yes=yes, confirm=confirm, dry_run=dry_run, wait=wait)
    return run_change(app, "rollback", why, roll_back(rule, to), load_release(), options)


@rules.command()
@click.argument("rule")
@click.argument("identity")
@click.option("--tier", help="Tier of the identity. An unknown tier gets the base limit and a warning.")
@click.option("--service", metavar="S", help="Service whose keys to explain.")
@with_app
def explain(app: App, rule: str, identity: str, tier: str | None, service: str | None) -> None:
    """Show limit, key, slot, node and count of one identity.

    IDENTITY is the value that RULE counts by. If RULE counts by several values, write user=ada,endpoint=/x. The command
    is read-only and uses none of the identity's quota.

    Examples:
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
    """Read, check and compile a rules file."""
    try:
        text = read_given(path, MAX_BYTES)
    except FileNotFoundError as failure:
        raise NotFound(
            f"{path}: no such file", hint="give the path of a rules file; examples/rules.yaml is one"
        ) from failure
    except OSError as failure:
        raise Unreachable(f"cannot read {path}: {failure.strerror}", hint="give a file that you may read") from failure
    return compile_file(load_rules(text, str(path)), release)
