"""When `scripts apply` has anything to do, and when it has done it."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rlctl.errors import Declined, PartlyDone
from rlctl.execute.locking import HeldFleet
from rlctl.plan.planner import Plan
from rlctl.plan.steps import LoadScripts
from rlctl.scripts import lifecycle
from rlctl.scripts.drift import DriftClass, Registered, ScriptDrift
from rlctl.scripts.lifecycle import ApplyReport, ScriptsStatus, run_apply
from rlctl.scripts.release import load_release
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
    written: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for named, stand_in in {
            "check_deployed": lambda _fleet: None,
            "read_scripts": lambda _fleet: self.status,
            "script_plan": lambda _fleet, _observed: Plan(fleet="", topology="", observed="", steps=self.steps),
            "read_rights": lambda _fleet, _observed, _plan: None,
            "verify": lambda _fleet, _observed: (),
            "_register": lambda _fleet, _observed, state: self.written.append(state),
        }.items():
            self.monkeypatch.setattr(lifecycle, named, stand_in)
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

    def apply(self) -> ApplyReport:
        """Up to the question, which is answered with no."""

        def decline(_plan: Plan, _rights: object) -> None:
            raise Declined("asked")

        held = cast("HeldFleet", SimpleNamespace(fleet=self.fleet, take=lambda _observed: None))
        return run_apply(held, (), cast("Any", None), cast("Any", None), decline)


def test_a_release_that_is_there_already_is_not_applied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Told(monkeypatch).apply()
    assert (report.results, report.status.drift) == ((), ())


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


def test_only_a_node_that_does_not_answer_leaves_an_apply_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    skewed = Told(monkeypatch, drift=(SKEW,))
    assert lifecycle._prove(skewed.fleet).drift == (SKEW,)
    assert skewed.written == ["applied"]
    cut_off = Told(monkeypatch, drift=(SKEW, UNREACHABLE))
    with pytest.raises(PartlyDone, match="all nodes but node-5, which"):
        lifecycle._prove(cut_off.fleet)
    assert cut_off.written == []


def test_a_node_that_was_not_read_has_a_row_without_scripts() -> None:
    fleet: Any = SimpleNamespace(topology=cluster(), release=RELEASE)
    loaded = frozenset(script.sha1 for script in RELEASE.scripts)
    state = changed(healthy(cluster()), "node-1", scripts=loaded)
    first, second, *_ = lifecycle._rows(fleet, state)
    assert (first["name"], first["present"], first["missing"], first["reachable"]) == ("node-0", [], [], False)
    assert (second["present"], second["missing"], second["reachable"]) == (sorted(loaded), [], True)
