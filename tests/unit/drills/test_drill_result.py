"""The result of a run as other programs read it: the contract's fields, nulls for what is unknown, and the series."""

import json
from dataclasses import replace

import pytest

from rlctl.drills.judge.result import MOST_POINTS, run_json, series
from rlctl.drills.judge.verdict import ExpectationResult, judge
from rlctl.drills.record.evidence import Evidence
from rlctl.drills.record.ops import OpOutcome
from rlctl.drills.scenario.model import ClientLoad, Expectation, LoadMode, Metric
from tests.unit.drill_runs import (
    FORK,
    LOADED,
    STOPPED,
    VICTIM,
    Phase,
    answered,
    batch,
    client,
    event,
    look,
    simulate_run,
    with_final,
    without,
)
from tests.unit.drill_runs import ledger as ledger_of

LOSS = (
    answered("majority", Phase.BEFORE, 10),
    answered("majority", Phase.OLD, 30),
    answered("majority", Phase.NEW, 5, hot=True),
)


def loss() -> Evidence:
    return simulate_run(LOSS)[0]


def document(evidence: Evidence) -> dict[str, object]:
    made = run_json(judge(evidence), {"id": "r1", "started": "now", "report": None})
    return json.loads(json.dumps(made))  # type: ignore[no-any-return]


def test_the_contracts_fields_are_there() -> None:
    found = document(loss())
    wanted = {
        *("id", "kind", "scenario", "verdict", "reasons", "ops", "survived", "lost", "acked_local", "survived_local"),
        *("lost_local", "recovered", "duplicated", "unexpected", "admission", "times_ms", "clients", "fault", "heal"),
        "report",
    }
    assert wanted <= set(found)
    assert found["ops"] == {"attempted": 45, "acked": 45, "refused": 0, "indeterminate": 0, "not_sent": 0}
    assert (found["survived"], found["lost"], found["loss_bound"]) == (15, 30, None)
    assert set(found["times_ms"]) == {"detect", "elect", "serve", "divergence", "overlap", "converge"}  # type: ignore[call-overload]
    assert found["fault"] == {"method": "made up", "verified": True, "cut_ms": 990.0}
    assert found["heal"] == {"ok": True, "residue": []}
    assert (found["id"], found["started"], found["variant"]) == ("r1", "now", None)
    assert set(found["metrics"]) == set(Metric)  # type: ignore[call-overload]


def test_the_doomed_are_told_from_the_first() -> None:
    doomed: dict[str, object] = document(loss())["doomed"]  # type: ignore[assignment]
    head: list[dict[str, object]] = doomed["head"]  # type: ignore[assignment]
    assert (doomed["count"], doomed["copied_from_victim"], len(head)) == (30, 40, 20)
    assert [one["id"] for one in head] == list(range(10, 30))
    assert head[0] == {
        "client": "majority",
        "id": 10,
        "node": VICTIM,
        "acked_ms": head[0]["acked_ms"],
        "admitted": True,
    }


def test_expectations_stand_beside_what_was_seen() -> None:
    run = loss()
    wanted = replace(run.scenario, expectations=(Expectation(metric=Metric.LOST, most=0, why="none"),))
    [found] = document(replace(run, scenario=wanted))["expected"]  # type: ignore[misc]
    assert found == {"metric": "lost", "least": None, "most": 0, "seen": 30, "ok": False, "why": "none"}


def test_none_lost_of_some_has_a_bound() -> None:
    run, _truth = simulate_run([answered("majority", Phase.NEW, 30)])
    assert (document(run)["lost"], document(run)["loss_bound"]) == (0, 0.1)


def test_none_acknowledged_has_neither_bound_nor_share() -> None:
    run, _truth = simulate_run([])
    found = document(run)
    assert (found["lost"], found["loss_bound"], found["admission"]) == (0, None, None)
    assert found["metrics"]["lost_percent"] is None  # type: ignore[index]
    [only] = found["clients"]  # type: ignore[misc]
    assert (only["p50_ms"], only["longest_gap_ms"], only["acked"]) == (None, None, 0)


