"""What is refused, in which words, and what is taken."""

import json
from typing import Any

import pytest

from rlctl.capacity.batch import answer_lines, read_mix
from rlctl.capacity.parse_request import RequestParser
from rlctl.capacity.predict import Prediction
from rlctl.errors import InvalidFile, RlctlError, UsageFault
from tests.unit.capacity.asked import PARSER, ask


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({}, "--algorithm is missing"),
        ({"algorithm": "leaky"}, "token_bucket, gcra, fixed_window"),
        ({"algorithm": "gcra", "users": 0}, "1 to 1000000000000"),
        ({"algorithm": "gcra", "users": -1}, "1 to 1000000000000"),
        ({"algorithm": "gcra", "users": 10**30}, "1 to 1000000000000"),
        ({"algorithm": "gcra", "users": "many"}, "1 to 1000000000000"),
        ({"algorithm": "gcra", "users": 1.5}, "1 to 1000000000000"),
        ({"algorithm": "gcra", "users": True}, "1 to 1000000000000"),
        ({"algorithm": "gcra", "users": None}, "1 to 1000000000000"),
        ({"algorithm": "gcra", "users": float("nan")}, "1 to 1000000000000"),
        ({"algorithm": "gcra", "key_length": 1025}, "1 to 1024"),
        ({"algorithm": "gcra", "encoding": "zset"}, "is not an encoding of gcra"),
        ({"algorithm": "gcra", "encoding": 7}, "is not text"),
        ({"algorithm": "gcra", "server": "redis-7.2"}, "redis-7.0, redis-8.0, valkey-8.1"),
        ({"algorithm": "gcra", "allocator": "libc"}, "debian, upstream"),
        ({"algorithm": "gcra", "policy": "lru"}, "noeviction"),
        ({"algorithm": "gcra", "no_ttl": 1}, "neither true nor false"),
        ({"algorithm": "gcra", "period": "10"}, "has no unit"),
        ({"algorithm": "gcra", "window": 60}, "is not text"),
        ({"algorithm": "gcra", "slots": 5}, "--slots needs --cluster"),
        ({"algorithm": "gcra", "cluster": True, "slots": 16_385}, "1 to 16384"),
        ({"algorithm": "gcra", "member": "uuid"}, "text:N"),
        ({"algorithm": "gcra", "score": "seq"}, "ms, us, relative, float"),
        ({"algorithm": "gcra", "keylength": 3}, "unknown option"),
        ({"algorithm": "rolling_ring", "limit": 1_000_001}, "limit must be at most 1000000"),
        ({"algorithm": "rolling_window", "encoding": "packed8", "limit": 100_000_000}, "over 512mb"),
        ({"algorithm": "token_bucket", "limit": 10**9, "period": "8760h", "rate": 1}, "too large to be exact"),
    ],
)
def test_what_is_refused(given_: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageFault) as caught:
        ask(**given_)
    assert words in f"{caught.value.message} {caught.value.hint}"


def test_a_state_without_a_formula_is_refused_and_never_guessed() -> None:
    newer = RequestParser(states={"gcra": 2})
    with pytest.raises(UsageFault, match="state format 2"):
        newer.parse({"algorithm": "gcra"})
    assert newer.parse({"algorithm": "gcra", "encoding": "int"}).encoding == "int"


def test_concurrent_has_defaults_of_its_own() -> None:
    request = ask(algorithm="concurrent")
    assert (request.limit, request.member.name) == (50, "text:36")
    assert ask(algorithm="gcra").limit == 100


def answers(*lines: str, **given_: object) -> list[dict[str, Any]]:
    return [line.to_json() for line in answer_lines("\n".join(lines), PARSER, given_)]


def test_a_batch_answers_in_order_and_past_mistakes() -> None:
    found = answers(
        '{"id": "a1", "algorithm": "gcra", "users": 50000, "key_length": 20, "no_ttl": true}',
        "",
        '{"id": 7, "algorithm": "gcra", "users": "x"}',
        "[1, 2]",
        "{",
        '{"id": null, "algorithm": "nope"}',
        '{"algorithm": "concurrent", "id": {"any": ["thing"]}}',
    )
    assert [one.get("id") for one in found] == ["a1", 7, None, None, None, {"any": ["thing"]}]
    assert ["error" in one for one in found] == [False, True, True, True, True, False]
    assert found[1]["error"].keys() == {"code", "message", "hint"}
    assert found[0]["parts"]["ttl"] == 0


def test_a_line_wins_over_the_command_line() -> None:
    [one, other] = answers(
        '{"algorithm": "gcra"}', '{"algorithm": "gcra", "server": "redis-7.0"}', server="valkey-8.1", key_length=20
    )
    assert (one["server"], other["server"]) == ("valkey-8.1", "redis-7.0")
    assert one["key_length"] == other["key_length"] == 20


def test_an_answer_without_an_id_has_none() -> None:
    assert "id" not in answers('{"algorithm": "gcra"}')[0]


def test_deeply_nested_json_is_a_mistake_and_no_crash() -> None:
    [one] = answers("[" * 100_000)
    assert one["error"]["code"] == "usage"


def test_a_thousand_lines_are_answered_one_for_one() -> None:
    lines = [json.dumps({"id": at, "algorithm": "rolling_window", "limit": 1 + at}) for at in range(1000)]
    assert [one["id"] for one in answers(*lines)] == list(range(1000))


def test_a_mix_is_refused_whole_with_its_line() -> None:
    text = '{"algorithm": "gcra", "users": 5}\n\n{"algorithm": "gcra", "users": -5}\n'
    with pytest.raises(InvalidFile, match=r"^mix\.jsonl:3: --users"):
        read_mix(text, "mix.jsonl", PARSER, {})
    with pytest.raises(InvalidFile, match=r"^mix\.jsonl:1: the file has no rules"):
        read_mix(" \n", "mix.jsonl", PARSER, {})


def test_every_answer_is_a_prediction_or_an_error() -> None:
    for line in answer_lines('{"algorithm": "gcra"}\n{}', PARSER, {}):
        assert isinstance(line.answer, Prediction | RlctlError)


def test_the_longest_string_of_a_server() -> None:
    """12 bytes, and 4 for each entry, are 512 MiB at most."""
    most = (512 * 2**20 - 12) // 4
    assert ask(algorithm="rolling_window", encoding="packed4", limit=most).limit == most
    with pytest.raises(UsageFault):
        ask(algorithm="rolling_window", encoding="packed4", limit=most + 1)
