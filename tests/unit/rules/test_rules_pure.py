"""Templates, conditions, buckets, compiled sets, differences, edits and advice."""

import hashlib
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.errors import InvalidFile, NotFound, UsageFault
from rlctl.limits.bucket import WHOLE, bucket, takes_part
from rlctl.limits.keys import encode, fill
from rlctl.limits.match import Template, concerns, first_fit, plain_dimension, read_dimensions
from rlctl.limits.rule import RuleSet, percent, read_revision
from rlctl.rules.advice import advise, fresh_quotas
from rlctl.rules.compile import compile_rules
from rlctl.rules.diff import changes
from rlctl.rules.edit import with_canary, with_promotion, with_rule_of, with_shadow
from tests.unit.rules.documents import EVERY, EXAMPLE, RELEASE, revision, rule_set

TEMPLATES = (Template("apikey:{api_key}"), Template("ip:{ip}:{endpoint}"))


def edited(before: str, after: str) -> RuleSet:
    assert before in EXAMPLE
    return rule_set(EXAMPLE.replace(before, after))


@pytest.mark.parametrize(
    ("dimensions", "identity"),
    [
        ({"api_key": "k", "ip": "1", "endpoint": "/"}, "apikey:k"),
        ({"ip": "::1", "endpoint": "/{x}"}, "ip:%3A%3A1:/%7Bx%7D"),
        ({"api_key": "", "ip": "1", "endpoint": "/"}, "ip:1:/"),
        ({"ip": "1"}, None),
        ({}, None),
    ],
)
def test_the_first_template_with_all_dimensions_wins(dimensions: dict[str, str], identity: str | None) -> None:
    template = first_fit(TEMPLATES, dimensions)
    assert (template and template.fill(dimensions, encode)) == identity


@given(
    st.lists(st.tuples(st.text(alphabet="ab:%", max_size=3), st.sampled_from(["user", "ip"])), min_size=1, max_size=4),
    st.text(alphabet="ab", max_size=3),
    st.text(min_size=1, max_size=140),
    st.text(min_size=1, max_size=3),
)
def test_templates_fill_as_the_limiter_does(parts: list[tuple[str, str]], tail: str, user: str, ip: str) -> None:
    text = "".join(f"{literal}{{{name}}}" for literal, name in parts) + tail
    values = {"user": user, "ip": ip}
    assert Template(text).fill(values, encode) == fill(text, values)


@pytest.mark.parametrize(
    ("conditions", "dimensions", "holds"),
    [
        ({}, {}, True),
        ({"tier": ("free", "paid")}, {"tier": "paid"}, True),
        ({"tier": ("free",)}, {"tier": "paid"}, False),
        ({"tier": ("free",)}, {}, False),
        ({"endpoint": ("/api/*",)}, {"endpoint": "/api/x"}, True),
        ({"endpoint": ("/api/*",)}, {"endpoint": "/app"}, False),
        ({"user": ("*",)}, {"user": ""}, False),
        ({"a": ("1",), "b": ("2",)}, {"a": "1", "b": "3"}, False),
    ],
)
def test_conditions(conditions: dict[str, tuple[str, ...]], dimensions: dict[str, str], *, holds: bool) -> None:
    assert concerns(conditions, dimensions) is holds


@pytest.mark.parametrize(
    ("text", "dimensions"),
    [
        ("k1", {"api_key": "k1"}),
        ("abc==", {"api_key": "abc=="}),
        ("user=ada", {"api_key": "user=ada"}),
        ("ip=::1,endpoint=/a,b", {"ip": "::1", "endpoint": "/a,b"}),
        ("ip=1,region=eu,endpoint=/a", {"ip": "1", "region": "eu", "endpoint": "/a"}),
        ("api_key=k1", {"api_key": "k1"}),
        ("ip=1+endpoint=/a", {"ip": "1+endpoint=/a"}),
        ("ip=1,endpoint=/a?region=eu", {"ip": "1", "endpoint": "/a?region=eu"}),
    ],
)
def test_identities_of_a_command_line(text: str, dimensions: dict[str, str]) -> None:
    assert read_dimensions(TEMPLATES, {"region": ("eu",)}, text) == dimensions


def test_an_identity_without_a_name_needs_a_template_of_one_dimension() -> None:
    assert plain_dimension(TEMPLATES[1:]) is None
    assert read_dimensions(TEMPLATES[1:], {}, "ada") == {}


def test_the_bucket_is_the_published_formula() -> None:
    digest = hashlib.sha1(b"api-per-key:ada", usedforsecurity=False).digest()
    assert bucket("api-per-key", "ada") == int.from_bytes(digest[:4], "big") % 10_000


