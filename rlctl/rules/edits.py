"""What each verb makes of the rules in force: plain values in, the change out. The CLI only names them."""

from collections.abc import Callable, Mapping

from rlctl.errors import NotFound, Refused
from rlctl.limits.release import Release
from rlctl.limits.rule import Revision, RuleSet
from rlctl.rules import edit
from rlctl.rules.change import RulesEdit
from rlctl.rules.in_force import RulesInForce
from rlctl.rules.store import stored_revision


def replace_rules(wanted: RuleSet | Revision) -> RulesEdit:
    """Replace the rules by `wanted`, whatever is in force."""

    def make(_now: RulesInForce) -> RuleSet | Revision:
        return wanted

    return make


def set_shadow(rule_id: str, *, shadow: bool, release: Release) -> RulesEdit:
    """The rule only counts, or is enforced again."""
    return lambda now: edit.with_shadow(now.required().rules, rule_id, shadow=shadow, release=release)


def promote_canary(rule_id: str, release: Release) -> RulesEdit:
    """The canary's parameters for everybody."""
    return lambda now: edit.with_promotion(now.required().rules, rule_id, release)


def set_canary(rule_id: str, words: Mapping[str, str], release: Release) -> Callable[[int, RulesInForce], RuleSet]:
    """A canary with these parameters as they were typed, for a share that is still to be named."""

    def make(share: int, now: RulesInForce) -> RuleSet:
        rules = now.required().rules
        parameters = edit.overrides(edit.find_rule(rules, rule_id).definition.algorithm, words)
        return edit.with_canary(rules, rule_id, share, parameters, release)

    return make


def roll_back(rule_id: str | None, to: int | None) -> RulesEdit:
    """The revision before, or one by number; with a rule only that rule, as it was there or before it changed."""

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
    what = f"rule {rule_id} was never different" if rule_id else f"revision {revision.number} was the first"
    raise NotFound(f"{what}: there is nothing to go back to", hint="`rlctl rules status` shows the history")


def _alone(rules: RuleSet, before: Revision, rule_id: str) -> RuleSet | Revision:
    if rules.rule(rule_id) is None and before.rules.rule(rule_id) is None:
        raise NotFound(
            f"there is no rule {rule_id}, neither in force nor in revision {before.number}",
            hint="`rlctl rules status` shows those in force",
        )
    alone = edit.with_rule_of(rules, before.rules, rule_id)
    if not alone.rules:
        raise Refused(
            f"rule {rule_id} is the only one, and revision {before.number} has none of that name: none would be left",
            hint=f"`rlctl rules rollback --to {before.number}` goes back to all rules of that revision",
        )
    # Where nothing else differs, the pointer can go back by itself.
    return before if alone.digest == before.rules.digest else alone