def test_of_a_killed_run_everything_unknown_is_null() -> None:
    run = loss()
    killed = replace(
        run,
        events=tuple(one for one in run.events if one.at_s < FORK),
        attempted={"majority": None},
        ledgers={"doomed": {}, "final": {}},
    )
    found = document(killed)
    unknown = ("survived", "lost", "survived_local", "lost_local", "recovered", "duplicated", "unexpected")
    assert {name: found[name] for name in unknown} == dict.fromkeys(unknown)
    assert (found["loss_bound"], found["admission"]) == (None, None)
    assert found["heal"] == {"ok": False, "residue": None}
    assert found["doomed"] == {"count": None, "head": [], "copied_from_victim": None}
    assert found["ops"] == {"attempted": None, "acked": 45, "refused": 0, "indeterminate": 0, "not_sent": 0}
    [only] = found["clients"]  # type: ignore[misc]
    assert (only["lost"], only["refusals"], only["hops"], only["acked"]) == (None, {}, None, 45)


def test_bare_writes_cannot_be_seen_twice() -> None:
    run = loss()
    bits = replace(run, scenario=replace(run.scenario, load=ClientLoad(mode=LoadMode.BITS)))
    assert document(bits)["duplicated"] is None
    assert document(run)["duplicated"] == 0


def test_with_wait_the_share_is_of_what_it_confirmed() -> None:
    batch_specs = [answered("majority", Phase.BEFORE, 6, is_waited=True), answered("majority", Phase.OLD, 4)]
    run, _truth = simulate_run([*batch_specs, answered("majority", Phase.OLD, 2, is_waited=True)], wait=1)
    metrics = judge(run).metrics
    assert (metrics[Metric.ACKED], metrics[Metric.LOST], metrics[Metric.LOST_LOCAL]) == (8, 2, 6)
    assert metrics[Metric.LOST_SHARE] == 25.0


def test_refusals_are_those_of_all_clients() -> None:
    run, _truth = simulate_run([answered("minority", Phase.BEFORE, 1)], is_split=True)
    clients = tuple(replace(one, refusals={"NOSCRIPT": 2, "MOVED": 1}) for one in run.clients)
    metrics = judge(replace(run, clients=clients)).metrics
    assert (metrics[Metric.NOSCRIPT], metrics[Metric.NOREPLICAS]) == (4, 0)


def test_losses_after_the_cut_was_mended_are_told_apart() -> None:
    run, _truth = simulate_run([answered("minority", Phase.OLD, 2)], is_split=True)
    late = batch(2, [OpOutcome.ADMITTED] * 3, 16.1, 16.15)
    minority = replace(run.clients[1], batches=(*run.clients[1].batches, late))
    told = replace(run, clients=(run.clients[0], minority), attempted={"majority": 0, "minority": 5})
    metrics = judge(told).metrics
    assert (metrics[Metric.LOST], metrics[Metric.LOST_AFTER]) == (5, 3)


@pytest.mark.parametrize(
    ("sent_s", "count"), [(STOPPED + 0.2, 1), (STOPPED, 0)], ids=["after the heal began", "before it"]
)
def test_what_an_old_map_still_got_acknowledged(sent_s: float, count: int) -> None:
    run = loss()
    stale = client("stale", batch(0, [OpOutcome.ADMITTED], sent_s, sent_s + 0.01))
    told = replace(
        with_final(run, "stale", ledger_of([0])),
        clients=(*run.clients, stale),
        places={**run.places, "stale": (VICTIM,)},
        attempted={**run.attempted, "stale": 1},
    )
    assert judge(told).metrics[Metric.STALE_ACKED] == count
    assert judge(without(told, "heal")).metrics[Metric.STALE_ACKED] is None


def test_a_client_is_measured_while_nothing_is_broken() -> None:
    run = loss()
    [only] = document(run)["clients"]  # type: ignore[misc]
    assert only["acked_per_s"] == 10 / (FORK - LOADED)
    assert only["p50_ms"] == only["p99_ms"] == 1.0
    [never] = document(without(run, "cut", "kill", "stopping"))["clients"]  # type: ignore[misc]
    assert never["acked_per_s"] is None


@pytest.mark.parametrize("early_s", [0.0, 1.0])
def test_a_client_that_was_never_undisturbed_has_no_rate(early_s: float) -> None:
    run = loss()
    broken = replace(run, events=tuple(sorted((event("cut", LOADED - early_s), *run.events), key=lambda one: one.at_s)))
    [never] = document(broken)["clients"]  # type: ignore[misc]
    assert never["acked_per_s"] is None


