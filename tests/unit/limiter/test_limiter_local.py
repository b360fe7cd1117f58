"""The local count of one process: each number of its answers, at and around each boundary."""

from collections.abc import Callable

import pytest

from rlctl.limiter import (
    Algorithm,
    Concurrent,
    FixedWindow,
    Gcra,
    Reason,
    RollingRing,
    RollingWindow,
    SlidingCounter,
    TokenBucket,
)
from rlctl.limiter.core.local import LocalAnswer, LocalLimits

MS = 1_000_000
OK, OVER, EARLY, NO_LEASE, IMPOSSIBLE = (
    Reason.OK,
    Reason.OVER_LIMIT,
    Reason.MIN_INTERVAL,
    Reason.NO_LEASE,
    Reason.IMPOSSIBLE,
)
Step = tuple[float, int, tuple[int, int, int, int, Reason]]


class ManualClock:
    """A clock in nanoseconds that the test sets."""

    def __init__(self) -> None:
        self.now_ns = 5 * MS

    def __call__(self) -> int:
        return self.now_ns


def numbers(answer: LocalAnswer) -> tuple[int, int, int, int, Reason]:
    return answer.limit, answer.remaining, answer.retry_after_ms, answer.reset_after_ms, answer.reason


def limits(instances: int = 1, max_keys: int = 10) -> tuple[LocalLimits, ManualClock]:
    clock = ManualClock()
    return LocalLimits(instances, max_keys, clock), clock


# For each call: milliseconds since the previous call, cost; limit, remaining, retry, reset, reason.
STORIES: dict[str, tuple[Algorithm, int, list[Step]]] = {
    "window": (
        FixedWindow(3, 1000),
        1,
        [
            (0, 0, (3, 3, 0, 0, OK)),
            (0, 1, (3, 2, 0, 1000, OK)),
            (400, 2, (3, 0, 0, 600, OK)),
            (0, 0, (3, 0, 0, 600, OK)),
            (0, 1, (3, 0, 600, 600, OVER)),
            (599.999, 1, (3, 0, 1, 1, OVER)),
            (0.001, 1, (3, 2, 0, 1000, OK)),
            (500, 3, (3, 2, 500, 500, OVER)),
            (5000, 0, (3, 3, 0, 0, OK)),
        ],
    ),
    "shared window": (
        SlidingCounter(7, 1000),
        3,
        [(0, 2, (2, 0, 0, 1000, OK)), (1, 1, (2, 0, 999, 999, OVER))],
    ),
    "nothing is allowed": (FixedWindow(0, 1000), 3, [(0, 1, (0, 0, 1000, 1000, OVER)), (0, 0, (0, 0, 0, 0, OK))]),
    "interval": (
        RollingWindow(5, 1000, 100),
        1,
        [
            (0, 2, (5, 3, 0, 1000, OK)),
            (99.5, 1, (5, 3, 1, 901, EARLY)),
            (0, 0, (5, 3, 0, 901, OK)),
            (0, 4, (5, 3, 901, 901, OVER)),
            (0.5, 1, (5, 2, 0, 900, OK)),
            (50, 1, (5, 2, 50, 850, EARLY)),
            (850, 1, (5, 4, 0, 1000, OK)),
        ],
    ),
    "interval of a ring": (
        RollingRing(5, 1000, 100),
        1,
        [(0, 1, (5, 4, 0, 1000, OK)), (40, 1, (5, 4, 60, 960, EARLY))],
    ),
    "interval over the end of a window": (
        RollingWindow(5, 100, 80),
        1,
        [(0, 1, (5, 4, 0, 100, OK)), (90, 1, (5, 3, 0, 10, OK)), (20, 1, (5, 5, 60, 100, EARLY))],
    ),
    "bucket": (
        TokenBucket(4, 2, 1000),
        1,
        [
            (0, 0, (4, 4, 0, 0, OK)),
            (0, 3, (4, 1, 0, 1500, OK)),
            (0, 2, (4, 1, 500, 1500, OVER)),
            (499, 2, (4, 1, 1, 1001, OVER)),
            (1, 2, (4, 0, 0, 2000, OK)),
            (250, 0, (4, 0, 0, 1750, OK)),
            (9000, 4, (4, 0, 0, 2000, OK)),
        ],
    ),
    "shared meter": (
        Gcra(9, 3, 1000),
        2,
        [(0, 4, (4, 0, 0, 2667, OK)), (0, 1, (4, 0, 667, 2667, OVER)), (667, 1, (4, 0, 0, 2667, OK))],
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_calls_with_a_cost(story: str) -> None:
    rule, instances, steps = STORIES[story]
    subject, clock = limits(instances)
    for number, (pause_ms, cost, answer) in enumerate(steps):
        clock.now_ns += round(pause_ms * MS)
        assert numbers(subject.count(rule, b"k", cost)) == answer, number


def test_leases() -> None:
    subject, clock = limits(2)
    rule = Concurrent(5, 1000)

    def lease(verb: str, request_id: str, pause_ms: float = 0) -> tuple[int, int, int, int, Reason]:
        clock.now_ns += round(pause_ms * MS)
        return numbers(subject.lease(rule, b"k", verb, request_id))

    assert lease("peek", "") == (2, 2, 0, 0, OK)
    assert lease("renew", "a") == (2, 2, -1, 0, NO_LEASE)
    assert lease("acquire", "a") == (2, 1, 0, 1000, OK)
    assert lease("acquire", "b", 300) == (2, 0, 0, 1000, OK)
    assert lease("acquire", "c") == (2, 0, 700, 1000, OVER)
    assert lease("renew", "a", 100) == (2, 0, 0, 1000, OK)
    assert lease("acquire", "c") == (2, 0, 900, 1000, OVER)
    assert lease("acquire", "c", 899.999) == (2, 0, 1, 101, OVER)
    assert lease("acquire", "c", 0.001) == (2, 0, 0, 1000, OK)
    assert lease("release", "a") == (2, 1, 0, 1000, OK)
    assert lease("release", "a") == (2, 1, 0, 1000, OK)
    assert lease("release", "c") == (2, 2, 0, 0, OK)


def test_a_share_that_shrank_waits_for_enough_leases() -> None:
    subject, clock = limits()
    rule = Concurrent(3, 1000)
    for name in "abc":
        subject.lease(rule, b"k", "acquire", name)
        clock.now_ns += 100 * MS
    subject._instances = 3
    assert numbers(subject.lease(rule, b"k", "acquire", "d")) == (1, 0, 900, 900, OVER)
    assert numbers(subject.lease(rule, b"k", "acquire", "b")) == (1, 0, 0, 1000, OK)


def test_no_lease_is_ever_given_where_the_limit_is_nothing() -> None:
    subject, _clock = limits()
    assert numbers(subject.lease(Concurrent(0, 1000), b"k", "acquire", "a")) == (0, 0, -1, 0, IMPOSSIBLE)
    assert numbers(subject.lease(Concurrent(0, 1000), b"k", "peek", "")) == (0, 0, -1, 0, IMPOSSIBLE)


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        (TokenBucket(4, 2, 1000), (4, 1, 0, 1500, OK), (4, 3, 0, 500, OK)),
        (FixedWindow(4, 1000), (4, 1, 0, 1000, OK), (4, 3, 0, 1000, OK)),
    ],
)
def test_a_refund(rule: Algorithm, before: tuple[object, ...], after: tuple[object, ...]) -> None:
    subject, _clock = limits()
    assert not subject.refund(rule, b"k", 2)
    assert numbers(subject.count(rule, b"k", 3)) == before
    assert subject.refund(rule, b"k", 2)
    assert numbers(subject.count(rule, b"k", 0)) == after
    assert subject.refund(rule, b"k", 9)
    assert numbers(subject.count(rule, b"k", 0)) == (4, 4, 0, 0, OK)
    assert not subject.refund(rule, b"other", 1)


