"""Real concurrency on the server's own clock: many connections, one key, exactly the limit is admitted."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from redis import Redis

from tests.local.driver import PATIENCE_S
from tests.local.limiter.server import Argument, Limiter

CALLS, CONNECTIONS, LIMIT = 2000, 50, 777
# Long enough that nothing refills or expires and no window begins during the test: more than 10 hours a token, and
# windows of 49 days.
SLOW_MS, LONG_MS = 10**9, 4_294_967_295

RULES: list[tuple[str, tuple[int, ...]]] = [
    ("token_bucket", (LIMIT, 1, SLOW_MS)),
    ("gcra", (LIMIT, 1, SLOW_MS)),
    ("fixed_window", (LIMIT, LONG_MS)),
    ("sliding_counter", (LIMIT, LONG_MS)),
    ("rolling_window", (LIMIT, LONG_MS, 0)),
    ("rolling_ring", (LIMIT, LONG_MS, 0)),
]


def all_at_once(limiter: Limiter, script: str, key: str, asked: Sequence[tuple[Argument, ...]]) -> list[list[int]]:
    """Send every list of arguments once, distributed over connections that start together."""
    sha1, start = limiter.sha1(script), threading.Barrier(CONNECTIONS)

    def one_connection(number: int) -> list[list[int]]:
        client = Redis(host="127.0.0.1", port=limiter.port, socket_timeout=PATIENCE_S)
        client.ping()
        start.wait(timeout=PATIENCE_S)
        replies = [client.evalsha(sha1, 1, key, *args) for args in asked[number::CONNECTIONS]]
        client.close()
        return replies

    with ThreadPoolExecutor(max_workers=CONNECTIONS) as pool:
        return [reply for replies in pool.map(one_connection, range(CONNECTIONS)) for reply in replies]


@pytest.mark.parametrize(("script", "rule"), RULES, ids=[script for script, _rule in RULES])
def test_exactly_the_limit_is_admitted(limiter: Limiter, key: str, script: str, rule: tuple[int, ...]) -> None:
    replies = all_at_once(limiter, script, key, [(*rule, 1)] * CALLS)
    admitted = [reply for reply in replies if reply[0]]
    assert len(replies) == CALLS
    assert len(admitted) == LIMIT
    assert sorted(reply[2] for reply in admitted) == list(range(LIMIT)), "no two were told the same remainder"
    assert {reply[5] for reply in replies if not reply[0]} == {1}


@pytest.mark.parametrize(("script", "rule"), RULES, ids=[script for script, _rule in RULES])
def test_costs_add_up_to_no_more_than_the_limit(limiter: Limiter, key: str, script: str, rule: tuple[int, ...]) -> None:
    asked = [(*rule, 1 + number % 5) for number in range(CALLS // 2)]
    left = [limit_left for admitted, _limit, limit_left, *_rest in all_at_once(limiter, script, key, asked) if admitted]
    assert min(left) == limiter.call(script, key, *rule, 0)[2] == 0
    assert len(set(left)) == len(left)


def test_exactly_the_limit_of_leases_is_handed_out(limiter: Limiter, key: str) -> None:
    asked: list[tuple[Argument, ...]] = [("acquire", LIMIT, LONG_MS, f"request-{number}") for number in range(CALLS)]
    replies = all_at_once(limiter, "concurrent", key, asked)
    assert sum(reply[0] for reply in replies) == LIMIT
    assert limiter.client.zcard(key) == LIMIT


def test_the_same_request_asked_everywhere_holds_one_lease(limiter: Limiter, key: str) -> None:
    replies = all_at_once(limiter, "concurrent", key, [("acquire", LIMIT, LONG_MS, "one")] * CALLS)
    assert {tuple(reply[:3]) for reply in replies} == {(1, LIMIT, LIMIT - 1)}
    assert limiter.client.zcard(key) == 1
