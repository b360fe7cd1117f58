"""What a plan says about the runtime user, compared word by word."""

import pytest

from rlctl.scripts.release import load_release
from rlctl.scripts.rights import GRANTABLE, rights_change, rule_in

FILE = "user default reset off\nuser limiter reset on #abc ~rl:* &rlctl:* -@all +get +set (-@all +get %R~rlctl:*)\n"


@pytest.mark.parametrize(
    ("before", "after", "gained", "lost", "text"),
    [
        ("-@all +get ~rl:*", "+get ~rl:*", (), (), ""),
        ("+get", "+get +set +hset", ("+hset", "+set"), (), "user limiter gains +hset +set"),
        ("+get +set", "+set", (), ("+get",), "user limiter loses +get"),
        ("+get ~rl:*", "+all ~*", ("+all", "~*"), ("+get", "~rl:*"), "user limiter gains +all ~* and loses +get ~rl:*"),
        ("", "&x %R~y", ("%R~y", "&x"), (), "user limiter gains %R~y &x"),
    ],
)
def test_what_changes(before: str, after: str, gained: tuple[str, ...], lost: tuple[str, ...], text: str) -> None:
    change = rights_change("limiter", before, after)
    assert (change.gained, change.lost, change.describe()) == (gained, lost, text)
    assert change.to_json() == {"user": "limiter", "gained": list(gained), "lost": list(lost)}


def test_the_rule_of_a_user_stands_before_its_selectors() -> None:
    assert rights_change("limiter", "", rule_in(FILE, "limiter")).gained == ("&rlctl:*", "+get", "+set", "~rl:*")
    assert rule_in(FILE, "monitor") == ""


def test_the_shipped_scripts_call_what_may_be_granted() -> None:
    assert set(load_release().commands) <= GRANTABLE


def test_nothing_that_may_be_granted_leads_beyond_one_key() -> None:
    beyond = {"keys", "scan", "eval", "evalsha", "script", "config", "acl", "flushall", "del", "rename", "copy", "sort"}
    assert GRANTABLE.isdisjoint(beyond)
    assert all(command.isalpha() and command.islower() for command in GRANTABLE)
