"""Several rules for one request, with counts in a table: which rules are charged, and which are refunded."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rlctl.limiter import (
    BrokenState,
    Cause,
    Decision,
    FixedWindow,
    InvalidLimit,
    Limiter,
    LocalPolicy,
    Policy,
    Reason,
    RollingRing,
    RollingWindow,
    Source,
)
from rlctl.limiter.core.calls import CostedCall
from rlctl.limiter.core.combined import _room
from rlctl.limiter.core.commands import Command
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.deciding import Core
from rlctl.limiter.core.rulebook import RuleBook
from rlctl.limits.algorithms import Costed
from rlctl.limits.failures import Failure
from rlctl.limits.resp import parse
from tests.unit.rules.documents import RELEASE, revision

RULES = """\
version: 1
rules:
  - {id: wide, algorithm: fixed_window, limit: 1000, window: 1h, key: "{user}"}
  - {id: tight, algorithm: sliding_counter, limit: 5, window: 1h, key: "{user}"}
  - {id: log, algorithm: rolling_window, limit: 100, window: 1h, min_interval: 10ms, key: "{user}"}
  - {id: trial, algorithm: token_bucket, limit: 3, rate: 3/1h, key: "{user}", shadow: true}
"""
LIMITS = {"wide": 1000, "tight": 5, "log": 100, "trial": 3}
WINDOW_MS = 3_600_000
LATE = Failure(Cause.TIMEOUT, "late")


class Table:
    """Counts by rule; answers as the scripts do, and records the rounds."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(LIMITS, 0)
        self.rounds: list[list[tuple[str, str]]] = []
        self.between: Callable[[int], None] = lambda _round: None
        self.broken: dict[str, Exception] = {}
        self.early: set[str] = set()

    def execute_all(self, asks: Sequence[Command]) -> list[Any]:
        self.between(len(self.rounds))
        self.rounds.append([])
        return [self.answer(ask) for ask in asks]

    def answer(self, ask: Command) -> Any:
        words, _end = parse(ask.message)
        assert isinstance(words, list)
        rule = words[3].decode().split(":")[2]
        cost = int(words[-1])
        self.rounds[-1].append((rule, "charge" if cost > 0 else "refund" if cost else "look"))
        return self.broken.get(rule) or self.decided(rule, cost)

    def decided(self, rule: str, cost: int) -> list[int]:
        room = LIMITS[rule] - self.counts[rule]
        reset_ms = WINDOW_MS if self.counts[rule] else 0
        if cost > max(room, 0) or (cost > 0 and rule in self.early):
            return [0, LIMITS[rule], max(0, room), 7000, reset_ms, 1 if cost > room else 2]
        self.counts[rule] += cost
        return [1, LIMITS[rule], max(0, room - cost), 0, reset_ms, 0]

    def retry_in_ms(self, _tag: bytes, _sha1: str) -> int:
        return 0


def limiter(table: Table, policy: str | Policy = "open", text: str = RULES) -> Limiter:
    counters = Counters()
    book = RuleBook(counters)
    stored = revision(text)
    book.learn(stored.version, stored.to_text().encode())
    return Limiter(Core(RELEASE, policy, counters, book), table)  # type: ignore[arg-type]


def decided(subject: Limiter, **words: Any) -> list[tuple[str, bool]]:
    return [(one.quota.name, one.allowed) for one in subject.decide_all({"user": "u"}, **words)]


def test_an_admission_looks_at_all_then_charges_the_scarcest_and_then_the_rest() -> None:
    table = Table()
    subject = limiter(table)
    assert decided(subject) == [("wide", True), ("tight", True), ("log", True), ("trial", True)]
    assert table.rounds == [
        [(rule, "look") for rule in LIMITS],
        [("tight", "charge")],
        [("wide", "charge"), ("log", "charge"), ("trial", "charge")],
    ]
    assert table.counts == dict.fromkeys(LIMITS, 1)
    assert subject.stats.by_source() == {Source.REDIS: 4}


def test_what_one_rule_denies_costs_the_others_nothing() -> None:
    table = Table()
    subject = limiter(table)
    told = [decided(subject)[-1] for _ in range(12)]
    assert told == [("trial", True)] * 5 + [("tight", False)] * 7
    assert table.counts == {"wide": 5, "tight": 5, "log": 5, "trial": 3}
    assert table.rounds[-2:] == [[(rule, "look") for rule in LIMITS], [("tight", "charge")]]
    # Requests that `tight` denied are not counted by the shadow rule, which comes after it.
    assert subject.stats.shadow_denials == {"trial": 2}
    [first, last] = subject.decide_all({"user": "u"})
    assert (first.remaining, first.reason) == (995, Reason.OK)
    assert (last.retry_after_ms, last.reason, last.source) == (7000, Reason.OVER_LIMIT, Source.REDIS)


