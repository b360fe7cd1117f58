"""Answers: parts that add up, cliffs, and what must grow when something grows."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rlctl.capacity.layout.encodings import encodings_of, known_states, state_of
from rlctl.capacity.layout.shapes import Text
from rlctl.capacity.predict import layout_of
from rlctl.capacity.request import Algorithm
from tests.unit.capacity.asked import STATES, answer, ask, codes

SERVERS = ("redis-7.0", "redis-8.0", "valkey-8.1")
ALLOCATORS = ("debian", "upstream")
ENCODED = [(algorithm.value, encoding) for algorithm in Algorithm for encoding in encodings_of(algorithm)]


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Any request of moderate size."""
    algorithm, encoding = draw(st.sampled_from(ENCODED))
    has_slots = draw(st.booleans())
    slots = {"cluster": True, "slots": draw(st.integers(1, 16_384))} if has_slots else {}
    return {
        "algorithm": algorithm,
        "encoding": encoding,
        "limit": draw(st.integers(1, 3_000)),
        "users": draw(st.integers(1, 3_000_000)),
        "key_length": draw(st.integers(1, 1_000)),
        "member": draw(st.sampled_from(["ms", "us", "seq", "relative", "float", "text:8", "text:36", "text:65"])),
        "score": draw(st.sampled_from(["ms", "us", "relative", "float"])),
        "no_ttl": draw(st.booleans()),
        "server": draw(st.sampled_from(SERVERS)),
        "allocator": draw(st.sampled_from(ALLOCATORS)),
        "policy": draw(st.sampled_from(["noeviction", "allkeys-lru", "volatile-ttl"])),
        **slots,
    }


@given(requests())
def test_parts_add_up_and_none_is_negative(given_: dict[str, Any]) -> None:
    document: Any = answer(**given_).to_json()
    assert all(value >= 0 for value in document["parts"].values())
    assert sum(document["parts"].values()) == pytest.approx(document["bytes_per_user"])
    assert document["total_bytes"] == pytest.approx(document["bytes_per_user"] * given_["users"], abs=1)
    assert document["ratio"] == pytest.approx(document["bytes_per_user"] / document["model_bytes_per_user"])


@given(requests(), st.integers(1, 500))
def test_a_higher_limit_is_never_smaller(given_: dict[str, Any], more: int) -> None:
    larger = given_ | {"limit": given_["limit"] + more}
    assert answer(**larger).bytes_per_user >= answer(**given_).bytes_per_user - 1e-9


@given(requests(), st.integers(1, 100))
def test_a_longer_key_is_never_smaller(given_: dict[str, Any], more: int) -> None:
    assume(given_["key_length"] + more <= 1024)
    larger = given_ | {"key_length": given_["key_length"] + more}
    assert answer(**larger).bytes_per_user >= answer(**given_).bytes_per_user - 1e-9


@given(requests(), st.integers(1, 2_000_000))
def test_more_users_never_take_less_together(given_: dict[str, Any], more: int) -> None:
    larger = given_ | {"users": given_["users"] + more}
    # A mean over random slots is calculated in steps.
    assert answer(**larger).total_bytes >= answer(**given_).total_bytes * (1 - 1e-6) - 1


@pytest.mark.parametrize("slots", [{}, {"cluster": True, "slots": 1}])
def test_a_hash_of_a_hundred_users_is_a_whole_key_however_few_there_are(slots: dict[str, Any]) -> None:
    """The second hash, of the 101st user, took something off the first one's share of tables and slots."""
    many: dict[str, Any] = {"algorithm": "gcra", "encoding": "hash-100", "server": "redis-8.0", **slots}
    totals = [answer(**many, users=users).total_bytes for users in range(1, 301)]
    assert totals == sorted(totals)
    assert answer(**many, users=1).parts.key == answer(**many, users=100).parts.key * 100


def test_every_script_of_the_release_has_a_formula() -> None:
    assert set(STATES.items()) <= known_states()
    assert {algorithm.value for algorithm in Algorithm} == set(STATES)


def test_the_keys_of_the_answer() -> None:
    assert list(answer(algorithm="gcra").to_json()) == [
        *("schema", "server", "allocator", "algorithm", "encoding", "limit", "key_length", "model_bytes_per_user"),
        *("bytes_per_user", "ratio", "parts", "users", "total_bytes", "warnings"),
    ]


