"""Questions to outputs, and what of an output is worth a line."""

import json
from dataclasses import replace
from pathlib import PurePath

import pytest

from rlctl.runbooks.page import jmespath
from rlctl.runbooks.page.blocks import FIXED_VARIABLES
from rlctl.runbooks.page.expected import expected_answer
from rlctl.runbooks.page.load import read_page
from rlctl.runbooks.page.summary import MOST_LINES, summary
from rlctl.runbooks.variables import fixed_variables
from rlctl.topology.model import ClusterShape, Topology
from tests.unit.fleets import cluster, watched
from tests.unit.runbooks.test_reading_pages import BODY, FRONT, NAME


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("state=='healthy'", True),
        ("state=='critical'", False),
        ("findings", False),
        ("!findings", True),
        ("nodes[?alive]", True),
        ("nodes[?!alive]", False),
        ("!(nodes[?!alive])", True),
        ("nodes[0].shard", True),
        ("nothing", False),
        ("length(state) > nodes", False),
        ("length(nowhere)", False),
    ],
)
def test_what_holds(expression: str, *, holds: bool) -> None:
    output = json.dumps({"state": "healthy", "findings": [], "nodes": [{"alive": True, "shard": 0}]})
    assert jmespath.why_invalid(expression) == ""
    assert jmespath.holds(expression, output) is holds


@pytest.mark.parametrize("output", ["", "no JSON", "{", "null"])
def test_nothing_holds_of_no_document(output: str) -> None:
    assert not jmespath.holds("state", output)
    assert jmespath.search("state", output) is None


@pytest.mark.parametrize("expression", ["", "a[", "a ==", "!a[?b]", "!a.b"])
def test_what_is_no_question(expression: str) -> None:
    assert jmespath.why_invalid(expression)


@pytest.mark.parametrize(
    ("document", "lines"),
    [
        ({"findings": [{"code": "x", "severity": "critical", "text": "it is down"}]}, ("it is down",)),
        ({"checks": [{"severity": "ok", "evidence": "fine"}, {"severity": "warning", "evidence": "hot"}]}, ("hot",)),
        ({"steps": [{"text": "node-0: start", "outcome": "done"}]}, ("node-0: start: done",)),
        ({"drift": [{"class": "MISSING", "node": "node-0", "script": "gcra"}] * 2}, ("MISSING: node-0",)),
        (
            {
                "checks": [
                    {"name": "clock", "severity": "warning", "subject": "m", "evidence": "off"},
                    {"name": "memory-used", "severity": "critical", "subject": "node-0", "evidence": "99%"},
                ]
            },
            ("memory-used (node-0): 99%", "clock (m): off"),
        ),
        ({"source": "open", "reason": "failed"}, ("decided by open (failed)",)),
        ({"findings": "none", "steps": None}, ()),
        ([1], ()),
    ],
)
def test_the_gist_of_a_document(document: object, lines: tuple[str, ...]) -> None:
    assert summary(json.dumps(document), "") == lines


def test_an_error_is_told_in_its_own_words() -> None:
    errors = "working\n" + json.dumps({"error": {"code": "refused", "message": "no", "hint": "wait"}})
    assert summary("", errors) == ("no", "hint: wait")


def test_a_long_output_is_cut() -> None:
    found = summary(json.dumps({"findings": [{"text": str(n)} for n in range(20)]}), "")
    assert found[-1] == f"and {20 - MOST_LINES} more"
    assert len(found) == MOST_LINES + 1


def test_a_good_answer_in_words() -> None:
    steps = {step.id: expected_answer(step) for step in read_page(FRONT + BODY, NAME).steps}
    assert steps["look"] == "As expected: exit 0 (well, or done) or 11 (degraded); within 1m"
    assert steps["well"].endswith("exit 0 (well, or done); its JSON satisfies `state=='healthy'`; within 1m")
    assert steps["fix"].endswith("; within 2m; only if `look` printed `findings[?code=='x']`")


@pytest.mark.parametrize(
    ("topology", "election"),
    [
        (cluster(), "30s"),
        (replace(cluster(), cluster=ClusterShape(node_timeout_ms=15_000)), "90s"),
        (replace(cluster(), cluster=ClusterShape(node_timeout_ms=1_000)), "10s"),
        (watched(), "65s"),
    ],
)
def test_an_election_takes_as_long_as_the_fleet_is_set_to(topology: Topology, election: str) -> None:
    values = fixed_variables(topology, PurePath("/srv/limiter"))
    assert values == {"RL_FLEET": topology.name, "RL_DIR": "/srv/limiter", "RL_ELECTION": election}
    assert set(values) == FIXED_VARIABLES