def test_the_last_unit_of_the_scarcest_rule_is_charged_first() -> None:
    table = Table()
    table.counts["tight"] = 4
    subject = limiter(table, text=RULES.replace("min_interval: 10ms, ", ""))
    assert [one for _name, one in decided(subject)] == [True] * 4
    assert table.rounds[1:] == [[("tight", "charge")], [("wide", "charge"), ("log", "charge"), ("trial", "charge")]]
    assert table.counts["tight"] == 5
    assert decided(subject)[-1] == ("tight", False)


def test_a_minimum_interval_is_seen_by_a_look() -> None:
    table = Table()
    subject = limiter(table)
    decided(subject)
    table.early = {"log"}
    found = subject.decide_all({"user": "u"})
    assert [(one.quota.name, one.allowed, one.reason) for one in found][-1] == ("log", False, Reason.MIN_INTERVAL)
    assert table.rounds[-1] == [("log", "charge")]
    assert table.counts["wide"] == table.counts["tight"] == 1


def test_a_lost_race_refunds_what_was_charged() -> None:
    table = Table()
    subject = limiter(table)

    def steal(number: int) -> None:
        if number == 2:
            table.counts["wide"] = 1000

    table.between = steal
    assert decided(subject) == [("wide", False)]
    assert table.rounds[3:] == [[("tight", "refund"), ("log", "refund"), ("trial", "refund")]]
    assert table.counts == {"wide": 1000, "tight": 0, "log": 0, "trial": 0}
    assert subject.stats.to_json()["refunds"] == {"log": 1, "tight": 1, "trial": 1}
    assert subject.stats.unrefunded == {}


def test_a_race_that_the_scarcest_rule_loses_charges_no_rule() -> None:
    table = Table()
    subject = limiter(table)

    def steal(number: int) -> None:
        if number == 1:
            table.counts["tight"] = 5

    table.between = steal
    assert decided(subject) == [("wide", True), ("tight", False)]
    assert table.counts == {"wide": 0, "tight": 5, "log": 0, "trial": 0}
    assert (subject.stats.refunds, subject.stats.unrefunded) == ({}, {})


def test_a_refund_that_fails_is_counted_and_not_tried_again() -> None:
    table = Table()
    subject = limiter(table)

    def steal(number: int) -> None:
        if number == 2:
            table.counts["wide"] = 1000
        if number == 3:
            # With a release before 1.2.0 the script replies with the second error.
            table.broken = {"log": LATE, "tight": InvalidLimit("RLCTL_ARG limit, window_ms and cost are whole numbers")}

    table.between = steal
    decided(subject, cost=2)
    assert (subject.stats.refunds, subject.stats.unrefunded) == ({"trial": 1}, {"tight": 1, "log": 1})
    assert table.counts["trial"] == 0
    assert len(table.rounds) == 4
    assert subject.stats.errors == {Cause.TIMEOUT: 1}


@pytest.mark.parametrize(("policy", "allowed"), [("open", True), ("closed", False)])
def test_a_rule_that_redis_cannot_decide_is_its_policys_and_is_not_asked_again(policy: str, *, allowed: bool) -> None:
    table = Table()
    table.broken = {"wide": LATE}
    text = RULES.replace(
        'limit: 1000, window: 1h, key: "{user}"', f'limit: 1000, window: 1h, key: "{{user}}", on_failure: {policy}'
    )
    subject = limiter(table, text=text)
    first = subject.decide_all({"user": "u"})[0]
    assert (first.allowed, first.cause, first.source) == (allowed, Cause.TIMEOUT, Source(policy))
    assert [one for sent in table.rounds for one in sent if one[0] == "wide"] == [("wide", "look")]
    assert table.counts["tight"] == (1 if allowed else 0)
    assert subject.stats.errors == {Cause.TIMEOUT: 1}


def test_a_local_count_is_taken_back() -> None:
    table = Table()
    table.broken = {"wide": LATE}
    text = RULES.replace("limit: 1000, window: 1h,", "limit: 1000, window: 1h, on_failure: local,")
    subject = limiter(table, LocalPolicy(1), text)

    def steal(number: int) -> None:
        if number == 1:
            table.counts["tight"] = 5

    table.between = steal
    [wide, tight] = subject.decide_all({"user": "u"})
    assert (wide.source, wide.remaining, tight.allowed) == (Source.LOCAL, 999, False)
    assert subject.stats.refunds == {"wide": 1}
    table.counts["tight"] = 0
    assert subject.decide_all({"user": "u"})[0].remaining == 999


