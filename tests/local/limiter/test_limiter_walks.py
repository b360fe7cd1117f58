"""Random walks beside small exact models, step by step; RLCTL_SEED chooses other walks."""

from collections.abc import Callable
from typing import Protocol

import pytest

from tests.local.limiter.models import Concurrent, FixedWindow, Gcra, RollingWindow, SlidingCounter, TokenBucket
from tests.local.limiter.server import MS, Argument, Limiter
from tests.local.limiter.walks import SEED, WALKS, Walk, calls, chance_of

WALKS_EACH = 150


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
        replies = answers(limiter, walk.script, asked)
        model = MODELS[walk.script]()
        for at, (args, reply) in enumerate(zip(asked, replies, strict=True)):
            expected = model.call(*args)
            assert reply == expected, f"seed {SEED}, walk {number}, step {at}: {asked[max(0, at - 5) : at + 1]}"


@pytest.mark.parametrize("number", range(3), ids=lambda number: f"part-{number}")
def test_the_ring_answers_as_the_sorted_set_at_whole_milliseconds(limiter: Limiter, number: int) -> None:
    [walk] = [walk for walk in WALKS if walk.script == "rolling_ring"]
    for part in range(WALKS_EACH // 3):
        asked = list(calls(walk, chance_of("both", number, part), unit=MS))
        assert answers(limiter, "rolling_ring", asked) == answers(limiter, "rolling_window", asked)


def answers(limiter: Limiter, script: str, asked: list[tuple[Argument, ...]]) -> list[list[int]]:
    """All replies of one walk on a fresh key, in one round trip; what is left always has an end."""
    key, sha1 = limiter.fresh_key(), limiter.sha1(script)
    pipeline = limiter.client.pipeline(transaction=False)
    for args in asked:
        pipeline.evalsha(sha1, 1, key, *args)
    replies: list[list[int]] = pipeline.execute()
    assert not limiter.client.exists(key) or limiter.client.pttl(key) > 0
    return replies
