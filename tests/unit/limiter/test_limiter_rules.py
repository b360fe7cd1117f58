"""Deciding by the fleet's rules, with collaborators that touch no network."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rlctl.errors import RlctlError
from rlctl.limiter import AsyncLimiter, Cause, FixedWindow, InvalidLimit, Limiter, LocalPolicy, Policy, Reason, Source
from rlctl.limiter.core.commands import Command
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.deciding import Core
from rlctl.limiter.core.rulebook import POINTER, RuleBook, read_command
from rlctl.limits.bucket import bucket
from rlctl.limits.failures import BrokenState, ErrorReply, Failure
from rlctl.limits.resp import parse
from rlctl.limits.rule import Revision, Rule, Version
from tests.conftest import RunAsync
from tests.unit.rules.documents import EVERY, EXAMPLE, RELEASE, revision

YES = [1, 1000, 999, 0, 1000, 0]
NO = [0, 1000, 0, 5000, 5000, 1]
TIMEOUT = Failure(Cause.TIMEOUT, "here:1")


class FakeBackend:
    """Gives prepared answers, and records its calls."""

    def __init__(self, *outcomes: object) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[list[bytes]] = []
        self.rounds: list[int] = []

    def execute(self, message: bytes, _tag: bytes, _sha1: str) -> object:
        words, _end = parse(message)
        assert isinstance(words, list)
        self.asked.append(words)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def execute_all(self, asks: Sequence[Command]) -> list[Any]:
        self.rounds.append(len(asks))
        return [outcome_of(lambda ask=ask: self.execute(ask.message, ask.tag, ask.sha1)) for ask in asks]

    def retry_in_ms(self, _tag: bytes, _sha1: str) -> int:
        return 0


def outcome_of(call: Callable[[], object]) -> object:
    try:
        return call()
    except (Failure, RlctlError) as trouble:
        return trouble


def book_of(stored: Revision | None, counters: Counters | None = None) -> RuleBook:
    book = RuleBook(counters or Counters())
    if stored is not None:
        book.learn(stored.version, stored.to_text().encode())
    return book


def limiter(text: str | None, *outcomes: object, policy: str | Policy = "open") -> tuple[Limiter, FakeBackend]:
    counters = Counters()
    backend = FakeBackend(*outcomes)
    book = book_of(None if text is None else revision(text), counters)
    return Limiter(Core(RELEASE, policy, counters, book), backend), backend  # type: ignore[arg-type]


def identity(*, inside: bool) -> str:
    """An identity that is in the example's canary of 10 %, or is not."""
    identities = (f"user-{number}" for number in range(1000))
    return next(one for one in identities if (bucket("api-per-key", one) < 1000) is inside)


@pytest.mark.parametrize(
    ("inside", "tier", "limit"),
    [
        (False, None, b"1000"),
        (True, None, b"800"),
        (False, "free", b"100"),
        (True, "free", b"100"),
        (False, "odd", b"1000"),
    ],
)
def test_the_variant_of_an_identity(inside: bool, tier: str | None, limit: bytes) -> None:  # noqa: FBT001  a table
    subject, backend = limiter(EXAMPLE, YES)
    who = identity(inside=inside)
    assert subject.decide("api-per-key", {"api_key": who}, tier=tier).allowed
    assert backend.asked[0][3] == f"rl:{{apikey:{who}}}:api-per-key:sliding_counter:1:60000".encode()
    assert backend.asked[0][4:6] == [limit, b"60000"]


def test_a_service_decides_by_the_fleets_rules_on_its_own_keys() -> None:
    counters, backend, stored = Counters(), FakeBackend(YES, YES), revision(EXAMPLE)
    book = RuleBook(counters, service="checkout")
    book.learn(stored.version, stored.to_text().encode())
    subject = Limiter(Core(RELEASE, "open", counters, book, "checkout"), backend)  # type: ignore[arg-type]
    subject.decide("api-per-key", "ada")
    subject.decide(FixedWindow(5, 1000), "ada")
    assert [words[3] for words in backend.asked] == [
        b"rl:checkout:{apikey:ada}:api-per-key:sliding_counter:1:60000",
        b"rl:checkout:{ada}:default:fixed_window:1:1000",
    ]


def test_an_identity_is_also_one_value() -> None:
    subject, backend = limiter(EXAMPLE, YES)
    subject.decide("api-per-key", "a:b")
    assert backend.asked[0][3].startswith(b"rl:{apikey:a%3Ab}:")