@given(st.text(max_size=20), st.integers(0, 10_000), st.integers(0, 10_000))
def test_who_is_in_stays_in(identity: str, one: int, other: int) -> None:
    fewer, more = sorted((one, other))
    assert not takes_part("r", identity, 0)
    assert takes_part("r", identity, 10_000)
    assert takes_part("r", identity, more) or not takes_part("r", identity, fewer)


def test_a_share_ends_below_the_bucket_of_its_size() -> None:
    own = bucket("r", "ada")
    assert not takes_part("r", "ada", own)
    assert takes_part("r", "ada", own + 1)


def test_a_share_of_0_is_empty_and_the_whole_has_all() -> None:
    first = next(str(number) for number in range(10**6) if bucket("r", str(number)) == 0)
    last = next(str(number) for number in range(10**6) if bucket("r", str(number)) == WHOLE - 1)
    assert not takes_part("r", first, 0)
    assert takes_part("r", last, WHOLE)


def test_rules_draw_independently_and_in_proportion() -> None:
    people = [f"user-{number}" for number in range(20_000)]
    a, b = ({who for who in people if takes_part(rule, who, 1000)} for rule in ("a", "b"))
    assert 1850 < len(a) < 2150
    assert 140 < len(a & b) < 260


def test_arguments_are_in_lowest_terms_and_in_the_manifests_names() -> None:
    rules = rule_set(EVERY)
    bucket_rule, counter = rules.rules[0], rules.rules[3]
    assert bucket_rule.arguments[None, False] == {"capacity": 10, "rate": 1, "period_ms": 600}
    script = RELEASE.script("token_bucket")
    assert script is not None
    assert (bucket_rule.script.sha1, bucket_rule.script.args) == (script.sha1, script.args)
    assert counter.script.version == "1.0.1"


def test_a_version_that_the_release_loads_can_be_pinned_and_no_other() -> None:
    log = replace(rule_set(EVERY).rules[4].definition, pin="1.0.1")
    bounded = replace(RELEASE, known=tuple(replace(one, bounded=True) for one in RELEASE.known))
    [pinned] = compile_rules((log,), bounded)
    [newest] = compile_rules((replace(log, pin=None),), bounded)
    assert (pinned.script.version, newest.script.version) == ("1.0.1", "1.0.2")
    assert pinned.script.sha1 != newest.script.sha1
    with pytest.raises(NotFound, match=r"release 1.2.0 does not load rolling_window 1.0.1; use one of 1.0.2"):
        compile_rules((log,), RELEASE)
    with pytest.raises(
        InvalidFile, match=r"rules.yaml:6: script: release 1.2.0 does not load sliding_counter 7.0.0; use one of"
    ):
        rule_set(EVERY.replace("script: 1.0.1", "script: 7.0.0"))


def test_tiers_stay_above_a_canary() -> None:
    [rule] = rule_set(EXAMPLE).rules
    limits = {variant: values["limit"] for variant, values in rule.arguments.items()}
    assert limits == {
        (None, False): 1000,
        (None, True): 800,
        ("free", False): 100,
        ("free", True): 100,
        ("enterprise", False): 10_000,
        ("enterprise", True): 10_000,
    }


@pytest.mark.parametrize("text", [EXAMPLE, EVERY])
def test_a_revision_reads_back(text: str) -> None:
    stored = revision(text, 7, 6)
    assert read_revision(stored.to_text()) == stored
    step = replace(stored, parent=6, before_ramp=4)
    assert read_revision(step.to_text()) == step
    assert step.back_to == 4
    of_an_earlier_release = stored.to_text().replace('"before_ramp":null,', "")
    assert "before_ramp" not in of_an_earlier_release
    assert read_revision(of_an_earlier_release) == stored


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        revision(EXAMPLE).to_text().replace('"format":1', '"format":2'),
        revision(EXAMPLE).to_text().replace('"limit":1000', '"limit":1001'),
        revision(EXAMPLE).to_text()[:-3],
    ],
)
def test_what_is_no_revision_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"revision|rules|JSON|Expecting|delimiter"):
        read_revision(text)


@pytest.mark.parametrize(("share", "shown"), [(0, 0), (1000, 10), (1, 0.01), (1250, 12.5), (10_000, 100)])
def test_percent(share: int, shown: float) -> None:
    assert percent(share) == shown


