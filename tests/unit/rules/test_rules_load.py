"""Rules files: what they mean, and that each mistake is reported with its line."""

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rlctl.errors import InvalidFile
from rlctl.limits.rule import Canary, Definition, RuleClass
from rlctl.rules.load import load_rules
from rlctl.rules.schema import rules_schema
from tests.unit.rules.documents import EVERY, EXAMPLE

TIERS = {"free": "5s", "paid": "10s", "gold": "25s"}


def load(text: str) -> tuple[Definition, ...]:
    return load_rules(text.encode(), "rules.yaml").definitions


def rule(*lines: str) -> str:
    """A file with one valid rule and these lines, which start at line 5."""
    given_keys = {line.partition(":")[0] for line in lines}
    rest = {"algorithm": "fixed_window", "limit": "3", "window": "60s", "key": '"{user}"'}
    own = [f"    {key}: {value}" for key, value in rest.items() if key not in given_keys]
    return "\n".join(["version: 1", "rules:", "  - id: a", *own, *(f"    {line}" for line in lines)]) + "\n"


def test_the_example() -> None:
    assert load(EXAMPLE) == (
        Definition(
            id="api-per-key",
            algorithm="sliding_counter",
            parameters={"limit": 1000, "window_ms": 60_000},
            keys=("apikey:{api_key}",),
            tiers={"free": {"limit": 100}, "enterprise": {"limit": 10000}},
            canary=Canary(share=1000, parameters={"limit": 800}),
        ),
    )


def test_what_a_rule_does_not_say_has_its_default() -> None:
    [found] = load(rule())
    assert found.shadow is False
    assert (found.rule_class, found.on_failure, found.owner, found.pin) == (RuleClass.GENERAL, "open", None, None)
    assert (found.tiers, found.match, found.canary) == ({}, {}, None)


def test_every_algorithm_and_key() -> None:
    bucket, meter, fixed, counter, log, ring, jobs = load(EVERY)
    assert bucket.parameters == {"capacity": 10, "rate": 100, "period_ms": 60_000}
    assert bucket.owner == "payments"
    assert meter.parameters == {"burst": 5, "rate": 5, "period_ms": 1000}
    assert meter.match == {"endpoint": ("/a", "/b*")}
    assert fixed.keys == ("apikey:{api_key}", "ip:{ip}")
    assert (counter.shadow, counter.pin) == (True, "1.0.1")
    assert log.parameters == {"limit": 100, "window_ms": 60_000, "min_interval_ms": 10}
    assert ring.on_failure == "local:4"
    assert (jobs.rule_class, jobs.on_failure) == (RuleClass.SECURITY, "closed")
    assert bucket.on_failure == "open"


@pytest.mark.parametrize(
    ("lines", "parameters"),
    [
        (("algorithm: gcra", "limit: 9", "rate: 5/s", "window: 1s"), None),
        (("algorithm: token_bucket", "limit: 9", "rate: 90/1500ms"), {"capacity": 9, "rate": 90, "period_ms": 1500}),
        (
            ("algorithm: token_bucket", "limit: 9", "rate: 5", "period: 2m"),
            {"capacity": 9, "rate": 5, "period_ms": 120_000},
        ),
        (("limit: 0",), {"limit": 0, "window_ms": 60_000}),
    ],
)
def test_parameters(lines: tuple[str, ...], parameters: dict[str, int] | None) -> None:
    text = rule(*lines).replace("    window: 60s\n", "" if "algorithm" in lines[0] else "    window: 60s\n")
    if parameters is None:
        with pytest.raises(InvalidFile, match="gcra has no `window`"):
            load(text)
        return
    assert load(text)[0].parameters == parameters


