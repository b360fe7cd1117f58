"""A script in a later release replies and stores exactly as the one before, also if both serve one key."""

import itertools

import pytest

from rlctl.limits.release import Script
from rlctl.scripts.release import load_release
from tests.local.limiter.server import Argument, Limiter
from tests.local.limiter.walks import SEED, WALKS, calls, chance_of

WALKS_EACH = 300
BEFORE = {script.name: script for script in load_release(wanted="1.0.0").scripts}
REPLACED = [
    script
    for script in load_release().scripts
    if script.sha1 != BEFORE[script.name].sha1 and script.state == BEFORE[script.name].state
]
# The state of a key after a call, and the reply of the call.
Outcome = tuple[list[int], bytes | None]


@pytest.mark.parametrize("script", REPLACED, ids=lambda script: f"{script.name}-{script.version}")
def test_replies_and_states_are_those_of_the_version_before(limiter: Limiter, script: Script) -> None:
    before = BEFORE[script.name]
    limiter.client.script_load(before.source.decode("ascii"))
    [walk] = [walk for walk in WALKS if walk.script == script.name]
    for number in range(WALKS_EACH):
        chance = chance_of("releases", script.name, number)
        # Refunds are new in 1.2.0.
        asked = list(calls(walk, chance, has_refunds=False))
        expected = outcomes(limiter, [before.sha1], asked)
        mixed = [chance.choice([before.sha1, script.sha1]) for _ in asked]
        for sha1s in ([script.sha1], mixed):
            found = outcomes(limiter, sha1s, asked)
            for at, (one, other) in enumerate(zip(found, expected, strict=True)):
                assert one == other, f"seed {SEED}, walk {number}, step {at}: {asked[max(0, at - 5) : at + 1]}"


def test_every_replaced_script_has_a_walk() -> None:
    assert REPLACED, "without a replaced script the test above tests nothing"
    assert {script.name for script in REPLACED} <= {walk.script for walk in WALKS}


def outcomes(limiter: Limiter, sha1s: list[str], asked: list[tuple[Argument, ...]]) -> list[Outcome]:
    """One walk on a new key with alternating versions, in one round trip."""
    key = limiter.fresh_key()
    pipeline = limiter.client.pipeline(transaction=False)
    for sha1, args in zip(itertools.cycle(sha1s), asked, strict=False):
        pipeline.evalsha(sha1, 1, key, *args)
        pipeline.dump(key)
    answers = pipeline.execute()
    return list(zip(answers[::2], answers[1::2], strict=True))
