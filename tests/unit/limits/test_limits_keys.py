import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.limiter import FixedWindow, Gcra, InvalidLimit, fill, key
from rlctl.limits.keys import encode, tag_of
from rlctl.services import NAME, key_prefix, split_key

LONG = "x" * 129


def hashed(value: str) -> str:
    return "%~" + hashlib.sha1(value.encode(), usedforsecurity=False).hexdigest()


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
        (LONG, hashed(LONG)),
        (":" * 43, hashed(":" * 43)),
        ("ä" * 65, hashed("ä" * 65)),
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


@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=129))
def test_a_long_identity_shares_no_key_with_one_that_is_spelled_like_its_hash(long: str) -> None:
    digest = hashed(long)
    assert {encode(text) for text in (digest, digest[2:], encode(long))} & {encode(long)} == set()


def test_lone_surrogates_name_somebody_too() -> None:
    assert tag_of("\udcff") == b"\xed\xb3\xbf"


def test_the_key_says_rule_algorithm_state_and_window() -> None:
    assert key("u:1", rule_id="api", algorithm=FixedWindow(5, 1000), state=1) == "rl:{u%3A1}:api:fixed_window:1:1000"
    assert key("u", rule_id="a:b", algorithm=Gcra(5, 1, 1000), state=2) == "rl:{u}:a%3Ab:gcra:2"


def test_the_key_of_a_service_begins_with_its_name() -> None:
    limit = FixedWindow(5, 1000)
    named = key("u:1", rule_id="api", algorithm=limit, state=1, service="checkout")
    assert named == "rl:checkout:{u%3A1}:api:fixed_window:1:1000"
    assert split_key(named) == ("checkout", "u%3A1}:api:fixed_window:1:1000")
    assert split_key(key("u", rule_id="api", algorithm=limit, state=1)) == (None, "u}:api:fixed_window:1:1000")


@given(st.text(min_size=1), st.text(min_size=1), st.none() | st.from_regex(NAME, fullmatch=True))
def test_no_key_reads_as_one_of_another_service(identity: str, rule: str, service: str | None) -> None:
    named = key(identity, rule_id=rule, algorithm=FixedWindow(5, 1000), state=1, service=service)
    parts = split_key(named)
    assert parts is not None
    assert parts[0] == service
    assert named.startswith(key_prefix(service))
    assert key_hash_tag(named) == tag_of(identity)


def key_hash_tag(name: str) -> bytes:
    """As Redis finds it: between the first opening brace and the first closing one after it."""
    return name.partition("{")[2].partition("}")[0].encode("utf-8", "surrogatepass")


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
