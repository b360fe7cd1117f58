"""Rules as a plan reads them."""

import pytest

from rlctl.capacity.rules_file import parse_users, read_rules
from rlctl.errors import InvalidFile, NotFound, UsageFault
from tests.unit.capacity.asked import PARSER

TEXT = b"""\
version: 1
rules:
  - id: api-per-key
    algorithm: sliding_counter
    limit: 1000
    window: 60s
    key: "apikey:{api_key}"
    tiers: {free: {limit: 100}}
  - {id: log, algorithm: rolling_window, limit: 200, window: 1h, key: ["u:{user}", "ip:{ip}:{endpoint}"]}
  - {id: jobs, algorithm: concurrent, limit: 20, lease: 30s, key: "{user}"}
  - {id: bucket, algorithm: token_bucket, limit: 20, rate: 5/10s, key: "{user}"}
"""
USERS = {"api-per-key": 5, "log": 6, "jobs": 7, "bucket": 8}


def test_rules_become_questions() -> None:
    api, log, jobs, bucket = read_rules(TEXT, "rules.yaml", USERS, PARSER, {"server": "valkey-8.1"})
    assert [one.users for one in (api, log, jobs, bucket)] == [5, 6, 7, 8]
    assert [one.limit for one in (api, log, jobs, bucket)] == [1000, 200, 20, 20]
    assert (api.window_ms, jobs.window_ms) == (60_000, 30_000)
    assert (bucket.rate, bucket.period_ms) == (5, 10_000)
    assert api.server.value == "valkey-8.1"
    # rl:{apikey:................}:api-per-key:sliding_counter:1:60000
    assert api.key_length == len("rl:{}") + len("apikey:") + 16 + len(":api-per-key:sliding_counter:1:60000")
    assert log.key_length == len("rl:{}") + len("ip::") + 32 + len(":log:rolling_window:1:3600000")
    assert jobs.key_length == len("rl:{}") + 16 + len(":jobs:concurrent:1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"version: 1\nrules: {}", "rules.yaml:2: rules: must be a list"),
        (b"version: 1\nrules:\n  - {id: a, algorithm: gcra, key: '{user}'}", "rules.yaml:3: gcra needs `burst`"),
        (
            b"version: 1\nrules:\n  - {id: a, algorithm: fixed_window, limit: 0, window: 6s, key: '{user}'}",
            "rules.yaml:3: rule `a`: --limit",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: bytes, words: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        read_rules(text, "rules.yaml", {"a": 1}, PARSER, {})
    assert words in caught.value.message


def test_every_rule_needs_its_users_and_every_user_a_rule() -> None:
    with pytest.raises(UsageFault, match="--users is missing for rule log"):
        read_rules(TEXT, "rules.yaml", {"api-per-key": 1, "jobs": 1, "bucket": 1}, PARSER, {})
    with pytest.raises(NotFound, match="no rule other"):
        read_rules(TEXT, "rules.yaml", USERS | {"other": 1}, PARSER, {})


def test_users_are_told_by_rule() -> None:
    assert parse_users(("a=1", "b=c=20")) == {"a": 1, "b=c": 20}


@pytest.mark.parametrize("word", ["a", "=1", "a=", "a=0", "a=-1", "a=x", "a=1.5", "a=99999999999999"])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(UsageFault, match="is not RULE=N"):
        parse_users((word,))