def test_a_look_is_one_round_and_counts_nothing() -> None:
    table = Table()
    subject = limiter(table)
    table.counts["tight"] = 5
    assert decided(subject, peek=True) == [(rule, True) for rule in LIMITS]
    assert decided(subject, cost=0) == [(rule, True) for rule in LIMITS]
    assert [len(one) for one in table.rounds] == [4, 4]


def test_one_rule_needs_no_look() -> None:
    table = Table()
    only = "version: 1\nrules:\n  - {id: tight, algorithm: sliding_counter, limit: 5, window: 1h, key: '{user}'}\n"
    assert decided(limiter(table, text=only)) == [("tight", True)]
    assert table.rounds == [[("tight", "charge")]]


def test_no_rule_asks_nothing() -> None:
    table = Table()
    assert limiter(table).decide_all({"ip": "1"}) == ()
    assert table.rounds == []


def test_a_broken_key_is_raised_before_anything_is_charged_or_after_the_refund() -> None:
    table = Table()
    subject = limiter(table)
    table.broken = {"wide": BrokenState("WRONGTYPE")}
    with pytest.raises(BrokenState):
        decided(subject)
    assert len(table.rounds) == 1
    table.broken = {}

    def spoil(number: int) -> None:
        if number == 3:
            table.broken = {"wide": BrokenState("WRONGTYPE")}

    table.between = spoil
    with pytest.raises(BrokenState):
        decided(subject)
    assert subject.stats.refunds == {"log": 1, "tight": 1, "trial": 1}
    assert table.counts["log"] == 0


def test_a_look_at_a_broken_key_refunds_nothing() -> None:
    table = Table()
    table.broken = {"tight": BrokenState("WRONGTYPE")}
    subject = limiter(table)
    with pytest.raises(BrokenState):
        decided(subject, cost=0)
    assert [len(one) for one in table.rounds] == [4]
    assert (subject.stats.refunds, subject.stats.unrefunded) == ({}, {})


def test_a_cost_that_no_script_takes_is_raised_before_anything_is_sent() -> None:
    table = Table()
    with pytest.raises(InvalidLimit):
        decided(limiter(table), cost=-1)
    assert table.rounds == []


def test_many_rules_are_looked_at_in_rounds_of_a_bounded_size() -> None:
    lines = [
        f"  - {{id: tight, algorithm: sliding_counter, limit: 5, window: {n + 1}h, key: '{{user}}'}}"
        for n in range(100)
    ]
    text = "version: 1\nrules:\n" + "\n".join(line.replace("tight", f"tight-{n}") for n, line in enumerate(lines))
    table = Table()
    for number in range(100):
        LIMITS.setdefault(f"tight-{number}", 5)
    table.counts = dict.fromkeys(LIMITS, 0)
    try:
        assert len(decided(limiter(table, text=text))) == 100
    finally:
        for number in range(100):
            del LIMITS[f"tight-{number}"]
    assert [len(one) for one in table.rounds] == [64, 36, 1, 64, 35]


@pytest.mark.parametrize(
    ("rule", "seen", "room"),
    [
        pytest.param(FixedWindow(9, 10), {"remaining": 3}, 1, id="more than the cost"),
        pytest.param(FixedWindow(9, 10), {"remaining": 1}, -1, id="less"),
        pytest.param(FixedWindow(9, 10), {"allowed": False, "remaining": 3}, -1, id="denied"),
        pytest.param(FixedWindow(9, 10), {"remaining": None}, -1, id="not known"),
        pytest.param(RollingWindow(9, 10, 4), {"remaining": 9, "reset_after_ms": 0}, 7, id="no admission yet"),
        pytest.param(RollingWindow(9, 10, 4), {"remaining": 8, "reset_after_ms": 6}, 6, id="long enough ago"),
        pytest.param(RollingWindow(9, 10, 4), {"remaining": 8, "reset_after_ms": 7}, -1, id="too early"),
        pytest.param(RollingRing(9, 10, 4), {"remaining": 8, "reset_after_ms": 7}, -1, id="too early for a ring"),
        pytest.param(RollingWindow(9, 10, 10), {"remaining": 8, "reset_after_ms": 1}, -1, id="at the last moment"),
        pytest.param(RollingWindow(9, 10, 1), {"remaining": 8, "reset_after_ms": 10}, -1, id="right now"),
        pytest.param(RollingWindow(9, 10), {"remaining": 8, "reset_after_ms": 10}, 6, id="no minimum interval"),
    ],
)
def test_the_room_that_a_look_shows(rule: Costed, seen: dict[str, Any], room: int) -> None:
    script = RELEASE.script(rule.name)
    assert script is not None
    look: dict[str, Any] = {"allowed": True, "limit": 9, "retry_after_ms": 0, "reset_after_ms": None} | seen
    decision = Decision(**look, reason=Reason.OK, source=Source.REDIS)
    assert _room(CostedCall(script, rule, "api"), decision, 2) == room
