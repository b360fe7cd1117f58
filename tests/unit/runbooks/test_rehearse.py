"""When a step that was left out counts as missed."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from rlctl.errors import Unreachable
from rlctl.execute.progress import SILENT_PROGRESS
from rlctl.execute.stop import StopFlag
from rlctl.runbooks.page.load import read_page
from rlctl.runbooks.page.model import Risk
from rlctl.runbooks.rehearsal import RehearsalRequest, RehearsalResult
from rlctl.runbooks.rehearse import RehearsalNotMade, Rehearser, effect_of_omission
from rlctl.state.home import Home
from rlctl.topology.model import Kind
from tests.unit.runbooks.test_reading_pages import BODY, FRONT, NAME

[STEP] = [step for step in read_page(FRONT + BODY, NAME).steps if step.id == "fix"]
GREEN = RehearsalResult(steps=(), why=None, recovered_s=1.0)
RED = RehearsalResult(steps=(), why="well: exit 11, expected 0", recovered_s=None)


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
    risk: Risk, results: list[RehearsalResult], trials: int, *, is_missed: bool
) -> None:
    made: list[RehearsalResult] = []

    def make() -> Iterator[RehearsalResult]:
        for result in results:
            made.append(result)
            yield result

    reason = effect_of_omission(replace(STEP, risk=risk), make())
    assert reason == (RED.reason if is_missed else None)
    assert len(made) == trials


@pytest.mark.parametrize(
    ("failures", "trials", "is_repeated"),
    [
        pytest.param([], 1, False, id="made"),
        pytest.param([RehearsalNotMade("x: not so after 60 s")], 2, True, id="not built"),
        pytest.param([RehearsalNotMade("x: not so after 60 s")] * 2, 2, True, id="not built twice"),
        pytest.param([Unreachable("exit -9")], 1, False, id="crashed"),
    ],
)
def test_only_a_trial_that_says_why_it_was_not_made_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: list[Exception], trials: int, *, is_repeated: bool
) -> None:
    made: list[RehearsalRequest] = []

    def make(_prover: Rehearser, order: RehearsalRequest) -> RehearsalResult:
        made.append(order)
        if len(failures) >= len(made):
            raise failures[len(made) - 1]
        return GREEN

    monkeypatch.setattr(Rehearser, "_try_once", make)
    rehearser = Rehearser(home=Home(tmp_path), jobs=1, progress=SILENT_PROGRESS, stop=StopFlag())
    with pytest.raises(Unreachable) if len(failures) == trials else nullcontext():
        assert rehearser._try(RehearsalRequest(page="RB-01", kind=Kind.CLUSTER, rehearsal=0)) is GREEN
    assert len(made) == trials
    assert rehearser._repeated == ["x: not so after 60 s"] * is_repeated


@pytest.mark.parametrize(("passages_only", "omitted"), [(False, ["fix", "unfence"]), (True, [])])
def test_passages_alone_leave_no_step_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, omitted: list[str], *, passages_only: bool
) -> None:
    page = read_page(FRONT + BODY, NAME)
    taken = [{"id": step.id, "outcome": "done", "elapsed_s": 1.0} for step in page.steps]
    orders: list[RehearsalRequest] = []

    def make(_prover: Rehearser, order: RehearsalRequest) -> RehearsalResult:
        orders.append(order)
        return RED if order.omitted else replace(GREEN, steps=tuple(taken))

    monkeypatch.setattr(Rehearser, "_try_once", make)
    monkeypatch.setattr("rlctl.runbooks.rehearse.why_unavailable", lambda _runner: None)
    rehearser = Rehearser(
        home=Home(tmp_path), jobs=1, progress=SILENT_PROGRESS, stop=StopFlag(), without_omissions=passages_only
    )
    report = rehearser.rehearse_all([page], [Kind.CLUSTER])
    assert report.holds
    assert [order.omitted for order in orders if order.omitted] == omitted
    assert [one.step.id for one in report.omissions] == omitted
