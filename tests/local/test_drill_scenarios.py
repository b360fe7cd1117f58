"""Every scenario on real servers, in every variant: the verdict, the books, and nothing left behind."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlctl.drills.library import all_shipped
from rlctl.topology.model import Kind
from tests.drills import drill, drills
from tests.local.driver import LocalFleet, cluster_document

FLAGSHIPS = ("write-loss", "split-brain")


def cases() -> Iterator[Any]:
    for file in all_shipped():
        for kind in file.kinds:
            for scenario in file.for_kind(kind):
                if file.name == "matrix" and (kind is Kind.SENTINEL or scenario.parameters["timeout"] != "1s"):
                    # More minutes of the same knobs; `rlctl failover-drill run matrix` turns all of them.
                    continue
                yield pytest.param(file.name, kind, scenario.variant, id=f"{scenario.label} {kind}")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> LocalFleet:
    """No fleet at all: a twin needs none."""
    return LocalFleet(folder=tmp_path_factory.mktemp("drills"), document=cluster_document(name="drilled"))


@pytest.mark.parametrize(("name", "kind", "variant"), list(cases()))
def test_a_scenario_ends_as_it_says(home: LocalFleet, name: str, kind: Kind, variant: str) -> None:
    run = drill(home, name, "--kind", kind, *(["--variant", variant] if variant else []))

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


@pytest.mark.parametrize("kind", list(Kind))
def test_the_flagships_keep_their_promises(home: LocalFleet, kind: Kind) -> None:
    """How often, tells `make soak-drills`."""
    loss, split = (drill(home, name, "--kind", kind) for name in FLAGSHIPS)

    assert loss["lost"] > 0
    assert loss["metrics"]["lost_span_off_ms"] <= 50
    assert loss["fault"]["verified"] is True
    assert split["admission"]["ratio"] >= 1.9
    assert split["fault"]["verified"] is True
    assert all(client["acked_per_s"] > 0 for run in (loss, split) for client in run["clients"])


def test_the_first_cut_of_the_doomed_ledger_is_kept(home: LocalFleet) -> None:
    """After the cut heals the old primary copies the new one; what it had taken is only in the copy from before."""
    run = drill(home, "split-brain", "--kind", Kind.CLUSTER)

    folder = Path(run["folder"])
    doomed, final = (
        (folder / f"ledger-{moment}-node-0-minority.raw").read_bytes().count(b"\r\n$10")
        for moment in ("doomed", "final")
    )
    assert doomed > final
    assert run["doomed"]["count"] == run["lost"]


def test_a_scenario_of_ones_own(home: LocalFleet) -> None:
    text = (Path(__file__).parents[2] / "rlctl/drills/scenarios/control.yaml").read_text(encoding="utf-8")
    own = home.folder / "own.yaml"
    own.write_text(text.replace("name: control", "name: own"), encoding="utf-8")
    assert drill(home, str(own), "--kind", Kind.CLUSTER)["scenario"] == "own"


def test_bare_writes_into_a_bitmap(home: LocalFleet) -> None:
    text = (Path(__file__).parents[2] / "rlctl/drills/scenarios/write-loss.yaml").read_text(encoding="utf-8")
    # Bits decide nothing: there is no limit to use up.
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


def test_junit_and_overview(home: LocalFleet) -> None:
    path = home.folder / "junit.xml"
    drill(home, "lag-sweep", "--variant", "20ms", "--kind", "sentinel", "--junit", str(path))
    assert "<testsuite name=" in path.read_text(encoding="utf-8")


def test_the_short_form_runs_the_flagships_of_the_topology(make_fleet: Callable[[dict[str, Any]], LocalFleet]) -> None:
    fleet = make_fleet(cluster_document(name="bare"))
    runs = drills(fleet, "-q")
    assert [run["scenario"] for run in runs] == list(FLAGSHIPS)
    assert all(run["verdict"] == "pass" for run in runs)