def test_changes_name_rules_and_fields() -> None:
    before = rule_set(EXAMPLE)
    assert changes(before, before) == ()
    [added] = changes(None, before)
    assert (added.kind, added.describe()) == ("add", "add api-per-key")
    [change] = changes(before, edited("limit: 1000\n", "limit: 2000\n"))
    assert change.describe() == "change api-per-key: parameters.limit 1000 -> 2000"
    [change] = changes(before, edited("    canary: {percent: 10, limit: 800}\n", ""))
    assert {field.field for field in change.fields} == {"canary.percent", "canary.parameters.limit"}
    [change] = changes(edited("    tiers: {free: {limit: 100}, enterprise: {limit: 10000}}\n", ""), before)
    assert change.describe() == "change api-per-key: tiers.enterprise.limit none -> 10000; tiers.free.limit none -> 100"
    added, removed = changes(before, rule_set(EXAMPLE.replace("id: api-per-key", "id: other")))
    assert (added.kind, removed.kind, removed.rule) == ("add", "remove", "api-per-key")
    every = rule_set(EVERY)
    backwards = RuleSet(rules=every.rules[::-1], release=every.release)
    assert {change.kind for change in changes(every, backwards)} == {"reorder"}


def test_a_canary_by_verb_is_the_canary_of_a_file() -> None:
    without = edited("    canary: {percent: 10, limit: 800}\n", "")
    by_verb = with_canary(without, "api-per-key", 1000, {"limit": 800}, RELEASE)
    assert by_verb == rule_set(EXAMPLE)
    assert with_canary(by_verb, "api-per-key", 5000, {}, RELEASE) == edited("percent: 10", "percent: 50")
    with pytest.raises(UsageFault, match="has no canary yet"):
        with_canary(without, "api-per-key", 1000, {}, RELEASE)


def test_promotion_makes_the_canary_the_rule() -> None:
    expected = edited("limit: 1000\n", "limit: 800\n")
    [rule] = with_promotion(
        with_shadow(rule_set(EXAMPLE), "api-per-key", shadow=True, release=RELEASE), "api-per-key", RELEASE
    ).rules
    assert rule.definition.parameters == expected.rules[0].definition.parameters
    assert (rule.definition.canary, rule.definition.shadow) == (None, False)
    assert rule.arguments[None, False]["limit"] == 800


def test_without_a_canary_there_is_nothing_to_promote() -> None:
    without = edited("    canary: {percent: 10, limit: 800}\n", "")
    with pytest.raises(NotFound, match="no canary to promote") as caught:
        with_promotion(without, "api-per-key", RELEASE)
    assert caught.value.hint
    shadow = with_shadow(without, "api-per-key", shadow=True, release=RELEASE)
    assert with_promotion(shadow, "api-per-key", RELEASE) == without


def test_one_rule_goes_back_alone() -> None:
    now = rule_set(EVERY.replace("limit: 10,", "limit: 11,").replace("burst: 5", "burst: 6"))
    back = with_rule_of(now, rule_set(EVERY), "bucket")
    assert [change.rule for change in changes(now, back)] == ["bucket"]
    assert with_rule_of(rule_set(EXAMPLE), rule_set(EVERY), "bucket").rule("bucket") == rule_set(EVERY).rule("bucket")
    assert with_rule_of(now, rule_set(EXAMPLE), "bucket").rule("bucket") is None


def test_an_edit_leaves_the_script_alone() -> None:
    """A fleet may use the scripts of an earlier release than the shipped one."""
    [rule] = rule_set(EXAMPLE).rules
    script = replace(rule.script, version="0.9.0", sha1="0" * 40)
    earlier = RuleSet(rules=(replace(rule, script=script),), release="0.9.0")
    for edited_set in (
        with_canary(earlier, rule.id, 5000, {"limit": 7}, RELEASE),
        with_shadow(earlier, rule.id, shadow=True, release=RELEASE),
        with_promotion(earlier, rule.id, RELEASE),
    ):
        assert edited_set.rules[0].script == script
        assert edited_set.release == "0.9.0"


def test_a_rule_that_is_not_there() -> None:
    with pytest.raises(NotFound) as caught:
        with_promotion(rule_set(EXAMPLE), "other", RELEASE)
    assert caught.value.hint == "use one of api-per-key"


