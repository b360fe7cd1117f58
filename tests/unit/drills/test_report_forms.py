"""A run in a terminal, for CI, and as its schema says."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from rlctl.cli.schema import schema as schema_command
from rlctl.drills.report import text
from rlctl.drills.report.junit import junit
from rlctl.drills.scenario import load
from rlctl.drills.scenario.library import FOLDER
from rlctl.drills.scenario.model import Metric
from rlctl.drills.scenario.schema import run_schema, runs_schema, scenario_schema
from tests.unit.drill_documents import NAMES, changed, killed, recorded, sweep

SCENARIOS = sorted(FOLDER.glob("*.yaml"))
FILE = jsonschema.Draft7Validator(scenario_schema())
RUN = jsonschema.Draft202012Validator(run_schema())


def parsed(xml: str) -> ET.Element:
    return ET.fromstring(xml)  # noqa: S314  our own


def table(rows: Any) -> list[str]:
    """As wide as a pipe shows it: columns padded, two spaces between them."""
    listed = [tuple(row) for row in rows]
    widths = [max(len(row[place]) for row in listed) for place in range(len(listed[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in listed]


@pytest.mark.parametrize("name", NAMES)
def test_summary_fits_a_terminal(name: str) -> None:
    run, _ = recorded(name)
    lines = [
        *text.heading(run),
        *table([text.EXPECTED_HEADERS, *text.expected_rows(run)]),
        *table(text.figure_rows(run)),
    ]
    assert [line for line in lines if len(line) > 80] == []


def test_summary_says_the_verdict_first_and_what_was_seen() -> None:
    run, _ = recorded("write-loss-cluster")
    assert next(text.heading(run)) == ("pass write-loss on cluster, a twin, short timers: node time-out 1,000 ms")
    assert next(text.expected_rows(run)) == ("ok", "lost", "at least 1", "7,540")
    figures = dict(text.figure_rows(run))
    assert figures["lost"] == "7,540 (26.05 % of 28,940 acknowledged)"
    assert figures["admitted"] == "1,000 at a limit of 500 (2.00 times): over 500, under 0"
    assert figures["times"] == "detect 1.44 s, elect 1.08 s, serve 2.51 s"
    assert list(text.closing(changed(run, report="r.html"))) == ["report: r.html", f"again: {run['rerun']}"]


def test_summary_of_what_did_not_pass_says_why() -> None:
    run, _ = killed()
    lines = list(text.heading(run))
    assert lines[0].startswith("inconclusive write-loss")
    assert "- the run was killed after `ordered`" in lines
    assert dict(text.figure_rows(run))["lost"] == "not measured"


def test_junit_has_a_case_a_run() -> None:
    good, _ = recorded("write-loss-cluster")
    bad = changed(good, id="bad", variant="a & b", verdict="fail", reasons=["lost 0", "gap_ms \x00 9"])
    suite = parsed(junit([good, bad, killed()[0]], {good["id"]: 8.5, "bad": 1.25}))
    assert {key: suite.get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
    }
    assert suite.get("time") == "9.750"
    assert [case.get("name") for case in suite] == [
        "write-loss/cluster",
        "write-loss/cluster/a & b",
        "write-loss/cluster",
    ]
    assert [[part.tag for part in case] for case in suite] == [
        ["properties", "system-out"],
        ["properties", "failure", "system-out"],
        ["properties", "error", "system-out"],
    ]
    failure = suite[1].find("failure")
    assert failure is not None
    assert failure.get("message") == "lost 0; gap_ms \N{REPLACEMENT CHARACTER} 9"
    properties = {one.get("name"): one.get("value") for one in suite[0].iter("property")}
    assert properties["lost"] == "7540"
    assert properties["ops.attempted"] == "66460"
    assert "stale_acked" not in properties


def test_junit_of_nothing_is_a_suite() -> None:
    assert parsed(junit([], {})).get("tests") == "0"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_shipped_scenarios_are_as_the_schema_says(path: Path) -> None:
    FILE.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_schema_knows_what_the_reader_knows() -> None:
    properties: Any = scenario_schema()["properties"]
    assert set(properties) == set(load._TOP)
    assert set(properties["load"]["properties"]) == set(load._LOAD)
    assert set(properties["steps"]["items"]["properties"]) == {*load._VERBS, "only"}
    assert set(properties["expect"]["items"]["properties"]["metric"]["enum"]) == set(Metric)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", 2),
        ("kinds", []),
        ("kinds", ["standalone"]),
        ("steps", [{"explode": "victim"}]),
        ("steps", [{"only": "cluster"}]),
        ("steps", [{"await": {"sometime": "3s"}}]),
        ("steps", [{"cut": {"flow": "replication"}}]),
        ("expect", [{"metric": "lost"}]),
        ("expect", [{"metric": "luck", "least": 1}]),
        ("load", {"side": ["majority"]}),
        ("settings", {"cluster.wings": 2}),
        ("hobby", "chess"),
    ],
)
def test_schema_refuses_what_is_wrong(key: str, value: object) -> None:
    document = yaml.safe_load((FOLDER / "write-loss.yaml").read_text(encoding="utf-8"))
    assert not FILE.is_valid({**document, key: value})


@pytest.mark.parametrize("name", NAMES)
def test_real_results_are_as_the_schema_says(name: str) -> None:
    run, _ = recorded(name)
    RUN.validate(run)
    described: Any = run_schema()["properties"]
    assert set(described) == set(run)


def test_the_whole_document_is_as_the_schema_says() -> None:
    validator = jsonschema.Draft202012Validator(runs_schema())
    jsonschema.Draft202012Validator.check_schema(runs_schema())
    validator.validate({"schema": "rlctl.failover-drill-run/1", "runs": [*sweep(), killed()[0]]})
    assert not validator.is_valid(
        {"schema": "rlctl.failover-drill-run/1", "runs": [changed(sweep()[0], verdict="good")]}
    )


@pytest.mark.parametrize(
    ("name", "schema"), [("scenario", scenario_schema()), ("failover-drill-run", runs_schema())], ids=["file", "run"]
)
def test_schemas_are_printed(name: str, schema: object) -> None:
    outcome = CliRunner().invoke(schema_command, [name])
    assert outcome.exit_code == 0
    assert json.loads(outcome.output) == schema
