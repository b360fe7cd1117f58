from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.errors import UsageFault
from rlctl.limiter import (
    Algorithm,
    Cause,
    Concurrent,
    Decision,
    FixedWindow,
    Gcra,
    LocalPolicy,
    Policy,
    Quota,
    Reason,
    RollingWindow,
    Source,
    TokenBucket,
)
from rlctl.limiter.core.policy import FallbackRequest, read_policy, without_rule

MS = 1_000_000


class ManualClock:
    """A clock in nanoseconds that the test sets."""

    def __init__(self) -> None:
        self.now_ns = 5 * MS

    def __call__(self) -> int:
        return self.now_ns


def ask(policy: Policy, algorithm: Algorithm, **changes: object) -> Decision:
    values: dict[str, Any] = {"algorithm": algorithm, "key": b"k", "quota": Quota()}
    return policy.decide(FallbackRequest(**values | changes), Cause.TIMEOUT)


def test_open_admits_and_does_not_pretend_to_know() -> None:
    decision = ask(read_policy("open"), FixedWindow(10, 1000))
    assert (decision.allowed, decision.remaining, decision.reset_after_ms) == (True, None, None)
    assert (decision.source, decision.reason, decision.cause) == (Source.OPEN, Reason.TIMEOUT, Cause.TIMEOUT)


def test_closed_denies_until_the_next_probe() -> None:
    decision = ask(read_policy("closed"), FixedWindow(10, 1000), retry_in_ms=1500)
    assert (decision.allowed, decision.source, decision.retry_after_ms) == (False, Source.CLOSED, 1500)
    assert ask(read_policy("closed"), FixedWindow(10, 1000)).headers()["Retry-After"] == "1"


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        pytest.param("open", (True, 0, Source.OPEN), id="open"),
        pytest.param("closed", (False, 1000, Source.CLOSED), id="closed"),
        pytest.param("local", (True, 0, Source.OPEN), id="local has nothing to count"),
    ],
)
def test_without_a_rule_there_is_only_yes_or_no(policy: str, answer: tuple[bool, int, Source]) -> None:
    decision = without_rule(read_policy(policy))
    assert (decision.allowed, decision.retry_after_ms, decision.source) == answer
    assert (decision.limit, decision.remaining, decision.reset_after_ms) == (None, None, None)
    assert (decision.reason, decision.cause) == (Reason.NO_RULE, Cause.NO_RULE)
    assert decision.headers().get("Retry-After") == (None if decision.allowed else "1")


@pytest.mark.parametrize("policy", ["open", "closed", "local"])
@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        (FixedWindow(0, 1000), {}),
        (TokenBucket(5, 1, 1), {"cost": 6}),
        (Concurrent(0, 1000), {"verb": "acquire", "request_id": "a"}),
    ],
)
def test_what_is_impossible_stays_so_without_redis(policy: str, algorithm: Algorithm, changes: dict[str, Any]) -> None:
    decision = ask(read_policy(policy), algorithm, **changes)
    assert (decision.allowed, decision.retry_after_ms, decision.reason) == (False, -1, Reason.IMPOSSIBLE)


def test_a_local_window_counts_its_share() -> None:
    clock = ManualClock()
    policy = LocalPolicy(4, clock_ns=clock)
    rule = FixedWindow(10, 1000)
    first, second, third = (ask(policy, rule) for _ in range(3))
    assert [first.allowed, second.allowed, third.allowed] == [True, True, False]
    assert (third.limit, third.remaining, third.retry_after_ms, third.source) == (2, 0, 1000, Source.LOCAL)
    clock.now_ns += 999 * MS
    assert ask(policy, rule).retry_after_ms == 1
    clock.now_ns += MS
    assert ask(policy, rule).remaining == 1
    assert ask(policy, rule, key=b"other").remaining == 1


def test_every_instance_has_at_least_one() -> None:
    policy = LocalPolicy(50, clock_ns=ManualClock())
    assert [ask(policy, FixedWindow(3, 1000)).allowed for _ in range(2)] == [True, False]


def test_a_local_bucket_refills_at_its_share() -> None:
    clock = ManualClock()
    policy = LocalPolicy(2, clock_ns=clock)
    rule = TokenBucket(10, 10, 1000)
    assert [ask(policy, rule).remaining for _ in range(5)] == [4, 3, 2, 1, 0]
    denied = ask(policy, rule)
    assert (denied.allowed, denied.retry_after_ms, denied.reset_after_ms) == (False, 200, 1000)
    clock.now_ns += 200 * MS
    assert [ask(policy, rule).allowed for _ in range(2)] == [True, False]