@pytest.mark.parametrize(
    ("rule", "kinds"),
    [
        ("algorithm: sliding_counter, limit: 9, window: 60s", {"small-sliding-counter"}),
        ("algorithm: sliding_counter, limit: 10, window: 60s", set()),
        ("algorithm: sliding_counter, limit: 10, window: 60s, tiers: {free: {limit: 1}}", {"small-sliding-counter"}),
        ("algorithm: rolling_window, limit: 129, window: 60s", {"long-rolling-window"}),
        ("algorithm: rolling_window, limit: 128, window: 60s", set()),
        ("algorithm: concurrent, limit: 3, lease: 9s", {"short-lease"}),
        ("algorithm: concurrent, limit: 3, lease: 10s", set()),
        ("algorithm: concurrent, limit: 3, lease: 10s, canary: {percent: 10, lease: 20s}", {"canary-lease"}),
        ("algorithm: gcra, burst: 3, rate: 3/1ms", {"gcra-rounding"}),
        ("algorithm: gcra, burst: 3, rate: 3/s", set()),
        ("algorithm: gcra, burst: 3, rate: 7/s, shadow: true, class: security", {"security-shadow"}),
    ],
)
def test_what_is_unwise_is_told(rule: str, kinds: set[str]) -> None:
    found = advise(rule_set(f'version: 1\nrules:\n  - {{id: a, key: "{{user}}", {rule}}}\n'))
    assert {one.kind for one in found} == kinds


@pytest.mark.parametrize(
    ("key", "kinds"),
    [('"{user}{ip}"', {"joined-places"}), ('["{user}", "{ip}"]', {"same-key"}), ('["u:{user}", "ip:{ip}"]', set())],
)
def test_keys_that_mix_people_up_are_told(key: str, kinds: set[str]) -> None:
    found = advise(
        rule_set(f"version: 1\nrules:\n  - {{id: a, algorithm: fixed_window, limit: 3, window: 1s, key: {key}}}\n")
    )
    assert {one.kind for one in found} == kinds


CANARY = "    canary: {percent: 10, limit: 800}\n"
WINDOWED = "    canary: {percent: 10, window: 30s}\n"


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (("limit: 1000\n", "limit: 1000\n"), ("limit: 1000\n", "limit: 9\n"), None),
        ((CANARY, CANARY), (CANARY, ""), None),
        ((CANARY, CANARY), ("percent: 10", "percent: 50"), None),
        ((CANARY, CANARY), ("on_failure: open", "on_failure: closed"), None),
        (
            ("sliding_counter", "sliding_counter"),
            ("sliding_counter", "fixed_window"),
            "its algorithm changes: .* for all identities",
        ),
        (("window: 60s", "window: 60s"), ("window: 60s", "window: 2m"), "its window changes: .* for all identities"),
        (("{api_key}", "{api_key}"), ("{api_key}", "{user}"), "its key template changes: .* for all identities"),
        (('"apikey:{api_key}"', '["apikey:{api_key}"]'), ('"apikey:{api_key}"', '["apikey:{api_key}", "{ip}"]'), None),
        (
            ('"apikey:{api_key}"', '["apikey:{api_key}"]'),
            ('"apikey:{api_key}"', '["{ip}", "apikey:{api_key}"]'),
            "its key template",
        ),
        ((CANARY, CANARY), (CANARY, CANARY + "    shadow: true\n"), "its shadow changes: .* for all identities"),
        ((CANARY, ""), (CANARY, WINDOWED), "its window changes: .* for 10 % of identities"),
        ((CANARY, WINDOWED), (CANARY, WINDOWED.replace("10", "30")), "its window changes: .* for 20 % of identities"),
        ((CANARY, WINDOWED), (CANARY, ""), "its window changes: .* for 10 % of identities"),
        # The canary's keys become the keys of all identities, so its identities keep their counts.
        ((CANARY + "", WINDOWED), ("    window: 60s\n", "    window: 30s\n"), "for 90 % of identities"),
        (
            ("free: {limit: 100}", "free: {limit: 100}"),
            ("free: {limit: 100}", "free: {window: 30s}"),
            "its window changes: .* for 100 % of identities of tier free$",
        ),
    ],
)
def test_who_is_counted_anew_is_announced(before: tuple[str, str], after: tuple[str, str], says: str | None) -> None:
    found = fresh_quotas(edited(*before), edited(*after))
    assert {advice.kind for advice in found} == ({"fresh-quota"} if says else set())
    for advice in found:
        assert re.search(says or "", advice.text)


def test_another_state_of_a_script_is_announced_and_new_rules_are_not() -> None:
    now = rule_set(EXAMPLE)
    [rule] = now.rules
    other = replace(now, rules=(replace(rule, script=replace(rule.script, state=2)),))
    [advice] = fresh_quotas(now, other)
    assert advice.text == "counts on a new key, because its script state changes: one fresh quota for all identities"
    assert fresh_quotas(None, now) == fresh_quotas(rule_set(EVERY), now) == ()