@pytest.mark.parametrize(
    ("percent", "share"), [("10", 1000), ("0", 0), ("100", 10_000), ("0.01", 1), ("12.5", 1250), ("33.33", 3333)]
)
def test_percent(percent: str, share: int) -> None:
    [one] = load(rule(f"canary: {{percent: {percent}, limit: 9}}"))
    assert one.canary is not None
    assert one.canary.share == share


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("rules: []\n", "rules.yaml:1: `version` is missing", id="no version"),
        pytest.param("version: 2\nrules: []\n", "rules.yaml:1: version: 2 is not supported", id="another version"),
        pytest.param("version: 1\n", "rules.yaml:1: `rules` is missing", id="no rules"),
        pytest.param("version: 1\nrules: []\n", "rules.yaml:2: rules: add at least one rule", id="empty"),
        pytest.param("version: 1\nrules: {a: 1}\n", "rules.yaml:2: rules: must be a list", id="a mapping"),
        pytest.param("version: 1\nrules:\n  - gcra\n", "rules.yaml:3: a rule: must be a mapping", id="a word"),
        pytest.param(
            "version: 1\nruels: []\n", "rules.yaml:2: the key `ruels` is unknown; did you mean `rules`", id="top"
        ),
        pytest.param(rule("limits: 3"), "rules.yaml:8: the key `limits` is unknown; did you mean `limit`?", id="key"),
        pytest.param(rule() + "    id: b\n", "rules.yaml:8: `id` is given twice", id="duplicate key"),
        pytest.param(
            rule() + rule().partition("rules:\n")[2],
            "rules.yaml:8: rule `a` is given twice, first on line 3",
            id="duplicate id",
        ),
        pytest.param(rule("algorithm: leaky"), "`leaky` is not known; write one of token_bucket", id="algorithm"),
        pytest.param(rule("limit: -1"), "rules.yaml:7: limit: -1 is out of range", id="negative"),
        pytest.param(rule("limit: 1.5"), "limit: `1.5` is not a whole number", id="fraction"),
        pytest.param(rule('limit: "5"'), "limit: `5` is quoted text", id="quoted"),
        pytest.param(rule("limit: 1e3"), "limit: `1e3` is not a whole number", id="exponent"),
        pytest.param(rule("limit: 9007199254740993"), "is too large", id="too large"),
        pytest.param(rule("limit:"), "limit: has no value", id="null"),
        pytest.param(rule("limit: [1]"), "limit: must be one value", id="list"),
        pytest.param(rule("window: 60"), "window: `60` has no unit", id="no unit"),
        pytest.param(rule("window: 0s"), "window: `0s` is zero", id="zero window"),
        pytest.param(rule("lease: 5s"), "fixed_window has no `lease`; use limit, window", id="strange parameter"),
        pytest.param(rule("algorithm: gcra"), "gcra needs `rate`", id="missing parameter"),
        pytest.param(rule("algorithm: gcra", "rate: 5"), "rate: the time is missing", id="rate without time"),
        pytest.param(rule("algorithm: gcra", "rate: 0/s"), "a rate of 0", id="zero rate"),
        pytest.param(rule("algorithm: gcra", "rate: fast"), "`fast` is not a rate", id="no rate"),
        pytest.param(rule("algorithm: gcra", "burst: 3", "rate: 5/s"), "already set by `burst`", id="said twice"),
        pytest.param(rule("algorithm: gcra", "rate: 5/s", "period: 1s"), "already set by `rate`", id="period twice"),
        pytest.param(
            rule("algorithm: gcra", "limit: 99999999999999", "rate: 1/1h"), "too large to be exact", id="unsafe"
        ),
        pytest.param(rule("algorithm: rolling_ring", "limit: 2000000"), "at most 1000000", id="ring"),
        pytest.param(
            rule("algorithm: rolling_window", "min_interval: 2h"),
            "rules.yaml:3: rolling_window: min_interval is longer than window",
            id="interval",
        ),
        pytest.param(rule("key: api"), "`api` has no named place", id="no place"),
        pytest.param(rule('key: "u:{}"'), "`{}` is not a dimension", id="empty place"),
        pytest.param(rule('key: "u:{user"'), "has an unmatched brace", id="open brace"),
        pytest.param(rule('key: "u:{user}}"'), "has an unmatched brace", id="closing brace"),
        pytest.param(rule(f'key: "{"u" * 195}{{user}}"'), "text of at most 200 characters", id="long"),
        pytest.param(rule('key: "u:{User Name}"'), "`{User Name}` is not a dimension", id="place"),
        pytest.param(rule("key: []"), "key: add at least one template", id="no template"),
        pytest.param(rule('key: ["{a}", "{a}"]'), "the same template is listed twice", id="twice"),
        pytest.param(rule("tiers: {free: {}}"), "tiers.free: overrides nothing", id="empty tier"),
        pytest.param(rule("tiers: {free: 5}"), "tiers.free: must be a mapping", id="tier number"),
        pytest.param(rule("tiers: {free: {lease: 5s}}"), "the key `lease` is unknown", id="tier parameter"),
        pytest.param(rule('tiers: {"a b": {limit: 5}}'), "tiers: `a b` is not valid", id="tier name"),
        pytest.param(rule("tiers: {free: {limit: 999999999999999999}}"), "tiers.free.limit:", id="tier value"),
        pytest.param(rule("match: {endpoint: []}"), "match.endpoint: add at least one value", id="no condition"),
        pytest.param(rule("match: {End: /a}"), "match: `End` is not valid", id="condition name"),
        pytest.param(rule("on_failure: fail"), "on_failure: `fail` is not valid", id="failure"),
        pytest.param(
            rule("class: security", "on_failure: open"),
            "rules.yaml:9: on_failure: a rule of class security",
            id="class",
        ),
        pytest.param(rule("shadow: maybe"), "shadow: `maybe` is not a boolean", id="shadow"),
        pytest.param(rule("canary: {limit: 5}"), "`percent` is missing", id="no percent"),
        pytest.param(rule("canary: {percent: 10}"), "canary: overrides nothing", id="empty canary"),
        pytest.param(rule("canary: {percent: 101, limit: 5}"), "percent: more than 100", id="percent"),
        pytest.param(rule("canary: {percent: 0.001, limit: 5}"), "at most two decimals", id="decimals"),
        pytest.param(rule("script: latest"), "script: `latest` is not valid", id="pin"),
        pytest.param(rule('owner: "a\\u202eb"'), "owner: `a\\u202eb` is not valid", id="bidi owner"),
        pytest.param(rule("owner: a\u2066b"), "owner: `a\\u2066b` is not valid", id="bidi owner as it is"),
        pytest.param(rule('match: {endpoint: "/a\\u202e"}'), "match.endpoint: `/a\\u202e`", id="bidi condition"),
        pytest.param("version: 1\nrules: &x []\n", "the anchor", id="anchor"),
    ],
)
def test_mistakes(text: str, says: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        load(text)
    assert says in caught.value.message
    assert all(line.startswith("rules.yaml:") for line in caught.value.message.splitlines())


def test_a_template_of_two_hundred_characters_is_read() -> None:
    template = "u" * 194 + "{user}"
    assert load(rule(f'key: "{template}"'))[0].keys == (template,)


def test_five_thousand_rules_are_read() -> None:
    one = "  - {id: rule-%d, algorithm: fixed_window, limit: 3, window: 60s, key: '{user}', match: {endpoint: /a}}\n"
    assert len(load("version: 1\nrules:\n" + "".join(one % number for number in range(5000)))) == 5000


def test_wrong_numbers_name_their_tier_and_line() -> None:
    tiers = "\n      ".join(["tiers:", *(f"{name}: {{window: {window}}}" for name, window in TIERS.items())])
    text = rule("algorithm: rolling_window", "min_interval: 20s", tiers, "canary: {percent: 10, min_interval: 30s}")
    with pytest.raises(InvalidFile) as caught:
        load(text)
    wrong = "rolling_window: min_interval is longer than window"
    assert caught.value.message.splitlines() == [
        f"rules.yaml:10: tiers.free: {wrong}",
        f"rules.yaml:11: tiers.paid: {wrong}",
        f"rules.yaml:12: tiers.gold in the canary: {wrong}",
    ]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("min_interval: 2m", "tiers: {free: {limit: 9}}"), "rules.yaml:3: rolling_window: min_interval is longer"),
        (("canary: {percent: 10, min_interval: 2m}",), "rules.yaml:8: canary: rolling_window: min_interval is longer"),
    ],
)
def test_what_is_wrong_above_is_said_once(lines: tuple[str, ...], says: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        load(rule("algorithm: rolling_window", *lines))
    [told] = caught.value.message.splitlines()
    assert told.startswith(says)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(InvalidFile) as caught:
        load(rule("limit: -1", "window: 60", "shadow: maybe"))
    assert len(caught.value.message.splitlines()) == 3


@given(st.binary(max_size=200), st.text(max_size=60))
def test_any_bytes_are_rules_or_named_mistakes(junk: bytes, value: str) -> None:
    for text in (junk, EXAMPLE.encode() + junk, rule(f"owner: {value}").encode("utf-8", "surrogatepass")):
        try:
            load_rules(text, "rules.yaml")
        except InvalidFile as failure:
            told = failure.message
        else:
            continue
        assert told.startswith("rules.yaml:")


def test_the_schema_agrees() -> None:
    schema = rules_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    shares = ("10%", '"10"', "12.5", "12.55%", "100%", "0")
    canaries = [rule(f"canary: {{percent: {share}, limit: 5}}") for share in shares]
    for text in (EXAMPLE, EVERY, rule(), rule("limit: 0"), *canaries):
        load(text)
        jsonschema.validate(yaml.safe_load(text), schema)
    for text in (
        rule("limits: 3"),
        rule("key: api"),
        rule("window: 60"),
        rule("canary: {limit: 5}"),
        rule("canary: {percent: 101%, limit: 5}"),
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(yaml.safe_load(text), schema)