def test_latencies_are_told_to_the_microsecond() -> None:
    run = loss()
    times_ms = [1.23456, 2.34567, 9.87654, 100.00049]
    batches = [batch(n, [OpOutcome.ADMITTED], LOADED, LOADED + ms / 1000) for n, ms in enumerate(times_ms)]
    [only] = document(replace(run, clients=(replace(run.clients[0], batches=tuple(batches)),)))["clients"]  # type: ignore[misc]
    assert (only["p50_ms"], only["p99_ms"]) == (9.877, 100.0)


def test_rates_are_counted_in_bins_of_50_ms() -> None:
    found = series(judge(loss()))
    assert found["bin_ms"] == 50
    rates: dict[str, dict[str, list[int]]] = found["rates"]  # type: ignore[assignment]
    assert len(rates["majority"]["acked"]) == (STOPPED - LOADED) * 1000 // 50 + 1


def test_the_first_and_the_last_bin_count_too() -> None:
    batches = (batch(0, [OpOutcome.ADMITTED], LOADED, LOADED), batch(1, [OpOutcome.ADMITTED], LOADED, STOPPED))
    run = loss()
    run = replace(run, clients=(replace(run.clients[0], batches=batches),))
    rates: dict[str, dict[str, list[int]]] = series(judge(run))["rates"]  # type: ignore[assignment]
    acked = rates[run.clients[0].name]["acked"]
    assert (acked[0], acked[-1], sum(acked)) == (1, 1, 2)


@pytest.mark.parametrize(
    ("metric", "value", "is_short"),
    [
        (Metric.OVER, 0.0, True),
        (Metric.RATIO, 1.0, False),
        (Metric.RATIO, None, False),
        (Metric.LOST, 0.0, False),
    ],
)
def test_too_little_load_explains_a_low_figure_of_limits_only(
    metric: Metric, value: float | None, *, is_short: bool
) -> None:
    assert (
        ExpectationResult(expectation=Expectation(metric=metric, least=1.0), value=value).is_short_of_demand is is_short
    )


def test_series_tell_when_what_happened() -> None:
    run = loss()
    told = replace(run, events=(*run.events, event("awaited", 15.0)))
    found = series(judge(told))
    assert found["end_ms"] == (STOPPED - LOADED) * 1000
    events: list[dict[str, object]] = found["events"]  # type: ignore[assignment]
    assert [one["name"] for one in events] == ["loaded", "cut", "kill", "stopping", "heal", "healed"]
    assert events[1] == {"t_ms": 2000.0, "until_ms": 2010.0, "name": "cut", "nodes": ["node-3"], "text": "replication"}
    assert found["instants"]["promoted"] == 4000.0  # type: ignore[index]
    nodes: dict[str, list[dict[str, object]]] = found["nodes"]  # type: ignore[assignment]
    assert [span["role"] for span in nodes[VICTIM]] == ["master", "down", "slave"]


def test_what_happened_outside_the_load_is_in_no_bin() -> None:
    run = loss()
    outside = [batch(100, [OpOutcome.ADMITTED], at_s, at_s + 0.001) for at_s in (LOADED - 1, STOPPED + 1)]
    told = replace(run, clients=(replace(run.clients[0], batches=(*run.clients[0].batches, *outside)),))
    rates: dict[str, dict[str, list[int]]] = series(judge(told))["rates"]  # type: ignore[assignment]
    assert sum(rates["majority"]["acked"]) == 45


def test_thinned_latencies_keep_the_slowest() -> None:
    run = loss()
    many = [batch(n, [OpOutcome.ADMITTED], LOADED, LOADED + 0.001) for n in range(3 * MOST_POINTS)]
    slow = batch(0, [OpOutcome.ADMITTED], LOADED, LOADED + 5)
    told = replace(run, clients=(replace(run.clients[0], batches=(*many, slow)),))
    latency: dict[str, list[tuple[float, float]]] = series(judge(told))["latency"]  # type: ignore[assignment]
    assert len(latency["majority"]) <= 2 * MOST_POINTS
    assert max(took for _at, took in latency["majority"]) == 5000.0


def test_a_silent_node_is_down_in_the_series() -> None:
    run = replace(loss(), samples=(look(10.0, VICTIM, ""),))
    assert series(judge(run))["nodes"] == {VICTIM: [{"t_ms": 0.0, "role": "down", "epoch": 0, "link": ""}]}