def test_a_local_rolling_rule_keeps_its_interval() -> None:
    clock = ManualClock()
    policy = LocalPolicy(clock_ns=clock)
    rule = RollingWindow(5, 1000, 100)
    assert ask(policy, rule).allowed
    early = ask(policy, rule)
    assert (early.reason, early.retry_after_ms) == (Reason.MIN_INTERVAL, 100)
    clock.now_ns += 100 * MS
    assert ask(policy, rule).allowed


def test_local_leases() -> None:
    clock = ManualClock()
    policy = LocalPolicy(clock_ns=clock)
    rule = Concurrent(2, 1000)

    def lease(verb: str, request_id: str = "") -> tuple[bool, int | None, Reason]:
        decision = ask(policy, rule, verb=verb, request_id=request_id)
        return decision.allowed, decision.remaining, decision.reason

    assert lease("acquire", "a") == (True, 1, Reason.OK)
    assert lease("acquire", "a") == (True, 1, Reason.OK)
    assert lease("acquire", "b") == (True, 0, Reason.OK)
    assert lease("acquire", "c") == (False, 0, Reason.OVER_LIMIT)
    assert lease("renew", "c") == (False, 0, Reason.NO_LEASE)
    assert lease("peek") == (True, 0, Reason.OK)
    clock.now_ns += 500 * MS
    assert lease("renew", "b") == (True, 0, Reason.OK)
    clock.now_ns += 500 * MS
    assert lease("release", "x") == (True, 1, Reason.OK)
    assert lease("release", "b") == (True, 2, Reason.OK)


def test_peeks_write_nothing() -> None:
    policy = LocalPolicy(clock_ns=ManualClock())
    assert [ask(policy, rule, cost=0).remaining for rule in (FixedWindow(3, 9), Gcra(3, 1, 9))] == [3, 3]
    assert len(policy._limits) == 0


def test_memory_is_bounded_and_the_longest_unused_goes_first() -> None:
    policy = LocalPolicy(max_keys=2, clock_ns=ManualClock())
    rule = FixedWindow(1, 1000)
    for name in (b"a", b"b", b"a", b"c"):
        ask(policy, rule, key=name)
    assert len(policy._limits) == 2
    assert not ask(policy, rule, key=b"a").allowed
    assert ask(policy, rule, key=b"b").allowed


@given(
    st.integers(1, 20),
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 4)), max_size=60),
    st.sampled_from(["bucket", "window"]),
)
def test_a_local_count_never_admits_more_than_its_share(
    limit: int, instances: int, calls: list[tuple[int, int]], kind: str
) -> None:
    clock = ManualClock()
    policy = LocalPolicy(instances, clock_ns=clock)
    bucket = kind == "bucket"
    rule = TokenBucket(limit, limit, 1000) if bucket else FixedWindow(limit, 1000)
    share = max(1, limit // instances)
    admitted: list[tuple[int, int]] = []
    for pause_ms, cost in calls:
        clock.now_ns += pause_ms * MS
        decision = ask(policy, rule, cost=cost)
        assert (decision.remaining or 0) >= 0
        if decision.allowed:
            admitted.append((clock.now_ns, cost))
        elif decision.retry_after_ms > 0 and cost <= share:
            clock.now_ns += decision.retry_after_ms * MS
            assert ask(policy, rule, cost=cost).allowed
            admitted.append((clock.now_ns, cost))
    # In any trailing window, a bucket admits its capacity and the refill, and a window rule at most two limits.
    for at, _cost in admitted:
        seen = sum(cost for when, cost in admitted if at - 1000 * MS < when <= at)
        back = limit / instances if bucket else share
        assert seen <= share + back


@pytest.mark.parametrize("text", ["", "Open", "local:", "local:x", "local:0", "local:-1", "open:2"])
def test_unknown_policies(text: str) -> None:
    with pytest.raises(UsageFault):
        read_policy(text)


def test_policies_say_what_they_are() -> None:
    assert [repr(read_policy(text)) for text in ("open", "local", "local:4")] == [
        "Policy(open)",
        "Policy(local:1)",
        "Policy(local:4)",
    ]
