"""Expiry of keys: the remaining time of the state plus one second, exact between two readings of the clock."""

import pytest

from tests.local.limiter.server import DAY, MS, SECOND, T0, Argument, Limiter

MARGIN_MS = 1000
Call = tuple[int, tuple[Argument, ...]]

ENDS = [
    pytest.param("token_bucket", [(0, (10, 1, 1000, 3))], 3000, id="token_bucket-time-to-full"),
    pytest.param("token_bucket", [(0, (10, 3, 1000, 1))], 334, id="token_bucket-rounded-up"),
    pytest.param("token_bucket", [(0, (1, 10, 1000, 1))], 100, id="token_bucket-ten-a-second"),
    pytest.param("token_bucket", [(0, (10, 1, 1000, 3)), (2500 * MS, (10, 1, 1000, 1))], 1500, id="token_bucket-again"),
    pytest.param(
        "token_bucket", [(0, (10, 1, 1000, 3)), (-5 * SECOND, (10, 1, 1000, 1))], 4000, id="token_bucket-back"
    ),
    pytest.param("token_bucket", [(0, (10, 1, 1000, 9)), (-DAY, (10, 1, 1000, 9))], 9000, id="token_bucket-far-back"),
    pytest.param("gcra", [(0, (10, 1, 1000, 3))], 3000, id="gcra-time-to-full"),
    pytest.param("gcra", [(0, (10, 3, 1000, 1))], 334, id="gcra-rounded-up"),
    pytest.param("gcra", [(0, (10, 1, 1000, 10)), (-DAY, (10, 1, 1000, 1))], 10_000, id="gcra-far-back-denied"),
    pytest.param("fixed_window", [(200 * MS, (3, 1000, 1))], 800, id="fixed_window-to-its-end"),
    pytest.param("fixed_window", [(999_999, (3, 1000, 1))], 1, id="fixed_window-rounded-up"),
    pytest.param("fixed_window", [(0, (3, 1000, 3)), (-DAY - 300 * MS, (3, 1000, 1))], 300, id="fixed_window-far-back"),
    pytest.param("sliding_counter", [(200 * MS, (3, 1000, 1))], 1800, id="sliding_counter-to-the-end-of-the-next"),
    pytest.param("sliding_counter", [(1, (3, 1000, 1))], 2000, id="sliding_counter-rounded-up"),
    pytest.param(
        "sliding_counter", [(0, (3, 1000, 3)), (-DAY - 300 * MS, (3, 1000, 1))], 1300, id="sliding_counter-far-back"
    ),
    pytest.param("rolling_window", [(0, (3, 7000, 0, 1)), (500, (3, 7000, 0, 1))], 7000, id="rolling_window"),
    pytest.param("rolling_ring", [(0, (3, 7000, 0, 1)), (500, (3, 7000, 0, 1))], 7000, id="rolling_ring"),
    pytest.param("rolling_ring", [(0, (3, 7000, 0, 1)), (0, (4, 7000, 0, 1))], 7000, id="rolling_ring-packed-anew"),
    pytest.param("token_bucket", [(0, (10, 1, 1000, 3)), (0, (10, 1, 1000, -2))], 1000, id="token_bucket-refund"),
    pytest.param("gcra", [(0, (10, 1, 1000, 3)), (0, (10, 1, 1000, -9))], 0, id="gcra-refund"),
    pytest.param("fixed_window", [(0, (3, 1000, 3)), (0, (3, 1000, -1))], 1000, id="fixed_window-refund"),
    pytest.param("sliding_counter", [(0, (3, 1000, 3)), (0, (3, 1000, -1))], 2000, id="sliding_counter-refund"),
    pytest.param("concurrent", [(0, ("acquire", 3, 5000, "a"))], 5000, id="concurrent"),
    pytest.param(
        "concurrent",
        [(0, ("acquire", 3, 5000, "a")), (SECOND, ("acquire", 3, 2500, "b"))],
        4000,
        id="concurrent-longest-lease-left",
    ),
    pytest.param(
        "concurrent",
        [(0, ("acquire", 3, 5000, "a")), (0, ("acquire", 3, 1500, "b")), (0, ("release", 3, 1000, "a"))],
        1500,
        id="concurrent-after-a-release",
    ),
    pytest.param(
        "concurrent", [(0, ("acquire", 3, 1, "a")), (0, ("renew", 3, 9000, "a"))], 9000, id="concurrent-renewed"
    ),
]


@pytest.mark.parametrize(("script", "calls", "left_ms"), ENDS)
def test_a_key_ends_when_its_state_does_and_a_second_later(
    limiter: Limiter, key: str, script: str, calls: list[Call], left_ms: int
) -> None:
    *first, (at, args) = calls
    for earlier, arguments in first:
        limiter.call(script, key, *arguments, T0 + earlier)
    before = limiter.now_us() // MS
    limiter.call(script, key, *args, T0 + at)
    after = limiter.now_us() // MS
    assert before <= limiter.client.pexpiretime(key) - left_ms - MARGIN_MS <= after
