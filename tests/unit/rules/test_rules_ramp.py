"""Failures during a ramp, on a fleet that gives prepared answers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from rlctl.errors import CheckFailed, NotFound, Refused, Unreachable
from rlctl.execute.stop import StopFlag
from rlctl.limits.rule import Revision, RuleSet
from rlctl.rules import ramp_watch
from rlctl.rules.change import ChangeResult, NotReadBack, RampStep, RulesEdit, RulesPlan
from rlctl.rules.conditions import parse_condition
from rlctl.rules.edit import with_canary
from rlctl.rules.in_force import RulesInForce
from rlctl.rules.ramp import run_ramp, with_first_step
from rlctl.rules.ramp_watch import RETRY_FOR_S, Ramp, RampContext
from rlctl.rules.signals import FleetCounters, ServerCounters
from rlctl.rules.store import Pointer
from tests.unit.rules.documents import EXAMPLE, RELEASE, revision

GONE = Unreachable("no primary")


def totals(failed: int = 0, **calls: int) -> FleetCounters:
    """Calls by server, and how many of them failed."""
    return FleetCounters(servers={name: ServerCounters(calls=count, failed=failed) for name, count in calls.items()})


@dataclass
class Rig:
    """A fleet with one revision, a clock that only sleeping advances, and prepared failures for each measurement."""

    stored: Revision
    looks: list[Exception | Revision | None] = field(default_factory=list)
    late: set[int] = field(default_factory=set)
    served: list[FleetCounters] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: dict[str, list[Exception]] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    is_busy: bool = True
    now_s: float = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def note(self, text: str) -> None:
        self.notes.append(text)

    def in_force(self) -> RulesInForce:
        fleet: Any = None
        pointer = Pointer(version=self.stored.version, last=self.stored.number, held=("1", ""))
        return RulesInForce(fleet=fleet, observed=fleet, link=fleet, pointer=pointer, revision=self.stored)

    @contextmanager
    def open(self) -> Iterator[Any]:
        trouble = self.looks.pop(0) if self.looks else None
        if isinstance(trouble, Exception):
            raise trouble
        self.stored = trouble or self.stored
        yield None

    def totals(self) -> FleetCounters:
        if self.served:
            return self.served.pop(0)
        return totals(a=round(self.now_s) if self.is_busy else 0)

    def change(self, why: str, make: RulesEdit, step: RampStep | None = None) -> ChangeResult:
        now = self.in_force()
        made = make(now)
        before = self.stored
        waiting = next((told for text, told in self.refused.items() if text in why and told), None)
        if waiting is not None:
            raise waiting.pop(0)
        if isinstance(made, RuleSet):
            made = replace(
                before,
                number=before.number + 1,
                parent=before.number,
                rules=made,
                before_ramp=step and step.before,
            )
        self.stored = made
        plan = RulesPlan(before=before, after=made.rules, changes=(), warnings=())
        outcome = ChangeResult(plan=plan, revision=made, nodes=(), before=before.number, changed=True)
        if made.number in self.late:
            raise NotReadBack(outcome, "late")
        if made.number in self.lost and made != before:
            raise GONE
        return outcome

    def run(self, *shares: int, hold_s: float = 3.0, conditions: tuple[str, ...] = ("errors>1%",)) -> ChangeResult:
        watched = tuple(map(parse_condition, conditions))
        wanted = Ramp(rule_id="api-per-key", shares=shares, hold_s=hold_s, conditions=watched)
        clock: Any = self
        context = RampContext(change=self.change, open=self.open, clock=clock, stop=StopFlag(), progress=clock)
        return run_ramp(wanted, _canary, context)


def _canary(share: int, now: RulesInForce) -> RuleSet:
    return with_canary(now.required().rules, "api-per-key", share, {"limit": 7}, RELEASE)


@pytest.fixture
def make_rig(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Rig]:
    def make(*looks: Exception | Revision | None, late: set[int] | None = None) -> Rig:
        rig = Rig(revision(EXAMPLE), list(looks), late or set())
        monkeypatch.setattr(ramp_watch, "read_rules_in_force", lambda _fleet: rig.in_force())
        monkeypatch.setattr(ramp_watch, "read_counters", lambda _now: rig.totals())
        monkeypatch.setattr(ramp_watch, "denied_share", lambda _now, _rule: None)
        return rig

    return make


def test_a_ramp_outlives_a_fleet_that_cannot_be_asked_for_a_while(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(None, GONE, Refused("LOADING"), None)
    outcome = rig.run(1000, 5000)
    assert outcome.revision is not None
    assert outcome.revision.number == 3
    assert [note for note in rig.notes if "could not measure" in note] == [
        "could not measure: no primary",
        "could not measure: LOADING",
    ]


def test_a_hold_that_was_healthy_is_not_lost_by_its_last_look(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(None, None, None, GONE, GONE, None)
    assert rig.run(1000).changed
    assert rig.stored.number == 2


def test_a_step_that_ends_unseen_is_taken_back_whatever_was_seen_earlier(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(None, None, *[GONE] * 100)
    with pytest.raises(CheckFailed, match=r"last measurement of the step failed at 10 %; revision 1 is in force"):
        rig.run(1000, 5000)
    assert rig.stored.number == 1
    assert rig.now_s < RETRY_FOR_S + 10


@pytest.mark.parametrize(
    ("conditions", "never"), [(("errors>1%",), "errors"), (("p99>5ms", "denied>1%"), "p99, denied")]
)
def test_a_condition_that_was_never_measured_is_not_met(
    make_rig: Callable[..., Rig], conditions: tuple[str, ...], never: str
) -> None:
    """No service calls, and no identity of the canary is counted."""
    rig = make_rig()
    rig.is_busy = False
    with pytest.raises(
        CheckFailed, match=f"{never} could not be measured during the step at 10 %; revision 1 is in force"
    ):
        rig.run(1000, conditions=conditions)
    rig = make_rig()
    rig.is_busy = False
    assert rig.run(1000, conditions=()).changed


def test_a_change_that_the_fleet_cannot_take_is_tried_again(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    rig.refused = {"50 %": [GONE, Refused("LOADING"), NotFound("not yet")], "aborted": [GONE, GONE]}
    rig.served = [totals(a=1), *[totals(a=2)] * 3, totals(a=3), totals(a=9, failed=6)]
    with pytest.raises(CheckFailed, match=r"errors is 100 %.* at 50 %; revision 1 is in force again"):
        rig.run(1000, 5000)
    assert rig.stored.number == 1
    assert len([note for note in rig.notes if note.startswith("trying again")]) == 5


@pytest.mark.parametrize("lost", [{2}, {3}, {2, 3}], ids=str)
def test_a_change_whose_answer_was_lost_is_done(make_rig: Callable[..., Rig], lost: set[int]) -> None:
    rig = make_rig()
    rig.lost = lost
    assert rig.run(1000, 5000).revision == rig.stored
    assert rig.stored.number == 3


def test_a_rollback_whose_answer_was_lost_is_done(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    rig.is_busy, rig.lost = False, {1}
    with pytest.raises(CheckFailed, match=r"at 10 %; revision 1 is in force again"):
        rig.run(1000)
    assert rig.stored.number == 1


@pytest.mark.parametrize(
    ("when", "says"),
    [
        ("50 %", r"50 % could not be put in force: no primary; revision 2 with the canary at 10 % stays in force"),
        (
            "aborted",
            r"revision 1 could not be put in force again: no primary; revision 2 with the canary at 10 %",
        ),
    ],
)
def test_what_cannot_be_changed_in_time_is_named(make_rig: Callable[..., Rig], when: str, says: str) -> None:
    rig = make_rig()
    rig.is_busy = when == "50 %"
    rig.refused = {when: [GONE] * 100}
    with pytest.raises(CheckFailed, match=says) as caught:
        rig.run(1000, 5000)
    assert "rollback --to 1" in caught.value.hint
    assert rig.stored.number == 2
    assert rig.now_s < RETRY_FOR_S + 10


@pytest.mark.parametrize("trouble", [Refused("node-4 lacks a script"), NotFound("no fleet")])
def test_a_first_step_that_is_refused_is_not_tried_again(make_rig: Callable[..., Rig], trouble: Exception) -> None:
    rig = make_rig()
    rig.refused = {"10 %": [trouble]}
    with pytest.raises(type(trouble)) as caught:
        rig.run(1000)
    assert caught.value is trouble
    assert rig.now_s == 0


def test_a_change_is_not_tried_again_over_the_rules_of_another_operator(make_rig: Callable[..., Rig]) -> None:
    other = revision(EXAMPLE.replace("limit: 1000\n", "limit: 9\n"), number=5)
    rig = make_rig()
    usual, calls = rig.change, []

    def change(why: str, make: RulesEdit, step: RampStep | None = None) -> ChangeResult:
        calls.append(why)
        if len(calls) == 3:
            rig.stored = other
        return usual(why, make, step)

    rig.change = change  # type: ignore[method-assign]
    rig.refused = {"50 %": [GONE]}
    with pytest.raises(Refused, match="another operator"):
        rig.run(1000, 5000)
    assert rig.stored == other


def test_who_watches_denials_is_told_how_tiers_are_judged(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    with pytest.raises(CheckFailed):
        rig.run(1000, conditions=("denied>5%",))
    assert len([note for note in rig.notes if "tier" in note]) == 1


@pytest.mark.parametrize("late", [{2}, {3}, {1, 3}])
def test_a_step_that_is_not_read_back_is_taken_back_as_well(make_rig: Callable[..., Rig], late: set[int]) -> None:
    rig = make_rig(late=late)
    with pytest.raises(CheckFailed, match=r"late at (10|50) %; revision 1 is in force again"):
        rig.run(1000, 5000)
    assert rig.stored.number == 1


def test_rules_of_another_operator_stay_in_force(make_rig: Callable[..., Rig]) -> None:
    other = revision(EXAMPLE.replace("limit: 1000\n", "limit: 9\n"), number=5)
    rig = make_rig(None, other)
    with pytest.raises(Refused, match="another operator"):
        rig.run(1000)
    assert rig.stored == other


def test_nor_what_was_put_in_force_between_the_last_look_and_taking_back(make_rig: Callable[..., Rig]) -> None:
    other = revision(EXAMPLE.replace("limit: 1000\n", "limit: 9\n"), number=5)
    rig = make_rig()
    rig.is_busy = False
    usual = rig.change

    def change(why: str, make: RulesEdit, step: RampStep | None = None) -> ChangeResult:
        if "aborted" in why:
            rig.stored = other
        return usual(why, make, step)

    rig.change = change  # type: ignore[method-assign]
    with pytest.raises(Refused, match="another operator"):
        rig.run(1000)
    assert rig.stored == other
    assert "ramp aborted: errors could not be measured during the step at 10 %" in rig.notes


def test_after_a_failover_the_promoted_server_is_watched_from_then_on(make_rig: Callable[..., Rig]) -> None:
    """Earlier calls of the new primary do not count; its later failures do."""
    rig = make_rig()
    watched, fresh = ServerCounters(calls=10), ServerCounters(calls=10_000, failed=9_000)
    later = replace(fresh, calls=10_010, failed=9_001)
    rig.served = [
        FleetCounters(servers={"a": watched, **more}) for more in ({"b": watched}, {"c": fresh}, {"c": later})
    ]
    with pytest.raises(CheckFailed, match=r"errors is 10 %, which meets errors>1%"):
        rig.run(1000)


def test_counting_starts_again_when_all_measured_primaries_are_replaced(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    rig.served = [totals(a=10), totals(b=500, failed=400), totals(b=510, failed=400), totals(b=520, failed=400)]
    assert rig.run(1000).changed
    assert [note for note in rig.notes if "counting starts again" in note]
    rig = make_rig()
    rig.served = [totals(a=10), totals(a=10), totals(a=10), totals(b=10)]
    with pytest.raises(CheckFailed, match="errors could not be measured"):
        rig.run(1000)


@pytest.mark.parametrize(
    ("share", "steps"), [(1000, (1000, 5000)), (500, (500, 1000, 5000)), (0, (0, 1000, 5000))], ids=str
)
def test_the_percentage_beside_a_ramp_is_its_first_step(share: int, steps: tuple[int, ...]) -> None:
    assert with_first_step(share, (1000, 5000)) == steps


def test_a_ramp_does_not_begin_above_its_steps() -> None:
    with pytest.raises(ValueError, match="20 % is more than the first step of the ramp, 10 %"):
        with_first_step(2000, (1000, 5000))


def test_each_step_says_what_was_before_the_ramp_and_what_its_last_step_is(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    rig.stored = revision(EXAMPLE, 4, 3)
    marks: list[tuple[str, int | None, int]] = []
    usual = rig.change

    def change(why: str, make: RulesEdit, step: RampStep | None = None) -> ChangeResult:
        assert step is not None
        marks.append((why, step.before, step.last(rig.in_force()).rules[0].definition.share))
        return usual(why, make, step)

    rig.change = change  # type: ignore[method-assign]
    outcome = rig.run(1000, 5000, 10_000)
    assert marks == [
        ("canary api-per-key 10 %", None, 10_000),
        ("canary api-per-key 50 %", 4, 10_000),
        ("canary api-per-key 100 %", 4, 10_000),
    ]
    assert outcome.revision is not None
    assert (outcome.revision.parent, outcome.revision.back_to) == (6, 4)
