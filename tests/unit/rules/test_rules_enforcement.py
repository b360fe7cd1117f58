"""Changes of rules that end or loosen enforcement, and their descriptions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.limits.rule import RuleSet
from rlctl.rules.edit import with_canary, with_shadow
from rlctl.rules.enforcement import Ending, EndingKind, endings
from tests.unit.rules.documents import RELEASE, rule_set

LOGINS = "algorithm: rolling_window, limit: 5, window: 15m, key: 'ip:{ip}', class: security"


def rules(*texts: str) -> RuleSet:
    lines = [f"  - {{id: rule-{number}, {text}}}\n" for number, text in enumerate(texts)]
    return rule_set("version: 1\nrules:\n" + "".join(lines))


def ends(before: str, after: str) -> tuple[Ending, ...]:
    return endings(rules(before), rules(after))


def logins(old: str = "", new: str = "") -> str:
    assert old in LOGINS
    return LOGINS.replace(old, new) if old else f"{LOGINS}{new}"


def test_a_first_file_and_the_same_file_end_nothing() -> None:
    assert endings(None, rules(LOGINS)) == ()
    assert ends(LOGINS, LOGINS) == ()


@pytest.mark.parametrize("rule_class", ["general", "security"])
def test_a_rule_that_is_removed_or_goes_into_shadow_ends_whatever_its_class(rule_class: str) -> None:
    text = logins("class: security", f"class: {rule_class}, match: {{endpoint: [/login, /auth/*]}}")
    before = rules(LOGINS, text)
    whom = f"rule-1 (class {rule_class}) %s, for ip:{{ip}} where endpoint is /login or /auth/*: "
    limits = "limit 5, window 15m -> no limit"
    [removed] = endings(before, rules(LOGINS))
    assert removed.text == whom % "is removed and denies no request any more" + limits
    [shadowed] = endings(before, with_shadow(before, "rule-1", shadow=True, release=RELEASE))
    assert shadowed.text == whom % "goes into shadow and denies no request any more" + limits
    assert (removed.kind, shadowed.kind) == (EndingKind.REMOVED, EndingKind.SHADOW)


def test_a_rule_in_shadow_enforces_nothing_that_could_end() -> None:
    before = rules(LOGINS, logins(new=", shadow: true"))
    assert endings(before, rules(LOGINS)) == ()
    assert endings(before, rules(LOGINS, logins("limit: 5", "limit: 50, shadow: true"))) == ()
    assert endings(before, rules(LOGINS, LOGINS)) == ()


@pytest.mark.parametrize(
    ("before", "after", "is_loosened"),
    [
        ("rolling_window, limit: 5, window: 15m", "rolling_window, limit: 6, window: 15m", True),
        ("rolling_window, limit: 5, window: 15m", "rolling_window, limit: 4, window: 15m", False),
        ("rolling_window, limit: 5, window: 15m", "rolling_window, limit: 0, window: 1s", False),
        ("rolling_window, limit: 0, window: 1s", "rolling_window, limit: 1, window: 1h", True),
        ("rolling_window, limit: 5, window: 15m", "rolling_window, limit: 5, window: 10m", True),
        ("rolling_window, limit: 5, window: 15m", "rolling_window, limit: 5, window: 1h", False),
        ("rolling_window, limit: 10, window: 60s", "rolling_window, limit: 5, window: 30s", False),
        ("rolling_window, limit: 10, window: 60s", "rolling_window, limit: 9, window: 54s", True),
        ("rolling_window, limit: 10, window: 60s", "rolling_window, limit: 1, window: 1s", True),
        ("rolling_window, limit: 5, window: 15m, min_interval: 1s", "rolling_window, limit: 5, window: 15m", True),
        ("rolling_window, limit: 5, window: 15m", "rolling_ring, limit: 5, window: 15m", False),
        ("rolling_window, limit: 5, window: 15m, min_interval: 1ms", "sliding_counter, limit: 1, window: 15m", True),
        ("fixed_window, limit: 5, window: 15m", "rolling_window, limit: 1, window: 15m", False),
        # A burst at the boundary of two fixed windows counts in both.
        ("rolling_window, limit: 5, window: 15m", "fixed_window, limit: 5, window: 15m", True),
        ("fixed_window, limit: 5, window: 15m", "rolling_window, limit: 5, window: 15m", False),
        ("fixed_window, limit: 5, window: 15m", "rolling_window, limit: 10, window: 15m", True),
        ("gcra, burst: 5, rate: 5/1s", "gcra, burst: 6, rate: 5/1s", True),
        ("gcra, burst: 5, rate: 5/1s", "gcra, burst: 4, rate: 301/60s", True),
        ("gcra, burst: 5, rate: 5/1s", "token_bucket, limit: 5, rate: 300/60s", False),
        ("gcra, burst: 5, rate: 5/1s", "rolling_window, limit: 5, window: 1s", False),
        ("gcra, burst: 5, rate: 5/1s", "rolling_window, limit: 6, window: 2s", True),
        ("rolling_window, limit: 10, window: 10s", "gcra, burst: 5, rate: 5/10s", False),
        ("rolling_window, limit: 10, window: 10s", "gcra, burst: 5, rate: 6/10s", True),
        ("concurrent, limit: 5, lease: 30s", "concurrent, limit: 6, lease: 30s", True),
        ("concurrent, limit: 5, lease: 30s", "concurrent, limit: 5, lease: 20s", True),
        ("concurrent, limit: 5, lease: 30s", "concurrent, limit: 4, lease: 30s", False),
        ("concurrent, limit: 5, lease: 30s", "gcra, burst: 1, rate: 1/1h", True),
        ("gcra, burst: 5, rate: 5/1s", "concurrent, limit: 1, lease: 30s", True),
    ],
)
def test_numbers_that_admit_more_loosen_a_rule_of_class_security(before: str, after: str, is_loosened: bool) -> None:  # noqa: FBT001
    found = ends(*(f"algorithm: {text}, key: 'ip:{{ip}}', class: security" for text in (before, after)))
    assert [(one.kind, one.reasons) for one in found] == [(EndingKind.LOOSENED, ())] * is_loosened
    assert ends(*(f"algorithm: {text}, key: 'ip:{{ip}}'" for text in (before, after))) == ()


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30), st.integers(1, 30))
def test_a_window_that_is_not_loosened_admits_no_more_in_any_time(
    limit: int, window: int, new: int, other: int
) -> None:
    texts = (
        f"algorithm: rolling_window, limit: {limit}, window: {window}s, key: '{{ip}}', class: security",
        f"algorithm: rolling_window, limit: {new}, window: {other}s, key: '{{ip}}', class: security",
    )
    admits_more = any(new * -(-span // other) > limit * -(-span // window) for span in range(1, 1000))
    assert bool(ends(*texts)) is admits_more


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (logins("security", "general, on_failure: closed"), "class security -> general"),
        (logins(new=", on_failure: 'local:4'"), "on_failure closed -> local:4"),
        (logins("ip:{ip}", "user:{user}"), "key ip:{ip} -> user:{user}"),
        (logins("'ip:{ip}'", "['user:{user}', 'ip:{ip}']"), "key ip:{ip} -> user:{user} or ip:{ip}"),
        (logins("'ip:{ip}'", "['ip:{ip}', 'user:{user}']"), None),
        (logins(new=", match: {endpoint: [/login]}"), "match endpoint: any -> /login"),
        (logins(new=", owner: payments, on_failure: closed"), None),
    ],
)
def test_what_else_loosens_a_rule(after: str, reason: str | None) -> None:
    assert [one.reasons for one in ends(LOGINS, after)] == ([(reason,)] if reason else [])


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("[/login, /auth/*]", "[/login]", "match endpoint: /login or /auth/* -> /login"),
        ("[/login, /auth/x]", "[/login, /auth/*]", None),
        ("[/auth/*]", "[/a*]", None),
        ("[/a*]", "[/auth/*]", "match endpoint: /a* -> /auth/*"),
    ],
)
def test_a_condition_that_fits_fewer_requests_loosens(before: str, after: str, reason: str | None) -> None:
    found = ends(*(logins(new=f", match: {{endpoint: {patterns}}}") for patterns in (before, after)))
    assert [one.reasons for one in found] == ([(reason,)] if reason else [])


@pytest.mark.parametrize(
    ("before", "after", "is_loosened"),
    [
        ("local:4", "local:2", True),
        ("local:4", "local:8", False),
        ("local", "local:4", True),
        ("local:4", "local", True),
        ("local", "local", False),
        ("local:4", "closed", False),
    ],
)
def test_a_failure_policy_that_admits_more_loosens(before: str, after: str, is_loosened: bool) -> None:  # noqa: FBT001
    found = ends(*(logins(new=f", on_failure: '{policy}'") for policy in (before, after)))
    assert bool(found) is is_loosened


def test_tiers_and_canaries_are_told_apart() -> None:
    tiers = ", tiers: {free: {limit: 3}, paid: {limit: 20}}"
    before = rules(logins(new=tiers))
    after = with_canary(before, "rule-0", 1000, {"limit": 9}, RELEASE)
    [ending] = endings(before, after)
    assert [one.describe() for one in ending.limits] == [
        "limit 5, window 15m -> limit 9, window 15m (10 % of identities)"
    ]
    # Removing a canary with a lower limit loosens the rule.
    [back] = endings(with_canary(before, "rule-0", 1000, {"limit": 2}, RELEASE), before)
    assert [(one.tier, one.share, one.before["limit"]) for one in back.limits] == [(None, 1000, 2)]
    [ending] = endings(before, rules(logins(new=tiers.replace("3", "4").replace("20", "10"))))
    assert [(one.tier, one.share, one.after and one.after["limit"]) for one in ending.limits] == [("free", 10_000, 4)]
    [ending] = endings(before, rules(logins()))
    assert [one.tier for one in ending.limits] == ["free"]
    assert ending.text.endswith("limit 5, window 15m (tier free)")


def test_many_tiers_are_all_in_the_json_and_some_in_the_text() -> None:
    tiers = ", ".join(f"t{number}: {{limit: {number + 6}}}" for number in range(9))
    before = rules(LOGINS, logins(new=f", tiers: {{{tiers}}}"))
    [ending] = endings(before, rules(LOGINS))
    assert ending.text.endswith("(tier t3); 5 more")
    document = ending.to_json()
    assert len(document["limits"]) == 10  # type: ignore[arg-type]
    assert document["limits"][1] == {  # type: ignore[index]
        "tier": "t0",
        "percent": 100,
        "before": {"limit": 6, "window_ms": 900_000, "min_interval_ms": 0},
        "after": None,
    }
    assert {name: document[name] for name in ("rule", "kind", "class", "key", "match", "reasons")} == {
        "rule": "rule-1",
        "kind": "removed",
        "class": "security",
        "key": ["ip:{ip}"],
        "match": {},
        "reasons": [],
    }
