"""When a step that was left out counts as missed."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from rlctl.runbooks.model import Risk
from rlctl.runbooks.order import TrialResult
from rlctl.runbooks.page import read_page
from rlctl.runbooks.proof import missed
from tests.unit.runbooks.test_reading_pages import BODY, FRONT, NAME

[STEP] = [step for step in read_page(FRONT + BODY, NAME).steps if step.id == "fix"]
GREEN = TrialResult(steps=(), why=None, recovered_s=1.0)
RED = TrialResult(steps=(), why="well: exit 11, expected 0", recovered_s=None)


@pytest.mark.parametrize(
    ("risk", "results", "is_missed", "trials"),
    [
        (Risk.MUTATE, [RED, GREEN], True, 1),
        (Risk.MUTATE, [GREEN, RED], True, 2),
        (Risk.MUTATE, [GREEN, GREEN], False, 2),
        (Risk.DANGER, [RED, RED], True, 2),
        (Risk.DANGER, [RED, GREEN], False, 2),
        (Risk.DANGER, [GREEN, RED], False, 1),
    ],
)
def test_danger_has_to_be_needed_each_time(
    risk: Risk, results: list[TrialResult], trials: int, *, is_missed: bool
) -> None:
    made: list[TrialResult] = []

    def make() -> Iterator[TrialResult]:
        for result in results:
            made.append(result)
            yield result

    reason = missed(replace(STEP, risk=risk), make())
    assert reason == (RED.reason if is_missed else None)
    assert len(made) == trials
