"""Bytes a user: the difference in used_memory over many keys of 20 characters with an expiry."""

from dataclasses import dataclass

import pytest

from tests.local.limiter.server import T0, Argument, Limiter

# Tables of keys double at powers of two: at 25,000 of 32,768 places they are 76 % full. Where a user is large, a
# quarter or an eighth of the keys leaves tables of 8,192 or 4,096 places exactly as full.
USERS, QUARTER, EIGHTH = 25_000, 6_250, 3_125
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A user's calls and the budget of bytes for them."""

    script: str
    calls: tuple[tuple[Argument, ...], ...]
    most_bytes: int
    users: int = USERS


def filled(count: int) -> tuple[tuple[Argument, ...], ...]:
    """One call for each entry, so that a log grows as it does in production."""
    return tuple((count, HOUR_MS, 0, 1, T0 + 1000 * at) for at in range(count))


BUDGETS = [
    pytest.param(Budget(script="token_bucket", calls=((100, 1, 1000, 50),), most_bytes=185), id="token_bucket"),
    pytest.param(Budget(script="gcra", calls=((100, 1, 60_000, 1),), most_bytes=150), id="gcra"),
    pytest.param(Budget(script="fixed_window", calls=((100, HOUR_MS, 1),), most_bytes=150), id="fixed_window"),
    pytest.param(Budget(script="sliding_counter", calls=((100, HOUR_MS, 1),), most_bytes=185), id="sliding_counter"),
    pytest.param(
        Budget(script="rolling_window", calls=filled(100), most_bytes=2300, users=EIGHTH), id="rolling_window-100"
    ),
    pytest.param(
        Budget(script="rolling_ring", calls=((100, HOUR_MS, 0, 100, T0),), most_bytes=640), id="rolling_ring-100"
    ),
    pytest.param(
        Budget(script="rolling_ring", calls=((1000, HOUR_MS, 0, 1000, T0),), most_bytes=4500, users=QUARTER),
        id="rolling_ring-1000",
    ),
    pytest.param(
        Budget(
            script="concurrent",
            calls=tuple(("acquire", 50, HOUR_MS, f"{0x9E3779B9 * (at + 1) % 2**32:08x}", T0 + at) for at in range(50)),
            most_bytes=1300,
            users=EIGHTH,
        ),
        id="concurrent-50",
    ),
]


@pytest.fixture
def empty(limiter: Limiter) -> Limiter:
    """A server with only the scripts and with the encodings of these budgets."""
    if not limiter.version.startswith("redis 7.0."):
        pytest.skip(f"the budgets are those of Redis 7.0; this is {limiter.version}")
    limiter.client.flushall()
    return limiter


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_user_fits_the_budget(empty: Limiter, budget: Budget) -> None:
    spend(empty, budget, range(1))
    before = used_bytes(empty)
    spend(empty, budget, range(1, budget.users + 1))
    each = (used_bytes(empty) - before) / budget.users
    assert empty.client.dbsize() == budget.users + 1
    assert empty.client.info("keyspace")["db0"]["expires"] == budget.users + 1
    assert each <= budget.most_bytes, f"{budget.script}: {each:.0f} B a user"


def spend(limiter: Limiter, budget: Budget, users: range) -> None:
    """Make all calls of these users; every call is admitted."""
    sha1 = limiter.sha1(budget.script)
    batch = max(1, 5000 // len(budget.calls))
    for first in range(users.start, users.stop, batch):
        pipeline = limiter.client.pipeline(transaction=False)
        for user in range(first, min(first + batch, users.stop)):
            for args in budget.calls:
                pipeline.evalsha(sha1, 1, f"rl:{{user={user:08d}}}:t", *args)
        assert all(reply[0] for reply in pipeline.execute())


def used_bytes(limiter: Limiter) -> int:
    return limiter.client.info("memory")["used_memory"]