def test_the_first_template_that_fits_and_the_conditions_choose() -> None:
    subject, backend = limiter(EVERY, YES, YES, YES)
    subject.decide("fixed", {"ip": "1", "api_key": "k"})
    subject.decide("fixed", {"ip": "1"})
    subject.decide("meter", {"user": "u", "endpoint": "/b/c"})
    assert [words[3].split(b"}")[0] for words in backend.asked] == [b"rl:{apikey:k", b"rl:{ip:1", b"rl:{u:/b/c"]
    for rule, who in (("fixed", {"user": "u"}), ("meter", {"user": "u", "endpoint": "/c"})):
        decision = subject.decide(rule, who)
        assert (decision.allowed, decision.source, decision.reason) == (True, Source.RULES, Reason.UNMATCHED)
        assert (decision.retry_after_ms, decision.reset_after_ms, decision.headers()) == (0, None, {})
        assert decision.headers() == {}
    with pytest.raises(InvalidLimit, match="counts by user, endpoint"):
        subject.decide("meter", "u")


def test_the_tier_is_a_dimension_like_others() -> None:
    by_tier = EXAMPLE.replace("apikey:{api_key}", "{tier}:{api_key}") + "    match: {tier: [free, enterprise]}\n"
    subject, backend = limiter(by_tier, YES, YES)
    subject.decide("api-per-key", {"api_key": "k"}, tier="free")
    subject.decide("api-per-key", {"api_key": "k", "tier": "free"}, tier="enterprise")
    assert [words[3].split(b"}")[0] for words in backend.asked] == [b"rl:{free:k", b"rl:{enterprise:k"]
    assert backend.asked[1][4] == b"10000"
    assert subject.decide("api-per-key", {"api_key": "k"}, tier="paid").source is Source.RULES
    assert subject.decide("api-per-key", {"api_key": "k"}).source is Source.RULES


def test_an_empty_identity_is_refused() -> None:
    subject, backend = limiter(EXAMPLE)
    with pytest.raises(InvalidLimit, match="empty"):
        subject.decide("api-per-key", "")
    assert backend.asked == []


@pytest.mark.parametrize(
    "who", [{"user": 5, "endpoint": "/a"}, {"user": "u", "endpoint": 5}, {"user": b"u"}, 5, b"u"], ids=str
)
def test_a_dimension_that_is_no_text_is_refused(who: Any) -> None:
    """A number matched no condition, so no request was limited."""
    subject, backend = limiter(EVERY)
    with pytest.raises(InvalidLimit, match=r"must be text.* not"):
        subject.decide("meter", who)
    assert backend.asked == []


def test_only_dimensions_that_the_rule_uses_are_looked_at() -> None:
    subject, backend = limiter(EVERY, YES)
    assert subject.decide("fixed", {"api_key": None, "ip": "1", "age": 5}).allowed  # type: ignore[dict-item]
    assert backend.asked[0][3].startswith(b"rl:{ip:1}")


def test_a_number_in_a_file_is_text() -> None:
    text = EXAMPLE + "    match: {org: 5}\n"
    subject, backend = limiter(text, YES)
    assert subject.decide("api-per-key", {"api_key": "k", "org": "5"}).source is Source.REDIS
    assert len(backend.asked) == 1
    with pytest.raises(InvalidLimit, match="org must be text, not 5"):
        subject.decide("api-per-key", {"api_key": "k", "org": 5})  # type: ignore[dict-item]


def test_all_rules_of_a_request_are_of_one_revision() -> None:
    """A revision that arrives between two decisions gives a rule leases, and takes another away."""
    counters = Counters()
    book = book_of(revision(EVERY), counters)
    backend = FakeBackend(*[YES] * 8)
    usual = backend.execute

    def execute(message: bytes, tag: bytes, sha1: str) -> object:
        later = EVERY.replace("id: jobs", "id: swap").replace("id: log", "id: jobs").replace("id: swap", "id: log")
        stored = revision(later.replace("id: ring", "id: other"), 2)
        book.learn(stored.version, stored.to_text().encode())
        return usual(message, tag, sha1)

    backend.execute = execute  # type: ignore[method-assign]
    subject = Limiter(Core(RELEASE, "closed", counters, book), backend)  # type: ignore[arg-type]
    found = subject.decide_all({"user": "u"})
    assert [(one.quota.name, one.allowed) for one in found] == [
        (name, True) for name in ("bucket", "counter", "log", "ring")
    ]
    assert subject.stats.rules_revision == 2


def test_a_shadow_counts_on_keys_of_its_own_and_never_denies() -> None:
    subject, backend = limiter(EVERY, NO, YES, TIMEOUT, policy="closed")
    refused, admitted, failed = (subject.decide("counter", "u") for _ in range(3))
    assert backend.asked[0][3] == b"rl:{u}:counter:sliding_counter:1:60000:shadow"
    assert (refused.allowed, refused.shadow, refused.reason, refused.headers()) == (True, True, Reason.OVER_LIMIT, {})
    assert (admitted.allowed, failed.allowed) == (True, True)
    assert subject.stats.shadow_denials == {"counter": 1}


