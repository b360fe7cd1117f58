"""When `scripts apply` has anything to do, and when it has done it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rlctl.errors import CheckFailed, Declined, PartlyDone, RlctlError, Unreachable
from rlctl.execute.executor import StepResult
from rlctl.execute.locking import LockedFleet
from rlctl.limits.release import Registered
from rlctl.operations import scripts
from rlctl.operations.script_check import ScriptResult
from rlctl.operations.script_drift import DriftClass, ScriptDrift
from rlctl.operations.scripts import ApplyReport, ScriptsStatus, run_apply
from rlctl.plan.planner import Plan
from rlctl.plan.steps import LoadScripts
from rlctl.scripts.release import load_release
from rlctl.system.clock import SystemClock
from tests.unit.fleets import changed, cluster, healthy, name

RELEASE = load_release()
APPLIED = Registered(release=RELEASE.version, digest=RELEASE.digest, state="applied")
STEP = LoadScripts(node=name("node-4"), scripts=("gcra",))
MISSING = ScriptDrift(kind=DriftClass.MISSING, node=name("node-4"), script="gcra")
SKEW = ScriptDrift(kind=DriftClass.VERSION_SKEW)
UNREACHABLE = ScriptDrift(kind=DriftClass.UNREACHABLE, node=name("node-5"))


@dataclass
class Told:
    """A fleet whose reading, plan and registry are given."""

    monkeypatch: pytest.MonkeyPatch
    drift: tuple[ScriptDrift, ...] = ()
    steps: tuple[LoadScripts, ...] = ()
    registered: Registered = APPLIED
    verdicts: tuple[ScriptResult, ...] = ()
    written: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for named, stand_in in {
            "check_deployed": lambda _fleet: None,
            "read_scripts": lambda _fleet: self.status,
            "script_plan": lambda _fleet, _observed: Plan(fleet="", topology="", observed="", steps=self.steps),
            "read_rights": lambda _fleet, _observed, _plan: None,
            "verify": lambda _fleet, _observed: self.verdicts,
            "_register": lambda _fleet, _observed, state: self.written.append(state),
        }.items():
            self.monkeypatch.setattr(scripts, named, stand_in)
        self.fleet: Any = SimpleNamespace(topology=cluster(), release=RELEASE)

    @property
    def status(self) -> ScriptsStatus:
        return ScriptsStatus(
            release=RELEASE.version,
            observed=healthy(cluster()),
            rows=(),
            drift=self.drift,
            registered=self.registered,
            has_registry=True,
        )

    def apply(self, agree: Callable[[Plan, object], None] | None = None) -> ApplyReport:
        """Up to the question, which is answered with no unless told otherwise."""

        def decline(_plan: Plan, _rights: object) -> None:
            raise Declined("asked")

        held = cast("LockedFleet", SimpleNamespace(fleet=self.fleet, take_key=lambda _observed: None, check=None))
        progress: Any = SimpleNamespace(note=self.notes.append)
        return run_apply(held, ("scripts", "apply"), progress, cast("Any", None), agree or decline)

    def walking(self, journal: Path, outcome: tuple[StepResult, ...] | RlctlError) -> None:
        """Have the steps end like this, and the journal written there."""

        def execute(plan: Plan) -> tuple[StepResult, ...]:
            assert plan.steps == self.steps
            if isinstance(outcome, RlctlError):
                raise outcome
            return outcome

        self.monkeypatch.setattr(scripts, "Executor", lambda *_parts: SimpleNamespace(execute=execute))
        self.fleet.home = SimpleNamespace(journal=lambda _fleet: journal)
        self.fleet.clock = SystemClock()


def test_a_release_that_is_there_already_is_not_applied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Told(monkeypatch).apply()
    assert (report.results, report.status.drift, report.to_json()["changed"]) == ((), (), False)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"steps": (STEP,)}, id="an earlier version that rules still point to is not loaded"),
        pytest.param({"drift": (MISSING,)}, id="a script is missing"),
        pytest.param({"registered": Registered(release="0.0.1", digest="", state="applied")}, id="another release"),
        pytest.param({"registered": Registered(release=RELEASE.version, digest="", state="dirty")}, id="dirty"),
    ],
)
def test_what_there_is_to_do_is_asked_for(monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any]) -> None:
    with pytest.raises(Declined):
        Told(monkeypatch, **facts).apply()


def agree(_plan: Plan, _rights: object) -> None:
    pass


RESULT = StepResult(step=STEP, outcome="done")


def ends(journal: Path) -> list[object]:
    return [entry.get("outcome") for entry in map(json.loads, journal.read_text(encoding="utf-8").splitlines())][-1:]


def test_an_apply_is_pending_until_it_is_proven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = Told(monkeypatch, steps=(STEP,))
    told.walking(tmp_path / "journal", (RESULT,))
    report = told.apply(agree)
    assert (report.results, report.status, told.written, told.notes) == (
        (RESULT,),
        told.status,
        ["pending", "applied"],
        [],
    )
    assert ends(tmp_path / "journal") == ["done"]
    document = report.to_json()
    assert (document["schema"], document["changed"]) == ("rlctl.scripts-apply/1", True)
    assert document["steps"] == [RESULT.to_json()]


def test_a_step_that_fails_leaves_the_release_dirty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = Told(monkeypatch, steps=(STEP,))
    told.walking(tmp_path / "journal", Unreachable("node-4 is gone"))
    with pytest.raises(Unreachable, match="node-4 is gone"):
        told.apply(agree)
    assert told.written == ["pending", "dirty"]
    assert ends(tmp_path / "journal") == ["unreachable"]


def test_a_smoke_call_that_goes_wrong_fails_an_apply(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    verdicts = [ScriptResult(node=name("node-0"), script="gcra", evidence=one) for one in (None, "NOPERM", "late")]
    told = Told(monkeypatch, steps=(STEP,), verdicts=tuple(verdicts))
    told.walking(tmp_path / "journal", (RESULT,))
    with pytest.raises(CheckFailed, match=r"^2 checks of scripts failed, first gcra on node-0: NOPERM$"):
        told.apply(agree)
    assert told.written == ["pending", "dirty"]


def test_only_a_node_that_does_not_answer_leaves_an_apply_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    skewed = Told(monkeypatch, drift=(SKEW,))
    assert scripts._prove(skewed.fleet).drift == (SKEW,)
    assert skewed.written == ["applied"]
    cut_off = Told(monkeypatch, drift=(SKEW, UNREACHABLE))
    with pytest.raises(PartlyDone, match="not loaded on node-5, which"):
        scripts._prove(cut_off.fleet)
    assert cut_off.written == []


def test_a_node_that_was_not_read_has_a_row_without_scripts() -> None:
    fleet: Any = SimpleNamespace(topology=cluster(), release=RELEASE)
    loaded = frozenset(script.sha1 for script in RELEASE.scripts)
    state = changed(healthy(cluster()), "node-1", scripts=loaded)
    first, second, *_ = scripts._rows(fleet, state)
    assert (first["name"], first["present"], first["missing"], first["reachable"]) == ("node-0", [], [], False)
    assert (second["present"], second["missing"], second["reachable"]) == (sorted(loaded), [], True)
