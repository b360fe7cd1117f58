"""Pages that need nothing else."""

import re
from collections.abc import Mapping

import pytest

from rlctl.capacity.measure.estimate import Estimate, RuleRow
from rlctl.capacity.measure.fleet import FleetMeasurement
from rlctl.capacity.measure.sampled import RuleName
from rlctl.capacity.plan import Mix, Reserve, plan
from rlctl.capacity.published import check_claims
from rlctl.capacity.report import measure_page, model_page, plan_page
from rlctl.capacity.server_memory import forecast, server_memory
from rlctl.observe.info import ServerInfo
from rlctl.reports.drawing import INK, LINE, SERIES
from rlctl.topology.nodes import NodeName
from tests.unit.capacity.asked import STATES, ask

NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def check_stands_alone(text: str) -> None:
    assert set(re.findall(r"https?://[^\"' )]+", text)) <= NAMESPACES
    assert not re.search(r"<(script|img|iframe)\b|@import|url\((?!#)", text)
    assert re.findall(r"<link\b[^>]*>", text) == ['<link rel="icon" href="data:,">']
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text


def measurement() -> FleetMeasurement:
    """Two primaries that grow, and a rule with a hostile name."""
    info = "redis_version:7.0.15\nrole:master\nrun_id:a\nmaxmemory:100000000\nused_memory:{}\n"
    series = {
        NodeName(f"node-{node}"): [
            server_memory(ServerInfo(info.format(50_000_000 + 200_000 * step * (node + 1))), "", float(step))
            for step in range(10)
        ]
        for node in range(2)
    }
    rows = [
        RuleRow(
            name=RuleName(rule=rule, algorithm="gcra", state=1),
            sampled=100,
            keys=Estimate(value=5_000, error=120),
            key_length=40,
            encodings={"int": 1.0},
            no_ttl=0,
            memory_usage=88.0,
            bytes=Estimate(value=120.5, error=1.5),
            predicted=121.0,
            total_bytes=602_500,
        )
        for rule in ("api-per-key", "<script>$x$")
    ]
    return FleetMeasurement(
        name="limiter",
        nodes=(),
        unreachable=(),
        missing_shards=(2,),
        rows=tuple(rows),
        series=series,
        forecast=forecast(series),
        warnings=(),
    )


def pages() -> Mapping[str, str]:
    base = ask(algorithm="gcra")
    claims = check_claims(base, STATES, users=1000, limit=100, concurrent=50, requests_per_s=10)
    mix = Mix(requests=(ask(algorithm="sliding_counter", users=100_000),), states=STATES)
    return {
        "model": model_page(claims, base, STATES),
        "plan": plan_page(plan(mix, Reserve(), shards=3, ram=2**30)),
        "measure": measure_page(measurement()),
        "plan of one shard": plan_page(plan(mix, Reserve(), shards=1, ram=None)),
    }


@pytest.fixture(scope="module")
def made() -> Mapping[str, str]:
    return pages()


@pytest.mark.parametrize("name", ["model", "plan", "plan of one shard", "measure"])
def test_a_page_stands_alone_and_takes_its_colours_from_its_style(made: Mapping[str, str], name: str) -> None:
    check_stands_alone(made[name])
    assert made[name].count("<svg") >= 2
    assert not any(colour in made[name] for colour in (INK, LINE, *SERIES))
    assert "var(--series-1)" in made[name]
    ids = re.findall(r'\bid="([^"]+)"', made[name])
    assert len(ids) == len(set(ids))


def test_the_same_figures_make_the_same_page(made: Mapping[str, str]) -> None:
    assert pages() == made


def test_the_cliff_is_in_the_picture(made: Mapping[str, str]) -> None:
    assert "listpack cap 128" in made["model"]
