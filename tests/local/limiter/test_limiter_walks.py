"""Random walks compared with exact models, step by step; RLCTL_SEED selects other walks."""

from collections.abc import Callable
from itertools import accumulate
from typing import Protocol

import pytest

from tests.local.limiter.models import Concurrent, FixedWindow, Gcra, RollingWindow, SlidingCounter, TokenBucket
from tests.local.limiter.server import MS, Argument, Limiter
from tests.local.limiter.walks import SEED, WALKS, Walk, calls, chance_of

WALKS_EACH = 150
# The reply of PTTL for a missing key; the reply for a key without expiry is -1.
ABSENT = -2
# A key expires a second after its state.
MARGIN_MS = 1000


class Model(Protocol):
    def call(self, *args: Argument) -> list[int]: ...


MODELS: dict[str, Callable[[], Model]] = {
    "token_bucket": TokenBucket,
    "gcra": Gcra,
    "fixed_window": FixedWindow,
    "sliding_counter": SlidingCounter,
    "rolling_window": RollingWindow,
    "rolling_ring": lambda: RollingWindow(unit=MS),
    "concurrent": Concurrent,
}


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.script)
def test_every_reply_is_that_of_the_model(limiter: Limiter, walk: Walk) -> None:
    for number in range(WALKS_EACH):
        asked = list(calls(walk, chance_of(walk.script, number)))
        replies = answers(limiter, walk, asked)
        model = MODELS[walk.script]()
        for at, (args, reply) in enumerate(zip(asked, replies, strict=True)):
            expected = model.call(*args)
            assert reply == expected, f"seed {SEED}, walk {number}, step {at}: {asked[max(0, at - 5) : at + 1]}"


@pytest.mark.parametrize("number", range(3), ids=lambda number: f"part-{number}")
def test_the_ring_answers_as_the_sorted_set_at_whole_milliseconds(limiter: Limiter, number: int) -> None:
    ring, log = (walk for name in ("rolling_ring", "rolling_window") for walk in WALKS if walk.script == name)
    for part in range(WALKS_EACH // 3):
        asked = list(calls(ring, chance_of("both", number, part), unit=MS))
        assert answers(limiter, ring, asked) == answers(limiter, log, asked)


def answers(limiter: Limiter, walk: Walk, asked: list[tuple[Argument, ...]]) -> list[list[int]]:
    """All replies of one walk on a new key, in one round trip. After each, the key must expire with its state."""
    key, sha1 = limiter.fresh_key(), limiter.sha1(walk.script)
    pipeline = limiter.client.pipeline(transaction=False)
    for args in asked:
        pipeline.evalsha(sha1, 1, key, *args)
        pipeline.pttl(key)
    found = pipeline.execute()
    longest = accumulate(map(walk.lasts_ms, asked), max)
    for at, (left_ms, lasts_ms) in enumerate(zip(found[1::2], longest, strict=True)):
        assert left_ms == ABSENT or 0 <= left_ms <= lasts_ms + MARGIN_MS, (
            f"seed {SEED}, step {at}: the key lives for {left_ms} ms after {asked[max(0, at - 5) : at + 1]}"
        )
    return found[::2]
