"""A passage: steps in order, conditions, values from one step to the next, endings."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest

from rlctl.errors import Declined
from rlctl.runbooks.page.blocks import words
from rlctl.runbooks.page.load import read_page
from rlctl.runbooks.page.model import PageSection, Step, StepCondition
from rlctl.runbooks.rehearse import LEAST_PATIENCE_S, patience
from rlctl.runbooks.run import PageRun, RlctlRunner, RunResult, StepRun
from rlctl.system.process import Finished
from rlctl.topology.model import Kind
from tests.unit.runbooks.test_reading_pages import BODY, FRONT, NAME

ILL = {"state": "degraded", "findings": [{"code": "x", "text": "ill"}], "nodes": [{"name": "node 0", "shard": 0}]}
WELL = {"state": "healthy", "findings": [], "nodes": [{"name": "node-0", "shard": 0}]}


class Ticking:
    """Every look at the clock is a second later."""

    def __init__(self) -> None:
        self._ticks = count()

    def monotonic(self) -> float:
        return float(next(self._ticks))


LATE = Finished(code=143, output="", errors="3/6 node-2: start\n", timed_out=True)


@dataclass
class Pretender:
    """Answers commands by their beginning."""

    answers: dict[str, list[Finished]]
    asked: list[tuple[str, float]] = field(default_factory=list)

    def run(self, command: str, *, timeout_s: float) -> Finished:
        self.asked.append((command, timeout_s))
        answers = next(answers for start, answers in self.answers.items() if command.startswith(start))
        return answers.pop(0) if len(answers) > 1 else answers[0]


def printed(document: object, code: int = 0) -> Finished:
    return Finished(code=code, output=json.dumps(document), errors="")


def runner(**changes: list[Finished]) -> Pretender:
    answers: dict[str, list[Finished]] = {
        "rlctl status": [printed(ILL, 11), printed(WELL)],
        "rlctl doctor": [printed({})],
        "rlctl history": [printed({})],
        "rlctl deploy": [printed({})],
        "rlctl unfence": [printed({})],
    }
    return Pretender({**answers, **{f"rlctl {name}": value for name, value in changes.items()}})


def page_run(pretender: Pretender, **changes: object) -> tuple[RunResult, list[StepRun]]:
    told: list[StepRun] = []
    settings: dict[str, object] = {
        "page": read_page(FRONT + BODY, NAME),
        "kind": Kind.CLUSTER,
        "values": {"RL_FLEET": "limiter"},
        "runner": pretender,
        "clock": Ticking(),
        "agree": lambda _step, _command: None,
        "report": told.append,
        **changes,
    }
    return PageRun(**settings).carry_out(), told  # type: ignore[arg-type]


def outcomes(run: RunResult) -> dict[str, str]:
    return {result.step.id: result.outcome.value for result in run.results}


def test_from_the_first_step_to_the_last() -> None:
    pretender = runner()
    run, told = page_run(pretender)
    assert set(outcomes(run).values()) == {"done"}
    assert run.failed is None
    assert run.recovered_s is not None
    assert tuple(told) == run.results
    assert pretender.asked[-1] == ("rlctl unfence 'node 0' --yes -o json", 60.0), "values are quoted"
    assert pretender.asked[3] == ("rlctl deploy --yes -o json", 120.0)


def test_a_step_that_is_not_called_for() -> None:
    run, _ = page_run(runner(status=[printed(WELL)]))
    assert outcomes(run)["fix"] == "skipped"
    assert run.failed is None


def test_values_may_look_like_variables() -> None:
    odd = {"name": "node $RL_FLEET ${x} 'y'", "shard": 0}
    pretender = runner(status=[printed({**ILL, "nodes": [odd]}, 11), printed(WELL)])
    run, _ = page_run(pretender)
    assert run.failed is None
    assert words(pretender.asked[-1][0])[2] == odd["name"]


def test_a_check_that_is_left_out_says_nothing() -> None:
    page = read_page(FRONT + BODY, NAME)
    never = StepCondition(step="look", query="state=='healthy'")
    steps = tuple(replace(step, when=never) if step.section is PageSection.VERIFY else step for step in page.steps)
    run, _ = page_run(runner(), page=replace(page, steps=steps))
    assert outcomes(run)["well"] == "skipped"
    assert run.failed is None
    assert run.recovered_s is None


def test_a_step_of_the_other_kind() -> None:
    run, _ = page_run(runner(), kind=Kind.SENTINEL)
    assert "fix" not in outcomes(run)


@pytest.mark.parametrize(
    ("changes", "step", "why"),
    [
        ({"status": [printed(ILL, 12)]}, "look", "exit 12, expected 0 or 11"),
        ({"deploy": [Finished(code=13, output="", errors="{}")]}, "fix", "exit 13, expected 0"),
        ({"deploy": [LATE]}, "fix", "did not end within 120 s"),
        ({"status": [printed(ILL, 11), printed(ILL)]}, "well", "expected: state=='healthy'"),
        ({"status": [printed(ILL, 11), Finished(code=0, output="no JSON", errors="")]}, "well", "expected: state"),
        ({"status": [printed({"findings": []}), printed(WELL)]}, "unfence", "no step before it set $RL_NODE"),
    ],
)
def test_it_ends_where_something_is_not_as_expected(changes: dict[str, list[Finished]], step: str, why: str) -> None:
    run, told = page_run(runner(**changes))
    assert run.failed is not None
    assert run.failed.step.id == step
    assert run.failed.why.startswith(why)
    assert told[-1] is run.failed
    assert run.recovered_s is None


def test_a_step_out_of_time_keeps_what_it_said() -> None:
    run, _ = page_run(runner(deploy=[LATE]))
    assert run.failed is not None
    assert (run.failed.exit_code, run.failed.output, run.failed.errors) == (143, "", "3/6 node-2: start\n")


def test_nothing_that_mutates_is_done_without_leave() -> None:
    asked: list[str] = []

    def refuse(step: Step, command: str) -> None:
        asked.append(f"{step.id}: {command}")
        raise Declined("no")

    pretender = runner()
    with pytest.raises(Declined):
        page_run(pretender, agree=refuse)
    assert asked == ["fix: rlctl deploy --yes -o json"]
    assert not any(command.startswith("rlctl deploy") for command, _ in pretender.asked)


def test_steps_can_be_left_out_and_hurried() -> None:
    pretender = runner()
    run, _ = page_run(pretender, omitted=frozenset({"fix"}), patience_s={"doctor": 7.0})
    assert "fix" not in outcomes(run)
    assert dict(pretender.asked)["rlctl doctor -o json"] == 7.0


def test_a_step_is_announced_before_it_is_taken() -> None:
    happened: list[str] = []
    page_run(
        runner(),
        announce=lambda step, _command: happened.append(step.id),
        agree=lambda step, _command: happened.append(f"agree {step.id}"),
        report=lambda result: happened.append(f"{result.step.id} {result.outcome}"),
    )
    assert happened[:2] == ["look", "look done"]
    assert happened.index("fix") < happened.index("agree fix") < happened.index("fix done")


def test_others_act_before_a_step() -> None:
    seen: list[str] = []
    page_run(runner(), before=lambda step: seen.append(step.id))
    assert seen == ["look", "doctor", "history", "fix", "well", "unfence"]


def test_recovery_is_the_time_of_the_last_check() -> None:
    run, _ = page_run(runner())
    assert [result.step.section for result in run.results][-2:] == [PageSection.VERIFY, PageSection.UNDO]
    assert run.recovered_s == 2 * 5 + 1, "two looks at the clock for each step to the check, and one after it"


def test_a_step_is_run_by_this_very_rlctl(tmp_path: Path) -> None:
    seen: list[Sequence[str]] = []

    class Noting:
        def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
            seen.append(argv)
            return Finished(code=0, output=str(timeout_s), errors="")

    RlctlRunner(runner=Noting(), file=tmp_path / "my fleet.yaml").run("rlctl unfence 'node 0' --yes", timeout_s=1.0)
    own = [sys.executable, "-P", "-m", "rlctl", "--file", str(tmp_path / "my fleet.yaml")]
    assert seen == [[*own, "unfence", "node 0", "--yes"]], "whatever lies in the working folder"


def test_patience_grows_with_what_was_needed() -> None:
    allowed = patience([{"id": "a", "elapsed_s": 0.1}, {"id": "b", "elapsed_s": 10.0}])
    assert allowed["a"] == LEAST_PATIENCE_S
    assert allowed["b"] == 30.0
