import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.limiter import FixedWindow, Gcra, InvalidLimit, fill, key
from rlctl.limiter.keys import encode, tag_of

LONG = "x" * 129


@pytest.mark.parametrize(
    ("value", "safe"),
    [
        ("user-1", "user-1"),
        ("a:b", "a%3Ab"),
        ("{x}", "%7Bx%7D"),
        ("50%", "50%25"),
        ("a\x00\n\x7f", "a%00%0A%7F"),
        ("\x85", "%C2%85"),
        ("käse", "käse"),
        ("x" * 128, "x" * 128),
        (LONG, hashlib.sha1(LONG.encode(), usedforsecurity=False).hexdigest()),
        (":" * 43, hashlib.sha1((":" * 43).encode(), usedforsecurity=False).hexdigest()),
        ("ä" * 65, hashlib.sha1(("ä" * 65).encode(), usedforsecurity=False).hexdigest()),
    ],
)
def test_encode(value: str, safe: str) -> None:
    assert encode(value) == safe


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_identities_never_share_a_key_nor_leave_their_tag(one: str, other: str) -> None:
    first, second = tag_of(one), tag_of(other)
    assert (first == second) is (one == other)
    assert not set(first) & set(b"{}:\n\r\x00")
    assert 0 < len(first) <= 128


def test_lone_surrogates_name_somebody_too() -> None:
    assert tag_of("\udcff") == b"\xed\xb3\xbf"


def test_the_key_says_rule_algorithm_state_and_window() -> None:
    assert key("u:1", rule_id="api", algorithm=FixedWindow(5, 1000), state=1) == "rl:{u%3A1}:api:fixed_window:1:1000"
    assert key("u", rule_id="a:b", algorithm=Gcra(5, 1, 1000), state=2) == "rl:{u}:a%3Ab:gcra:2"


def test_a_filled_template_goes_in_as_it_is() -> None:
    filled = fill("user:{user}:{path}", {"user": "a:b", "path": "/x"})
    assert tag_of(filled) == b"user:a%3Ab:/x"
    assert tag_of(str(filled)) == b"user%3Aa%253Ab%3A/x"


@pytest.mark.parametrize("template", ["plain", "{a", "{a}}", "{b}", "{a}{b}", "{}"])
def test_broken_templates(template: str) -> None:
    with pytest.raises(InvalidLimit):
        fill(template, {"a": "1"})


def test_nobody_is_no_identity() -> None:
    with pytest.raises(InvalidLimit):
        tag_of("")