def test_a_broken_key_of_a_shadow_stops_nothing() -> None:
    """Enforced rules after it still decide; the broken key of an enforced rule is raised."""
    broken = BrokenState("here: WRONGTYPE")
    subject, backend = limiter(EVERY, YES, broken, NO, YES, NO, policy="closed")
    found = subject.decide_all({"user": "u"})
    assert [(one.quota.name, one.allowed, one.shadow) for one in found] == [
        ("bucket", True, False),
        ("counter", True, True),
        ("log", False, False),
    ]
    assert subject.stats.errors == {Cause.ERROR: 1}
    assert backend.rounds == [4, 1]
    leases, _backend = limiter(EVERY.replace("class: security", "shadow: true"), broken, policy="closed")
    assert leases.acquire("jobs", "u", "r").allowed
    enforced, _backend = limiter(EVERY, broken)
    with pytest.raises(BrokenState):
        enforced.decide("bucket", "u")


def test_the_rules_own_failure_policy_decides() -> None:
    subject, _backend = limiter(EVERY, *[TIMEOUT] * 5, policy=LocalPolicy(2))
    assert subject.decide("bucket", "u").source is Source.OPEN
    assert subject.acquire("jobs", "u", "r").source is Source.CLOSED
    assert subject.decide("ring", "u").limit == 25
    assert subject.decide("bucket", "u", policy="closed").source is Source.CLOSED
    # A rule with plain `local` uses the limiter's own policy, which knows the number of instances.
    assert subject.decide("bucket", "u", policy="local").limit == 5


@pytest.mark.parametrize(
    ("policy", "source"), [("open", Source.OPEN), ("closed", Source.CLOSED), ("local", Source.OPEN)]
)
@pytest.mark.parametrize("text", [None, EXAMPLE])
def test_without_the_rule_the_policy_decides_and_it_is_loud(
    policy: str, source: Source, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    subject, backend = limiter(text, policy=policy)
    with caplog.at_level(logging.ERROR):
        decisions = [subject.decide("other", "u") for _ in range(3)]
    assert {(one.source, one.reason, one.cause) for one in decisions} == {(source, Reason.NO_RULE, Cause.NO_RULE)}
    assert decisions[0].limit is None
    assert subject.stats.errors == {Cause.NO_RULE: 3}
    assert len(caplog.records) == 1
    assert backend.asked == []
    if text is None:
        [only] = subject.decide_all({"user": "u"})
        assert only.source is source
        other = AsyncLimiter(Core(RELEASE, policy, Counters(), book_of(None)), backend)  # type: ignore[arg-type]
        assert asyncio.run(other.decide_all({"user": "u"})) == (only,)


def test_leases_by_rule() -> None:
    subject, backend = limiter(EVERY, YES, YES, YES, YES, YES)
    with subject.hold("jobs", {"user": "u"}) as held:
        assert held.allowed
    subject.renew("jobs", "u", "r")
    subject.peek("jobs", "u")
    assert [words[4] for words in backend.asked] == [b"acquire", b"release", b"renew", b"peek"]
    with pytest.raises(InvalidLimit, match="has no leases"):
        subject.acquire("bucket", "u", "r")
    with pytest.raises(InvalidLimit, match="needs `acquire`"):
        subject.decide("jobs", "u")


def test_what_does_not_go_together() -> None:
    subject, _backend = limiter(EXAMPLE)
    with pytest.raises(InvalidLimit, match="dimensions belong to a rule"):
        subject.decide(FixedWindow(1, 1000), {"user": "u"})
    bare = Limiter(Core(RELEASE, "open", Counters()), FakeBackend())  # type: ignore[arg-type]
    for ask in (lambda: bare.decide("api-per-key", "u"), lambda: bare.decide_all({})):
        with pytest.raises(InvalidLimit, match="rules=True"):
            ask()


def test_the_asyncio_limiter_decides_alike(run_async: RunAsync) -> None:
    async def story() -> None:
        backend = FakeBackend(YES, NO, BrokenState("WRONGTYPE"), BrokenState("WRONGTYPE"))
        asking: Any = backend.execute

        async def execute(*words: Any) -> object:
            return asking(*words)

        async def execute_all(asks: Sequence[Command]) -> list[object]:
            return [outcome_of(lambda ask=ask: asking(ask.message, ask.tag, ask.sha1)) for ask in asks]

        backend.execute = execute  # type: ignore[method-assign,assignment]
        backend.execute_all = execute_all  # type: ignore[method-assign,assignment]
        subject = AsyncLimiter(Core(RELEASE, "open", Counters(), book_of(revision(EXAMPLE))), backend)  # type: ignore[arg-type]
        assert (await subject.decide("api-per-key", "u", tier="free")).allowed
        assert [one.allowed for one in await subject.decide_all({"api_key": "u"})] == [False]
        assert (subject.has_rules, subject.rule("other")) == (True, None)
        with pytest.raises(BrokenState):
            await subject.decide("api-per-key", "u")
        shadow = EXAMPLE + "    shadow: true\n"
        subject = AsyncLimiter(Core(RELEASE, "closed", Counters(), book_of(revision(shadow))), backend)  # type: ignore[arg-type]
        assert (await subject.decide("api-per-key", "u")).allowed

    run_async(story())


def test_a_book_reads_only_news_and_keeps_the_last_good_rules() -> None:
    counters = Counters()
    book = RuleBook(counters)
    stored = revision(EXAMPLE, 3)
    pointer: Any = [b"3", stored.version.digest.encode()]
    assert book.newer_version(pointer) == stored.version
    book.learn(stored.version, stored.to_text().encode())
    assert book.newer_version(pointer) is None
    assert counters.snapshot().rules_revision == 3
    # Number 3 again with other rules: the first revision 3 was lost in a failover.
    assert book.newer_version([b"3", b"other"]) == Version(revision=3, digest="other")
    for reply in (None, b"", b"{}", stored.to_text().encode()[:-2]):
        book.learn(Version(revision=4, digest="x"), reply)
    assert book.newer_version([None, None]) is None
    assert counters.snapshot().errors == {Cause.NO_RULE: 5}
    for strange in (None, 7, [b"x"]):
        with pytest.raises(Failure):
            book.newer_version(strange)  # type: ignore[arg-type]
    assert book.rule("api-per-key") is not None
    assert counters.snapshot().rules_revision == 3


def _changed(stored: Revision, **changes: Any) -> Revision:
    rules = tuple(_other(rule, changes) for rule in stored.rules.rules)
    return replace(stored, number=2, rules=replace(stored.rules, rules=rules))


def _other(rule: Rule, changes: dict[str, Any]) -> Rule:
    if "script_args" in changes:
        return replace(rule, script=replace(rule.script, args=changes["script_args"]))
    if "arguments" in changes:
        return replace(rule, arguments=changes["arguments"])
    return replace(rule, definition=replace(rule.definition, **changes))


@pytest.mark.parametrize("text", [EXAMPLE, EVERY])
@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "of_tomorrow"},
        {"on_failure": "ask-nicely"},
        {"script_args": ("limit", "mood", "now_us")},
        {"arguments": {}},
        {"arguments": {(None, False): {"mood": 1}}},
    ],
    ids=str,
)
def test_a_revision_that_this_version_cannot_decide_by_is_not_taken_over(text: str, changes: dict[str, Any]) -> None:
    counters = Counters()
    book = book_of(revision(text), counters)
    later = _changed(revision(text), **changes)
    book.learn(later.version, later.to_text().encode())
    assert counters.snapshot().errors == {Cause.NO_RULE: 1}
    assert counters.snapshot().rules_revision == 1
    for rule in revision(text).rules.rules:
        known = book.rule(rule.id)
        assert known is not None
        assert known.rule.definition.algorithm == rule.definition.algorithm


