"""Output of `rlctl rules`: plans, outcomes, status and explanations."""

from collections.abc import Mapping

from rlctl.cli.app import ENFORCEMENT, App
from rlctl.limits.rule import Rule, percent
from rlctl.rules.change import ChangeResult, RulesPlan
from rlctl.rules.enforcement import shown_values
from rlctl.rules.in_force import RulesStatus

_SHOWN_HISTORY = 5


def show_plan(app: App, verb: str, found: RulesPlan) -> None:
    """Show the changes, the warnings, and each enforcement that the plan ends or loosens."""
    if app.output.as_json:
        app.output.result(found.to_json(verb))
        return
    before = f"revision {found.before.number}" if found.before is not None else "no rules"
    lines = [change.describe() for change in found.changes]
    app.output.text("\n".join(lines) or f"no change to {before}")
    for warning in found.warnings:
        app.output.line(f"warning {warning.rule}: {warning.text}")
    for ending in found.ends:
        app.output.text(f"{ENFORCEMENT.label}: {ending.text}")


def show_outcome(app: App, verb: str, outcome: ChangeResult) -> None:
    """Show the revision that is now in force, and the nodes that did not confirm it."""
    if app.output.as_json:
        app.output.result(outcome.to_json(verb))
        return
    number = outcome.revision.number if outcome.revision is not None else None
    if not outcome.changed:
        app.output.text(f"no change: revision {number} is in force")
        return
    before = outcome.before
    since = f"before: {before}" if before is not None else "the first"
    silent = [node for node in outcome.nodes if node.evidence]
    read = len(outcome.nodes) - len(silent)
    app.output.text(f"revision {number} is in force ({since}); read back from {read} nodes")
    for node in silent:
        app.output.line(f"down {node.name}: {node.evidence}")


def show_status(app: App, found: RulesStatus) -> None:
    """Show the rules, the nodes that store them, and the last changes."""
    revision, trouble = found.in_force.revision, found.in_force.trouble
    if trouble is not None:
        app.output.line(f"down {trouble.message}")
    elif revision is None:
        app.output.text("no rules are in force")
        return
    else:
        title = f"revision {revision.number} by {revision.by} at {revision.at[:19]}: {revision.why}"
        rows = [_row(rule) for rule in revision.rules.rules]
        app.output.table(["RULE", "ALGORITHM", "VALUES", "KEY", "TIERS", "CANARY", "ON FAILURE"], rows, title=title)
    for node in found.nodes:
        says = node.evidence or (f"revision {node.version.revision}" if node.version else "no rules")
        app.output.line(f"{'down' if node.evidence else 'ok'} {node.name} ({node.role}): {says}")
    for entry in found.entries[:_SHOWN_HISTORY]:
        at, by = str(entry.get("at"))[:19], entry.get("by")
        app.output.text(f"{at} {by}: {entry.get('before') or 'none'} -> {entry.get('revision')} {entry.get('why')}")


def show_explained(app: App, found: Mapping[str, object]) -> None:
    rows = [[name, _shown(value)] for name, value in found.items() if name != "schema"]
    app.output.table(["FACT", "VALUE"], rows)


def _row(rule: Rule) -> list[str]:
    definition = rule.definition
    canary = definition.canary
    shown = f"{percent(canary.share)} %: {shown_values(canary.parameters)}" if canary is not None else "-"
    return [
        rule.id + (" (shadow)" if definition.shadow else ""),
        f"{definition.algorithm} {rule.script.version}",
        shown_values(definition.parameters),
        ", ".join(definition.keys),
        "; ".join(f"{tier}: {shown_values(values)}" for tier, values in definition.tiers.items()) or "-",
        shown,
        definition.on_failure,
    ]


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)
