"""The edit that each command makes to the rules in force, as a function for `change_rules`."""

from collections.abc import Callable, Mapping

from rlctl.errors import NotFound, Refused
from rlctl.limits.release import Release
from rlctl.limits.rule import Revision, RuleSet
from rlctl.rules import edit
from rlctl.rules.change import RulesEdit
from rlctl.rules.in_force import RulesInForce
from rlctl.rules.store import stored_revision


def replace_rules(wanted: RuleSet | Revision) -> RulesEdit:
    """Replace all rules in force with `wanted`."""

    def make(_now: RulesInForce) -> RuleSet | Revision:
        return wanted

    return make


def set_shadow(rule_id: str, *, shadow: bool, release: Release) -> RulesEdit:
    """Put the rule in shadow, or enforce it again."""
    return lambda now: edit.with_shadow(now.required().rules, rule_id, shadow=shadow, release=release)


def promote_canary(rule_id: str, release: Release) -> RulesEdit:
    """Give all identities the parameters of the rule's canary."""
    return lambda now: edit.with_promotion(now.required().rules, rule_id, release)


def set_canary(rule_id: str, words: Mapping[str, str], release: Release) -> Callable[[int, RulesInForce], RuleSet]:
    """Return a function that sets a canary with the parameters in `words`.

    The function takes the canary's share, in parts of 10,000, and the rules in force.
    """

    def make(share: int, now: RulesInForce) -> RuleSet:
        rules = now.required().rules
        parameters = edit.overrides(edit.find_rule(rules, rule_id).definition.algorithm, words)
        return edit.with_canary(rules, rule_id, share, parameters, release)

    return make


def roll_back(rule_id: str | None, to: int | None) -> RulesEdit:
    """Go back to the previous revision, or to revision `to`; with `rule_id`, only this rule changes.

    With `rule_id` and without `to`, rlctl undoes the last change of the rule.
    """

    def make(now: RulesInForce) -> RuleSet | Revision:
        before = _earlier(now, to, rule_id)
        return before if rule_id is None else _alone(now.required().rules, before, rule_id)

    return make


def _earlier(now: RulesInForce, to: int | None, rule_id: str | None) -> Revision:
    if to is not None and now.pointer is not None:
        return stored_revision(now.link, to)
    revision = now.required()
    while revision.back_to is not None:
        before = stored_revision(now.link, revision.back_to)
        if rule_id is None or before.rules.rule(rule_id) != now.required().rules.rule(rule_id):
            return before
        revision = before
    what = f"rule {rule_id} never changed" if rule_id else f"revision {revision.number} is the first"
    raise NotFound(f"no earlier revision to go back to: {what}", hint="`rlctl rules status` shows the history")


def _alone(rules: RuleSet, before: Revision, rule_id: str) -> RuleSet | Revision:
    if rules.rule(rule_id) is None and before.rules.rule(rule_id) is None:
        raise NotFound(
            f"rule {rule_id} is neither in force nor in revision {before.number}",
            hint="`rlctl rules status` shows the rules in force",
        )
    alone = edit.with_rule_of(rules, before.rules, rule_id)
    if not alone.rules:
        raise Refused(
            f"rule {rule_id} is the only rule and revision {before.number} does not have it: no rule would be left",
            hint=f"go back to all rules of that revision with `rlctl rules rollback --to {before.number}`",
        )
    # If the result equals the earlier revision, only the pointer has to move.
    return before if alone.digest == before.rules.digest else alone