def test_what_no_waiting_helps() -> None:
    subject, _clock = limits()
    subject.count(FixedWindow(3, 1000), b"k", 1)
    assert numbers(subject.impossible(FixedWindow(3, 1000), b"k")) == (3, 2, -1, 1000, IMPOSSIBLE)


def test_a_changed_rule_begins_anew() -> None:
    subject, _clock = limits()
    subject.count(FixedWindow(3, 1000), b"k", 3)
    assert subject.count(FixedWindow(4, 1000), b"k", 1).remaining == 3


@pytest.mark.parametrize(
    ("touch", "kept"),
    [
        (lambda subject: subject.count(FixedWindow(3, 1000), b"k", 0), 0),
        (lambda subject: subject.count(FixedWindow(3, 1000), b"k", 1), 1),
        (lambda subject: subject.lease(Concurrent(3, 1000), b"k", "acquire", "a"), 1),
        (lambda subject: subject.lease(Concurrent(3, 1000), b"k", "renew", "a"), 0),
        (lambda subject: subject.lease(Concurrent(3, 1000), b"k", "release", "a"), 0),
        (lambda subject: subject.lease(Concurrent(3, 1000), b"k", "peek", ""), 0),
    ],
)
def test_only_what_counts_is_kept(touch: Callable[[LocalLimits], object], kept: int) -> None:
    subject, _clock = limits()
    touch(subject)
    assert len(subject) == kept


def test_the_key_that_was_not_used_for_longest_is_forgotten() -> None:
    subject, _clock = limits(max_keys=2)
    rule = FixedWindow(1, 1000)
    for key in (b"a", b"b"):
        subject.count(rule, key, 1)
    subject.count(rule, b"a", 0)
    subject.count(rule, b"c", 1)
    assert len(subject) == 2
    assert [subject.count(rule, key, 0).remaining for key in (b"a", b"b", b"c")] == [0, 1, 0]
