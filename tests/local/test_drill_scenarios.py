"""Every scenario on real servers, in every variant: the verdict, the accounts, and no leftovers."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rlctl.drills.scenario.library import all_shipped
from rlctl.topology.model import Kind
from tests.drills import drill, drills
from tests.local.driver import LocalFleet, cluster_document
from tests.rotation import in_turn

FLAGSHIPS = ("write-loss", "split-brain")


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """One variant on one kind of fleet."""

    name: str
    variant: str
    kind: Kind

    @property
    def label(self) -> str:
        """The test's id."""
        return f"{self.name} ({self.variant}) {self.kind}" if self.variant else f"{self.name} {self.kind}"

    @property
    def takes_turns(self) -> bool:
        """Whether other cases of every run test nearly the same: the other kind, another lag, or other settings."""
        match self.name:
            case "matrix":
                return self.variant not in {"write-loss both 1s", "split-brain wait 1s", "split-brain both 1s"}
            case "lag-sweep":
                return self.variant in {"20ms", "500ms"}
            case _:
                return self.name in {"noscript-after-failover", "fail-open", "clock-skew"}


def all_cases() -> Iterator[Case]:
    for file in all_shipped():
        for kind in file.kinds:
            for scenario in file.for_kind(kind):
                if file.name == "matrix" and (kind is Kind.SENTINEL or scenario.parameters["timeout"] != "1s"):
                    # These would take minutes longer; `rlctl failover-drill run matrix` runs all of them.
                    continue
                yield Case(name=file.name, variant=scenario.variant, kind=kind)


def cases(number: int | None = None) -> list[Case]:
    """The cases of every run, and one kind or half of those that alternate."""
    found = list(all_cases())
    chosen = in_turn(sorted(case for case in found if case.takes_turns), number)
    return [case for case in found if not case.takes_turns or case in chosen]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> LocalFleet:
    """A folder without a fleet, because a twin needs none."""
    return LocalFleet(folder=tmp_path_factory.mktemp("drills"), document=cluster_document(name="drilled"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.label) for case in cases()])
def test_a_scenario_ends_as_it_says(home: LocalFleet, case: Case) -> None:
    run = drill(home, case.name, "--kind", case.kind, *(["--variant", case.variant] if case.variant else []))

    assert run["verdict"] == "pass"
    ops = run["ops"]
    assert ops["attempted"] == ops["acked"] + ops["refused"] + ops["indeterminate"] + ops["not_sent"]
    if run["lost"] is not None:
        assert ops["acked"] == run["survived"] + run["lost"]
    assert all(check["ok"] for check in run["invariants"])
    assert run["heal"] == {"ok": True, "residue": []}
    assert Path(run["report"]).stat().st_size < 3_000_000
    folder = Path(run["folder"])
    assert not (folder / "twin").exists()
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    if case.name in FLAGSHIPS:
        keeps_its_promises(run)
    if (case.name, case.kind) == ("split-brain", Kind.CLUSTER):
        keeps_the_first_cut_of_the_doomed_ledger(run)


def keeps_its_promises(run: dict[str, Any]) -> None:
    """`make soak-drills` sets the number of repetitions."""
    assert run["fault"]["verified"] is True
    assert all(client["acked_per_s"] > 0 for client in run["clients"])
    if run["scenario"] == "write-loss":
        assert run["lost"] > 0
        assert run["metrics"]["lost_span_off_ms"] <= 50
    else:
        assert run["admission"]["ratio"] >= 1.9


def keeps_the_first_cut_of_the_doomed_ledger(run: dict[str, Any]) -> None:
    """After the heal the old primary resyncs with the new one. Its own writes are only in the snapshot from before."""
    folder = Path(run["folder"])
    doomed, final = (
        (folder / f"ledger-{moment}-node-0-minority.raw").read_bytes().count(b"\r\n$10")
        for moment in ("doomed", "final")
    )
    assert doomed > final
    assert run["doomed"]["count"] == run["lost"]


def test_a_scenario_of_ones_own_told_to_ci(home: LocalFleet) -> None:
    text = (Path(__file__).parents[2] / "rlctl/drills/scenarios/control.yaml").read_text(encoding="utf-8")
    own = home.folder / "own.yaml"
    own.write_text(text.replace("name: control", "name: own"), encoding="utf-8")
    path = home.folder / "junit.xml"
    assert drill(home, str(own), "--kind", Kind.CLUSTER, "--junit", str(path))["scenario"] == "own"
    assert "<testsuite name=" in path.read_text(encoding="utf-8")


def test_bare_writes_into_a_bitmap(home: LocalFleet) -> None:
    text = (Path(__file__).parents[2] / "rlctl/drills/scenarios/write-loss.yaml").read_text(encoding="utf-8")
    # This client sets bits, which count towards no limit.
    without_limit = "".join(line for line in text.splitlines(keepends=True) if not re.search("ratio|used_up", line))
    own = home.folder / "bits.yaml"
    own.write_text(without_limit.replace("load: {", "load: {mode: bits, "))
    run = drill(home, str(own), "--kind", Kind.CLUSTER)
    assert run["duplicated"] is None
    assert run["admission"] is None


def test_an_outcome_other_than_expected_is_a_failure(home: LocalFleet) -> None:
    text = (Path(__file__).parents[2] / "rlctl/drills/scenarios/control.yaml").read_text(encoding="utf-8")
    own = home.folder / "wrong.yaml"
    own.write_text(text.replace("metric: lost, most: 0", "metric: lost, least: 1"), encoding="utf-8")
    run = drill(home, str(own), "--kind", "cluster", expect=14)
    assert run["reasons"] == ["lost 0, expected at least 1"]


def test_a_blown_budget_ends_the_run(home: LocalFleet) -> None:
    text = (Path(__file__).parents[2] / "rlctl/drills/scenarios/crash.yaml").read_text(encoding="utf-8")
    own = home.folder / "budget.yaml"
    own.write_text(text + "budget: {gap: 500ms}\n", encoding="utf-8")
    ran = home.run_bare("failover-drill", "run", str(own), "--kind", "cluster", "-o", "json", expect=14)
    [run] = ran.json()["runs"]
    assert "budget" in run["reasons"][0]
    assert run["heal"]["ok"] is True


def test_the_short_form_runs_the_flagships_of_the_topology(make_fleet: Callable[[dict[str, Any]], LocalFleet]) -> None:
    fleet = make_fleet(cluster_document(name="bare"))
    runs = drills(fleet, "-q")
    assert [run["scenario"] for run in runs] == list(FLAGSHIPS)
    assert all(run["verdict"] == "pass" for run in runs)