@pytest.mark.parametrize(
    ("given_", "code"),
    [
        pytest.param({"algorithm": "rolling_window", "limit": 116}, "listpack-cap-near", id="zset near"),
        pytest.param({"algorithm": "rolling_window", "limit": 128}, "listpack-cap-near", id="zset at the cap"),
        pytest.param({"algorithm": "rolling_window", "limit": 129}, "listpack-cap-passed", id="zset past"),
        pytest.param(
            {"algorithm": "rolling_window", "limit": 500, "zset_max_listpack_entries": 512},
            "listpack-cap-near",
            id="another cap",
        ),
        pytest.param({"algorithm": "concurrent", "member": "text:65"}, "member-too-long", id="long member"),
        pytest.param(
            {"algorithm": "concurrent", "encoding": "hash", "limit": 513, "member": "text:8"}, "not-measured", id="hash"
        ),
        pytest.param(
            {"algorithm": "concurrent", "encoding": "hash", "limit": 500, "member": "text:8"},
            "listpack-cap-near",
            id="hash near",
        ),
        pytest.param(
            {"algorithm": "fixed_window", "encoding": "string", "policy": "allkeys-lru"}, "no-shared-integers", id="lru"
        ),
        pytest.param({"algorithm": "gcra", "users": 1_000_000}, "table-doubling-near", id="tables"),
        pytest.param(
            {"algorithm": "gcra", "users": 57_000, "server": "valkey-8.1"}, "table-doubling-near", id="valkey tables"
        ),
        pytest.param({"algorithm": "gcra", "users": 50_000, "cluster": True}, "slots-dominate", id="slots"),
        pytest.param({"algorithm": "gcra", "key_length": 45}, "size-class-edge", id="name fills its class"),
        pytest.param({"algorithm": "gcra", "key_length": 31, "allocator": "upstream"}, "size-class-edge", id="name"),
    ],
)
def test_cliffs_that_are_near(given_: dict[str, Any], code: str) -> None:
    assert code in codes(answer(**given_))


@pytest.mark.parametrize(
    "given_",
    [
        pytest.param({"algorithm": "rolling_window", "limit": 100, "users": 700_000}, id="log far from the cap"),
        pytest.param({"algorithm": "gcra", "users": 700_000, "cluster": True}, id="many users on the slots"),
        pytest.param(
            {"algorithm": "fixed_window", "encoding": "string", "policy": "volatile-ttl", "users": 700_000}, id="ttl"
        ),
        pytest.param(
            {
                "algorithm": "fixed_window",
                "encoding": "string",
                "policy": "allkeys-lru",
                "server": "valkey-8.1",
                "users": 700_000,
            },
            id="valkey shares none anyway",
        ),
    ],
)
def test_no_cliff_is_near(given_: dict[str, Any]) -> None:
    assert codes(answer(**given_)) <= {"size-class-edge"}


@pytest.mark.parametrize(
    ("limit", "ends_up_as"), [(922_337, "Number"), (922_338, "Text"), (1, "Number"), (10_000_000, "Text")]
)
def test_a_fixed_window_is_an_integer_while_it_fits_64_bits(limit: int, ends_up_as: str) -> None:
    [shape] = state_of(ask(algorithm="fixed_window", limit=limit), STATES).shapes
    assert type(shape).__name__ == ends_up_as


def test_the_paper_is_wrong_by_an_order() -> None:
    assert answer(algorithm="fixed_window", key_length=20).ratio > 6
    assert answer(algorithm="rolling_window", limit=129, key_length=20).ratio > 10
    assert answer(algorithm="rolling_ring", limit=1000, key_length=20).ratio < 0.6


@pytest.mark.parametrize(
    ("key_length", "says"),
    [
        (43, []),
        (44, ["the name of the key fills its size class: one more byte takes 8 bytes"]),
        (45, ["the name of the key just exceeds a size class: up to 2 bytes less would save 8 bytes"]),
        (46, ["the name of the key just exceeds a size class: up to 2 bytes less would save 8 bytes"]),
        (47, []),
    ],
)
def test_a_name_near_the_edge_of_its_size_class(key_length: int, says: list[str]) -> None:
    found = answer(algorithm="gcra", key_length=key_length, users=700_000).warnings
    assert [warn.message for warn in found] == says


def test_a_listpack_takes_members_and_entries_up_to_its_caps() -> None:
    assert "member-too-long" not in codes(answer(algorithm="concurrent", member="text:64"))
    assert "listpack-cap-near" not in codes(answer(algorithm="rolling_window", limit=115))


@pytest.mark.parametrize(
    ("text", "value_bytes"),
    [
        pytest.param(Text(length=30), 64, id="in its object"),
        pytest.param(Text(length=30, written_into=True), 48, id="written into"),
        pytest.param(Text(length=44), 64, id="the longest in its object"),
        pytest.param(Text(length=45), 80, id="too long"),
    ],
)
def test_a_short_text_stands_in_its_object(text: Text, value_bytes: int) -> None:
    assert layout_of(ask(algorithm="gcra", allocator="debian")).value(text) == value_bytes