@pytest.mark.parametrize("pointer", [[b"many", b"x"], [b"1", b"\xff"], [b"", b""]])
def test_a_strange_pointer_is_a_failure_like_others(pointer: Any) -> None:
    with pytest.raises(Failure, match="not a pointer"):
        book_of(revision(EXAMPLE)).newer_version(pointer)


def test_questions_are_reads() -> None:
    assert parse(POINTER)[0] == [b"HMGET", b"rlctl:{rules}", b"revision", b"digest"]
    assert parse(read_command(Version(revision=7, digest="x")))[0] == [b"GET", b"rlctl:{rules}:revision:7"]


def test_a_new_revision_is_decided_by_at_once() -> None:
    counters = Counters()
    book = book_of(revision(EXAMPLE), counters)
    backend = FakeBackend(YES, YES)
    subject = Limiter(Core(RELEASE, "open", counters, book), backend)  # type: ignore[arg-type]
    who = identity(inside=False)
    subject.decide("api-per-key", who)
    later = replace(revision(EXAMPLE.replace("limit: 1000\n", "limit: 7\n")), number=2)
    book.learn(later.version, later.to_text().encode())
    subject.decide("api-per-key", who)
    assert [words[4] for words in backend.asked] == [b"1000", b"7"]
    assert backend.asked[0][3] == backend.asked[1][3]


def test_errors_of_servers_are_failures() -> None:
    from rlctl.limiter.core.rulebook import require_success  # noqa: PLC0415
    from rlctl.limiter.core.settings import Endpoint  # noqa: PLC0415

    with pytest.raises(Failure, match="NOPERM"):
        require_success(ErrorReply("NOPERM no"), Endpoint("h", 1))
    assert require_success(b"x", Endpoint("h", 1)) == b"x"
