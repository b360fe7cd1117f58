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
from rlctl.runbooks.page.model import Condition, Section, Step
from rlctl.runbooks.rehearse import LEAST_PATIENCE_S, patience
from rlctl.runbooks.run import OwnHand, StepResult, Walk, Walked
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


def hand(**changes: list[Finished]) -> Pretender:
    answers: dict[str, list[Finished]] = {
        "rlctl status": [printed(ILL, 11), printed(WELL)],
        "rlctl doctor": [printed({})],
        "rlctl history": [printed({})],
        "rlctl deploy": [printed({})],
        "rlctl unfence": [printed({})],
    }
    return Pretender({**answers, **{f"rlctl {name}": value for name, value in changes.items()}})


def walk(pretender: Pretender, **changes: object) -> tuple[Walked, list[StepResult]]:
    told: list[StepResult] = []
    settings: dict[str, object] = {
        "page": read_page(FRONT + BODY, NAME),
        "kind": Kind.CLUSTER,
        "values": {"RL_FLEET": "limiter"},
        "hand": pretender,
        "clock": Ticking(),
        "agree": lambda _step, _command: None,
        "tell": told.append,
        **changes,
    }
    return Walk(**settings).carry_out(), told  # type: ignore[arg-type]


def outcomes(walked: Walked) -> dict[str, str]:
    return {result.step.id: result.outcome.value for result in walked.results}


def test_from_the_first_step_to_the_last() -> None:
    pretender = hand()
    walked, told = walk(pretender)
    assert set(outcomes(walked).values()) == {"done"}
    assert walked.failed is None
    assert walked.recovered_s is not None
    assert tuple(told) == walked.results
    assert pretender.asked[-1] == ("rlctl unfence 'node 0' --yes -o json", 60.0), "values are quoted"
    assert pretender.asked[3] == ("rlctl deploy --yes -o json", 120.0)


def test_a_step_that_is_not_called_for() -> None:
    walked, _ = walk(hand(status=[printed(WELL)]))
    assert outcomes(walked)["fix"] == "skipped"
    assert walked.failed is None


def test_values_may_look_like_variables() -> None:
    odd = {"name": "node $RL_FLEET ${x} 'y'", "shard": 0}
    pretender = hand(status=[printed({**ILL, "nodes": [odd]}, 11), printed(WELL)])
    walked, _ = walk(pretender)
    assert walked.failed is None
    assert words(pretender.asked[-1][0])[2] == odd["name"]


def test_a_check_that_is_left_out_says_nothing() -> None:
    page = read_page(FRONT + BODY, NAME)
    never = Condition(step="look", query="state=='healthy'")
    steps = tuple(replace(step, when=never) if step.section is Section.VERIFY else step for step in page.steps)
    walked, _ = walk(hand(), page=replace(page, steps=steps))
    assert outcomes(walked)["well"] == "skipped"
    assert walked.failed is None
    assert walked.recovered_s is None


def test_a_step_of_the_other_kind() -> None:
    walked, _ = walk(hand(), kind=Kind.SENTINEL)
    assert "fix" not in outcomes(walked)


@pytest.mark.parametrize(
    ("changes", "step", "why"),
    [
        ({"status": [printed(ILL, 12)]}, "look", "exit 12, expected 0 or 11"),
        ({"deploy": [Finished(code=13, output="", errors="{}")]}, "fix", "exit 13, expected 0"),
        ({"deploy": [LATE]}, "fix", "did not end within 120 s"),
        ({"status": [printed(ILL, 11), printed(ILL)]}, "well", "expected: state=='healthy'"),
        ({"status": [printed(ILL, 11), Finished(code=0, output="no JSON", errors="")]}, "well", "expected: state"),
        ({"status": [printed({"findings": []}), printed(WELL)]}, "unfence", "nothing before it told $RL_NODE"),
    ],
)
def test_it_ends_where_something_is_not_as_expected(changes: dict[str, list[Finished]], step: str, why: str) -> None:
    walked, told = walk(hand(**changes))
    assert walked.failed is not None
    assert walked.failed.step.id == step
    assert walked.failed.why.startswith(why)
    assert told[-1] is walked.failed
    assert walked.recovered_s is None


def test_a_step_out_of_time_keeps_what_it_said() -> None:
    walked, _ = walk(hand(deploy=[LATE]))
    assert walked.failed is not None
    assert (walked.failed.exit_code, walked.failed.output, walked.failed.errors) == (143, "", "3/6 node-2: start\n")


def test_nothing_that_mutates_is_done_without_leave() -> None:
    asked: list[str] = []

    def refuse(step: Step, command: str) -> None:
        asked.append(f"{step.id}: {command}")
        raise Declined("no")

    pretender = hand()
    with pytest.raises(Declined):
        walk(pretender, agree=refuse)
    assert asked == ["fix: rlctl deploy --yes -o json"]
    assert not any(command.startswith("rlctl deploy") for command, _ in pretender.asked)


def test_steps_can_be_left_out_and_hurried() -> None:
    pretender = hand()
    walked, _ = walk(pretender, omitted=frozenset({"fix"}), patience_s={"doctor": 7.0})
    assert "fix" not in outcomes(walked)
    assert dict(pretender.asked)["rlctl doctor -o json"] == 7.0


def test_a_step_is_announced_before_it_is_taken() -> None:
    happened: list[str] = []
    walk(
        hand(),
        announce=lambda step, _command: happened.append(step.id),
        agree=lambda step, _command: happened.append(f"agree {step.id}"),
        tell=lambda result: happened.append(f"{result.step.id} {result.outcome}"),
    )
    assert happened[:2] == ["look", "look done"]
    assert happened.index("fix") < happened.index("agree fix") < happened.index("fix done")


def test_others_act_before_a_step() -> None:
    seen: list[str] = []
    walk(hand(), before=lambda step: seen.append(step.id))
    assert seen == ["look", "doctor", "history", "fix", "well", "unfence"]


def test_recovery_is_the_time_of_the_last_check() -> None:
    walked, _ = walk(hand())
    assert [result.step.section for result in walked.results][-2:] == [Section.VERIFY, Section.UNDO]
    assert walked.recovered_s == 2 * 5 + 1, "two looks at the clock for each step to the check, and one after it"


def test_a_step_is_run_by_this_very_rlctl(tmp_path: Path) -> None:
    seen: list[Sequence[str]] = []

    class Noting:
        def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
            seen.append(argv)
            return Finished(code=0, output=str(timeout_s), errors="")

    OwnHand(runner=Noting(), file=tmp_path / "my fleet.yaml").run("rlctl unfence 'node 0' --yes", timeout_s=1.0)
    own = [sys.executable, "-P", "-m", "rlctl", "--file", str(tmp_path / "my fleet.yaml")]
    assert seen == [[*own, "unfence", "node 0", "--yes"]], "whatever lies in the working folder"


def test_patience_grows_with_what_was_needed() -> None:
    given = patience([{"id": "a", "elapsed_s": 0.1}, {"id": "b", "elapsed_s": 10.0}])
    assert given["a"] == LEAST_PATIENCE_S
    assert given["b"] == 30.0
