"""Edits of one rule in a rule set: canary, shadow, promotion, and restoring an earlier rule. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from rlctl.errors import NotFound, UsageFault
from rlctl.files.yaml import Scalar
from rlctl.limits.release import Release
from rlctl.limits.rule import Canary, Definition, Rule, RuleSet
from rlctl.rules.compile import compile_rules
from rlctl.rules.load import numbers
from rlctl.rules.table import PARAMETERS, parameter_keys

_AS_IN_A_FILE = "write values as in a rules file, such as --limit 800 --window 60s"


def find_rule(rules: RuleSet, rule_id: str) -> Rule:
    """The rule with this id; NotFound lists the ids that exist."""
    rule = rules.rule(rule_id)
    if rule is None:
        raise NotFound(f"no rule {rule_id} is in force", hint=f"use one of {', '.join(one.id for one in rules.rules)}")
    return rule


def overrides(algorithm: str, words: Mapping[str, str]) -> dict[str, int]:
    """Parse parameters of a command line, given by keys of the rules file. UsageFault names a wrong option."""
    found: dict[str, int] = {}
    for key, word in words.items():
        option, own = f"--{key.replace('_', '-')}", parameter_keys(algorithm)
        if key not in own:
            raise UsageFault(f"{option}: {algorithm} has no {key}", hint=f"{algorithm} has {', '.join(own)}")
        kind = PARAMETERS[key].type
        try:
            value = kind.read(Scalar(line=0, text=word, is_plain=True))
        except ValueError as failure:
            raise UsageFault(f"{option}: {failure}", hint=_AS_IN_A_FILE) from failure
        if wrong := kind.refuse(value):
            raise UsageFault(f"{option}: {wrong}", hint=_AS_IN_A_FILE)
        found |= numbers(algorithm, key, value)
    return found


def with_canary(rules: RuleSet, rule_id: str, share: int, parameters: Mapping[str, int], release: Release) -> RuleSet:
    """The rule set with this canary. `share` is a part of 10,000; empty `parameters` keep the existing ones."""
    definition = find_rule(rules, rule_id).definition
    before = definition.canary.parameters if definition.canary is not None else {}
    wanted = dict(parameters) or dict(before)
    if not wanted:
        raise UsageFault(
            f"rule {rule_id} has no canary yet, so parameters are needed", hint="add parameters, such as --limit 800"
        )
    return _with(rules, replace(definition, canary=Canary(share=share, parameters=wanted)), release)


def with_shadow(rules: RuleSet, rule_id: str, *, shadow: bool, release: Release) -> RuleSet:
    """The rule set with the rule in shadow, or enforced again."""
    return _with(rules, replace(find_rule(rules, rule_id).definition, shadow=shadow), release)


def with_promotion(rules: RuleSet, rule_id: str, release: Release) -> RuleSet:
    """The rule set in which the rule is enforced, with the canary's parameters for all identities."""
    definition = find_rule(rules, rule_id).definition
    if definition.canary is None and not definition.shadow:
        raise NotFound(f"rule {rule_id} has no canary to promote", hint="start one with `rlctl rules canary`")
    parameters = definition.effective(None, in_canary=True)
    return _with(rules, replace(definition, parameters=parameters, canary=None, shadow=False), release)


def with_rule_of(rules: RuleSet, earlier: RuleSet, rule_id: str) -> RuleSet:
    """The rule set with one compiled rule restored from `earlier`, or removed if `earlier` does not have the rule."""
    before = earlier.rule(rule_id)
    kept = [rule if rule.id != rule_id else before for rule in rules.rules]
    if before is not None and rules.rule(rule_id) is None:
        kept.append(before)
    return replace(rules, rules=tuple(rule for rule in kept if rule is not None))


def _with(rules: RuleSet, definition: Definition, release: Release) -> RuleSet:
    """Replace a rule, but keep its script version.

    Another version may use other keys, so only a rules file may change the version.
    """
    [compiled] = compile_rules((definition,), release)
    changed = replace(compiled, script=find_rule(rules, definition.id).script)
    return replace(rules, rules=tuple(changed if rule.id == changed.id else rule for rule in rules.rules))
