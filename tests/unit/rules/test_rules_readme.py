"""The rules file in README.md loads, and the commands shown with it work."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlctl.cli.rules.canary import canary
from rlctl.limiter.core.rulebook import PreparedRule
from rlctl.limits.rule import RuleSet
from rlctl.rules.advice import advise
from rlctl.rules.edit import overrides, with_canary, with_promotion, with_shadow
from rlctl.rules.explain import typed_dimensions
from tests.unit.rules.documents import RELEASE, rule_set

SECTION = (
    (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8").split("\n## Rules\n")[1].split("\n## ")[0]
)
ENDPOINT = "/login"


def block(language: str) -> str:
    [text] = re.findall(rf"```{language}\n(.*?)```", SECTION, flags=re.DOTALL)
    return str(text)


def lines(*verbs: str) -> list[list[str]]:
    """The words of the lines with these commands, without `rlctl rules`."""
    words = [shlex.split(line, comments=True)[1:] for line in block("console").splitlines()]
    return [found for line in words if (found := line[line[0] == "rules" :])[0] in verbs]


@pytest.fixture
def rules() -> RuleSet:
    return rule_set(block("yaml"))


def test_the_example_of_the_readme(rules: RuleSet) -> None:
    assert [rule.id for rule in rules.rules] == ["api-per-key", "logins", "jobs"]
    assert advise(rules) == ()


def test_each_line_changes_something(rules: RuleSet) -> None:
    before: list[RuleSet] = []
    for verb, *words in lines("canary", "promote", "shadow", "rollback"):
        after = before[-1] if verb == "rollback" else _changed(rules, verb, words)
        assert after.digest != rules.digest, [verb, *words]
        before.append(rules)
        rules = after
    assert len(before) == 5


def _changed(rules: RuleSet, verb: str, words: list[str]) -> RuleSet:
    rule_id = words[0]
    if verb == "promote":
        return with_promotion(rules, rule_id, RELEASE)
    if verb == "shadow":
        return with_shadow(rules, rule_id, shadow=True, release=RELEASE)
    typed = canary.make_context("canary", list(words)).params
    numbers = overrides("sliding_counter", {"limit": typed["limit"]} if typed["limit"] else {})
    return with_canary(rules, rule_id, typed["share"], numbers, RELEASE)


def test_who_is_asked_about_is_concerned(rules: RuleSet) -> None:
    asked = lines("explain", "limit")
    assert len(asked) == 3
    for _verb, rule_id, identity, *more in asked:
        rule = rules.rule(rule_id)
        assert rule is not None
        dimensions = typed_dimensions(rule, identity, more[1] if more else None)
        assert PreparedRule(rule).bind(dimensions, None) is not None


def test_the_lines_of_a_service_decide(rules: RuleSet) -> None:
    called = list(_calls())
    assert [verb for verb, _words in called] == ["decide", "decide_all", "hold"]
    for verb, words in called:
        who = dict.fromkeys(ast.literal_eval(ast.List([*words[-1].keys], ast.Load())), ENDPOINT)
        concerned = [rule.id for rule in rules.rules if PreparedRule(rule).bind(who, None) is not None]
        assert concerned == ["api-per-key", "logins"] if verb == "decide_all" else words[0].value in concerned


def _calls() -> Iterator[tuple[str, list[Any]]]:
    for node in ast.walk(ast.parse(block("python"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr != "connect":
            yield node.func.attr, list(node.args)
