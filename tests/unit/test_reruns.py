import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests import conftest, drills
from tests.driver import Ran
from tests.reruns import TRIES, Attempts, take, until_undisturbed

STALL = "the machine stalled: no sample for 1600 ms"
LOW = "the load was too low: the hot user never used the limit up on node-0"
BROKEN = "I5 ledgers agree: no whole final ledger of any node"


@pytest.fixture(autouse=True)
def _runs_in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drills, "runs_of", lambda out: json.loads(out)["runs"] if out else [])


def ran(*runs: tuple[str, Sequence[str]], code: int = 16, err: str = "") -> Ran:
    told = [{"verdict": verdict, "reasons": list(reasons)} for verdict, reasons in runs]
    return Ran(code=code, out=json.dumps({"runs": told}) if told else "", err=err)


@pytest.mark.parametrize(
    ("done", "why"),
    [
        pytest.param(ran(("inconclusive", [STALL])), STALL, id="a stall"),
        pytest.param(ran(("inconclusive", [BROKEN, STALL])), STALL, id="a stall that broke a check"),
        pytest.param(ran(("inconclusive", [LOW, "ratio 1, expected at least 1.9"])), LOW, id="too little load"),
        pytest.param(ran(("pass", []), ("inconclusive", [STALL])), STALL, id="one of two"),
        pytest.param(ran(("inconclusive", [BROKEN])), None, id="a broken check alone"),
        pytest.param(ran(("inconclusive", [BROKEN, LOW])), None, id="low load is not the reason"),
        pytest.param(ran(("fail", ["lost 0, expected at least 1"])), None, id="a failure"),
        pytest.param(ran(("fail", ["budget", STALL])), None, id="a failure on a machine that stalled"),
        pytest.param(ran(("fail", ["lost 0"]), ("inconclusive", [STALL])), None, id="a failure beside a stall"),
        pytest.param(ran(("inconclusive", [BROKEN]), ("inconclusive", [STALL])), None, id="a check beside a stall"),
        pytest.param(ran(("pass", []), code=1), None, id="an unexpected end after a pass"),
        pytest.param(ran(code=7, err="x: timed out after 60 s"), "x: timed out after 60 s", id="no twin in time"),
        pytest.param(ran(code=6, err="run 1 ended with -9 before it began"), None, id="no twin, and no deadline"),
    ],
)
def test_only_what_a_run_itself_calls_disturbed_is_repeated(done: Ran, why: str | None) -> None:
    assert drills.disturbance(done) == why


def test_a_busy_machine_does_not_excuse_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (99.0, 99.0, 99.0))
    answers = iter([ran(("fail", ["lost 0, expected at least 1"]), code=14), ran(("pass", []), code=0)])
    with pytest.raises(AssertionError, match="expected at least 1"):
        drills.made(lambda: next(answers), "crash")
    assert take() == Attempts(first=1)


def test_a_rerun_is_written_down() -> None:
    answers = iter([ran(("inconclusive", [STALL])), ran(("pass", []), code=0)])
    assert [run["verdict"] for run in drills.made(lambda: next(answers), "run crash")] == ["pass"]
    assert take() == Attempts(first=1, again=[f"run crash: {STALL}"])


def test_an_expected_end_is_not_repeated() -> None:
    answers = iter([ran(("inconclusive", [STALL]))])
    drills.made(lambda: next(answers), "run crash", expect=16)
    assert take() == Attempts(first=1)


def test_who_is_disturbed_for_ever_is_tried_so_often() -> None:
    results = iter(range(9))
    assert until_undisturbed(lambda: next(results), "x", lambda _: "stalled") == TRIES - 1
    assert len(take().again) == TRIES - 1


@pytest.mark.parametrize(
    ("first", "again", "is_too_many"),
    [(0, 0, False), (1, 1, False), (10, 1, False), (10, 2, True), (66, 2, True), (67, 2, False), (100, 3, False)],
)
def test_more_than_three_percent_are_too_many(first: int, again: int, *, is_too_many: bool) -> None:
    assert Attempts(first=first, again=["x: stalled"] * again).is_too_many is is_too_many


@pytest.mark.parametrize(("required", "outcome"), [((), pytest.skip.Exception), (("docker",), pytest.fail.Exception)])
def test_a_missing_layer_fails_where_it_is_required(
    monkeypatch: pytest.MonkeyPatch, required: Sequence[str], outcome: type[Any]
) -> None:
    monkeypatch.setattr(conftest, "REQUIRED", frozenset(required))
    with pytest.raises(outcome, match=r"docker.*no engine"):
        conftest.skip_or_fail("docker", "no engine")
