"""The edit of each command, on revisions in memory."""

from dataclasses import replace
from typing import Any

import pytest

from rlctl.errors import NotFound, Refused
from rlctl.limits.rule import Revision, RuleSet, revision_key
from rlctl.rules.change import RulesEdit
from rlctl.rules.edits import promote_canary, replace_rules, roll_back, set_canary, set_shadow
from rlctl.rules.in_force import RulesInForce
from rlctl.rules.store import Pointer
from tests.unit.rules.documents import EVERY, EXAMPLE, RELEASE, revision, rule_set

ONE, BOTH = EXAMPLE, EXAMPLE + '  - {id: other, algorithm: fixed_window, limit: 3, window: 1h, key: "{user}"}\n'
LOST = Refused("revision 9 of the rules cannot be read")


class StoredRevisions:
    """The stored revisions of a fleet."""

    endpoint = "here.example:1"

    def __init__(self, *stored: Revision) -> None:
        self._texts = {revision_key(one.number): one.to_text() for one in stored}

    def call(self, verb: str, key: str) -> str | None:
        assert verb == "GET"
        return self._texts.get(key)


def in_force(*stored: Revision, trouble: Refused | None = None) -> RulesInForce:
    """The rules in force are the last revision; it can be read unless `trouble` is given."""
    unused: Any = None
    link: Any = StoredRevisions(*stored)
    now = stored[-1] if stored else None
    pointer = Pointer(version=now.version, last=now.number, held=("1", "")) if now is not None else None
    known = now if trouble is None else None
    return RulesInForce(fleet=unused, observed=unused, link=link, pointer=pointer, revision=known, trouble=trouble)


def ids(made: RuleSet | Revision) -> list[str]:
    rules = made.rules if isinstance(made, Revision) else made
    return [rule.id for rule in rules.rules]


def test_each_verb_makes_its_change() -> None:
    now = in_force(revision(EXAMPLE))
    wanted = rule_set(EVERY)
    assert replace_rules(wanted)(now) is wanted
    shadow = set_shadow("api-per-key", shadow=True, release=RELEASE)(now)
    assert isinstance(shadow, RuleSet)
    assert shadow.rules[0].definition.shadow
    all_of_it = promote_canary("api-per-key", RELEASE)(now)
    assert isinstance(all_of_it, RuleSet)
    assert all_of_it.rules[0].definition.parameters["limit"] == 800
    canary = set_canary("api-per-key", {"limit": "7"}, RELEASE)(5000, now).rules[0].definition.canary
    assert canary is not None
    assert (canary.share, canary.parameters) == (5000, {"limit": 7})


def test_rolling_back_goes_to_the_parent_or_to_a_number() -> None:
    stored = revision(ONE, 1), revision(BOTH, 2, 1), revision(EVERY, 3, 2)
    assert roll_back(None, None)(in_force(*stored)) == stored[1]
    assert roll_back(None, 1)(in_force(*stored)) == stored[0]
    assert roll_back(None, 1)(in_force(*stored, trouble=LOST)) == stored[0]
    for make in (roll_back(None, None), roll_back("api-per-key", 1)):
        with pytest.raises(Refused, match="cannot be read"):
            make(in_force(*stored, trouble=LOST))


def test_rolling_back_goes_to_what_was_before_a_ramp() -> None:
    stored = (
        revision(ONE, 1),
        revision(BOTH, 2, 1),
        revision(BOTH.replace("800", "700"), 3, 2),
        replace(revision(BOTH.replace("800", "600"), 4, 3), before_ramp=2),
    )
    assert roll_back(None, None)(in_force(*stored)) == stored[1]
    assert roll_back("api-per-key", None)(in_force(*stored)) == stored[1]
    assert ids(roll_back("other", None)(in_force(*stored))) == ["api-per-key"]
    # Rollback goes first to the ramp's last step, then to the revision before the ramp.
    promoted_after = revision(BOTH.replace("1000", "600"), 5, 4)
    assert roll_back(None, None)(in_force(*stored, promoted_after)) == stored[3]


def test_one_rule_goes_back_alone() -> None:
    stored = revision(ONE, 1), revision(BOTH, 2, 1)
    assert roll_back("other", None)(in_force(*stored)) == stored[0]
    assert ids(roll_back("other", 2)(in_force(stored[1], revision(EVERY, 3, 2)))) == [*ids(rule_set(EVERY)), "other"]


@pytest.mark.parametrize(
    ("make", "stored", "says"),
    [
        (roll_back(None, None), (), "no rules are in force"),
        (roll_back(None, 3), (), "no rules are in force"),
        (roll_back(None, 7), (revision(ONE, 1),), "has no revision 7"),
        (roll_back(None, None), (revision(ONE, 1),), "revision 1 is the first"),
        (roll_back("typo", None), (revision(ONE, 1), revision(BOTH, 2, 1)), "rule typo never changed"),
        (roll_back("typo", 1), (revision(ONE, 1), revision(BOTH, 2, 1)), "rule typo is neither in force nor in"),
    ],
)
def test_there_is_nothing_to_go_back_to(make: RulesEdit, stored: tuple[Revision, ...], says: str) -> None:
    with pytest.raises(NotFound, match=says) as caught:
        make(in_force(*stored))
    assert caught.value.hint


def test_the_only_rule_is_not_taken_away_by_its_name() -> None:
    with pytest.raises(Refused, match="no rule would be left") as caught:
        roll_back("api-per-key", None)(in_force(revision(EVERY, 1), revision(EXAMPLE, 2, 1)))
    assert "--to 1" in caught.value.hint
