from dataclasses import replace

import pytest

from rlctl.bench.figures import ClientCounts, Measurement, Pattern, speed_row
from rlctl.bench.scaling import Scaling, ScalingLevel
from rlctl.bench.speed import SpeedReport
from rlctl.bench.stats import CommandCost
from rlctl.bench.subjects import BenchCase, bench_cases
from rlctl.scripts.release import load_release

INCR, ADMIT, DENY = bench_cases(load_release(), ["gcra"])
ONE = Pattern(keys=1, depth=1)


def slice_of(calls: int, admitted: int = 0, elapsed_s: float = 1.0, usec: int = 0, others: int = 0) -> Measurement:
    counted = ClientCounts(calls=calls, admitted=admitted, waits_us=[float(wait) for wait in range(1, calls + 1)])
    spent = CommandCost(calls=calls + others, usec=usec)
    return Measurement(counted=counted, elapsed_s=elapsed_s, client_cpu_s=0.1, spent=spent)


def test_a_row_is_the_median_of_its_rounds() -> None:
    plain = [slice_of(100), slice_of(200), slice_of(100)]
    rounds = [slice_of(50, 50, usec=100), slice_of(50, 50, usec=150), slice_of(60, 60, usec=600)]
    row = speed_row(ADMIT, ONE, rounds, plain)
    assert (row.calls, row.per_s, row.server_us, row.of_incr) == (160, 50.0, 3.0, 0.5)
    assert (row.p50_us, row.p99_us) == (27.0, 59.0)
    assert row.as_wanted == 1.0
    assert row.notes == ()


@pytest.mark.parametrize(
    ("case", "admitted", "wanted"), [(ADMIT, 98, 0.98), (DENY, 98, 0.02), (INCR, 0, 1.0)], ids=["admit", "deny", "-"]
)
def test_answers_that_were_not_wanted_show(case: BenchCase, admitted: int, wanted: float) -> None:
    row = speed_row(case, ONE, [slice_of(100, admitted)], [slice_of(100)])
    assert row.as_wanted == wanted
    assert bool(row.notes) is (wanted < 0.99)


def test_calls_of_others_show() -> None:
    row = speed_row(DENY, ONE, [slice_of(100, others=7)], [slice_of(100)])
    assert row.others_calls == 7
    assert "includes 7 calls of other clients" in row.notes[0]


def test_the_contract_of_the_report() -> None:
    pipelined = replace(slice_of(100), counted=ClientCounts(calls=100, admitted=0, waits_us=()))
    row = speed_row(DENY, Pattern(keys=200, depth=50), [pipelined], [slice_of(100)])
    report = SpeedReport(name="x", release="1.0.0", server="redis 7", primaries=3, duration_s=0.2, rows=(row,))
    document = report.to_json()
    assert list(document) == ["schema", "name", "release", "server", "primaries", "duration_s", "rows", "notes"]
    assert document["schema"] == "rlctl.bench/1"
    assert document["rows"] == [
        {
            "script": "gcra",
            "answer": "deny",
            "keys": 200,
            "depth": 50,
            "calls": 100,
            "decisions_per_s": 100.0,
            "p50_us": None,
            "p99_us": None,
            "server_us": 0.0,
            "of_incr": 1.0,
            "as_wanted": 1.0,
            "others_calls": 0,
        }
    ]


def level(shards: int, per_s: float, **cpu: float | None) -> ScalingLevel:
    known: dict[str, float] = {"client": 0.1, "server": 0.5}
    shares = known | {name: value for name, value in cpu.items() if value is not None}
    return ScalingLevel(
        shards=shards,
        decisions_per_s=per_s,
        client_cpu=shares["client"],
        server_cpu=(shares["server"],) * shards,
        machine_cpu=shares.get("machine"),
    )


@pytest.mark.parametrize(
    ("cpu", "bottleneck"),
    [
        ({}, "round trips"),
        ({"client": 0.95}, "this client"),
        ({"server": 0.95}, "the servers"),
        ({"machine": 0.85}, "this machine's processors"),
        ({"machine": 0.5, "client": 0.95, "server": 0.95}, "this client"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_who_was_the_bottleneck(cpu: dict[str, float], bottleneck: str) -> None:
    assert level(2, 100.0, **cpu).bottleneck == bottleneck


def test_the_share_of_linear() -> None:
    scaling = Scaling(script="gcra", levels=(level(1, 100.0), level(2, 150.0)))
    assert [scaling.of_linear(one) for one in scaling.levels] == [1.0, 0.75]
    assert scaling.to_json()["claim"] == "linear to six nodes"
