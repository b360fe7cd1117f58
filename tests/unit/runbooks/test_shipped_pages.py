"""The pages that rlctl ships: whole, findable by what is seen, and true to what the program can say."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlctl.drills.scenario.library import ORDER, shipped
from rlctl.errors import RlctlError
from rlctl.lab.twin import check_settings
from rlctl.limits.failures import Cause
from rlctl.runbooks.answers import FILE_NAME
from rlctl.runbooks.catalog import all_shipped, find
from rlctl.runbooks.faults import FAULTS
from rlctl.runbooks.page import jmespath
from rlctl.runbooks.page.model import Fault, PageSection, Runbook, Step
from rlctl.runbooks.rehearsal import split_settings
from rlctl.topology.model import Kind
from tests.command_lines import commands_in, parse_line
from tests.unit.runbooks.index import FOLDER, answers, index
from tests.unit.sayings import sayings

ROOT = Path(__file__).parents[3]
PAGES = all_shipped()
IDS = ["RB-01", "RB-02", "RB-03", "RB-04", "RB-05", "RB-06", "RB-07", "RB-09", "RB-10", "RB-12", "RB-16", "RB-17"]
# What has no page, and why none is needed: the finding's own text or fix is the whole answer.
WITHOUT_PAGE = {
    # of machines and of the topology, for a quiet hour: the check's own fix is the whole answer
    *("server", "directives", "ports", "host-facts", "ephemeral-bus-ports", "placement", "bus-authentication"),
    *("file-modes", "encryption"),
    *("clock", "clock-offset", "cpu", "disk", "file-limit", "memory", "overcommit-memory", "swap-in-use"),
    *("swap-present", "tcp-backlog", "transparent-huge-pages", "eviction-policy", "persistence-restart", "replicas"),
    # somebody else's process or node: nothing that an operator of this fleet mends at night
    *("node-stranger", "node-foreign", "node-unproven", "node-nonsense", "unknown-member"),
    # wants a plan for a quiet hour
    *("certificate", "engine-drift", "place-drift"),
    # an edit of the topology file: the finding names it, and undoing it is the whole answer
    "topology-differs",
    # all is well
    "fleet",
}
ERRORS_WITHOUT_PAGE = {
    *(
        "usage",
        "invalid-limit",
        "invalid-file",
        "impossible-settings",
        "access-denied",
        "not-found",
        "unreachable",
        "host-refused",
        "timeout",
        "refused",
    ),
    *("lock-held", "stale-plan", "overtaken", "declined", "partly-done", "check-failed", "not-read-back"),
    *("hung-up", "interrupted", "terminated"),
    # Its hint says which limit of the shell to raise.
    "resource-limit",
}
# The routes of a cluster at work, and a script that runs for too long.
CAUSES_WITHOUT_PAGE = {Cause.MOVED, Cause.ASK, Cause.TRY_AGAIN, Cause.BUSY}


# Who emits what is said of one kind of fleet alone, and what only the views of it show.
OF_KIND = {
    Kind.CLUSTER: sayings("plan/cluster_findings.py") | {"link-down"},
    Kind.SENTINEL: sayings("plan/sentinel_findings.py") | {"link-down", "sentinel-tilt"},
}
OF_VIEWS = sayings("plan/views.py") | {"node-fenced", "sentinel-tilt"}
OF_STATUS = sayings("plan/*finding*.py")
# What status says where its own words for it are others than those of the views.
SEEN_WITH = {
    "no-writer": ["node-down", "no-replica", "cluster-fail"],
    "no-views": ["node-down"],
    "two-writers": ["two-primaries"],
    "doubted": [],
}


def said() -> frozenset[str]:
    """Every code that status, views and doctor can say."""
    return sayings("plan/*.py") | sayings("doctor/*.py") | sayings("operations/doctor.py")


def every_error(kind: type[RlctlError] = RlctlError) -> set[str]:
    return {kind.code} | {code for child in kind.__subclasses__() for code in every_error(child)}


def test_the_twelve_are_there() -> None:
    assert [page.id for page in PAGES] == IDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.id)
def test_commands_are_those_of_the_program(page: Runbook) -> None:
    problems = [parse_line(words) for step in page.steps for words in commands_in(step.command)]
    assert problems == [None] * len(page.steps)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.id)
def test_what_a_page_names_exists(page: Runbook) -> None:
    assert set(page.drills) <= set(ORDER)
    others = {decision.go_to for decision in page.decisions if decision.go_to.startswith("RB-")}
    assert others <= set(IDS) - {page.id}
    for rehearsal in page.rehearsals:
        _directives, settings = split_settings(rehearsal.settings)
        assert list(check_settings(settings)) == []
        assert rehearsal.drill is None or set(rehearsal.kinds) <= set(shipped(rehearsal.drill).kinds)


def test_findings_and_pages_name_each_other() -> None:
    counted = Counter(finding for page in PAGES for finding in page.findings)
    assert [finding for finding, count in counted.items() if count > 1] == []
    assert set(counted) <= said(), "a page answers what nobody says"
    assert said() - set(counted) == WITHOUT_PAGE, "a finding has no page, or a word here is said no more"


@pytest.mark.parametrize("kind", Kind)
def test_a_finding_names_a_page_for_its_kind_of_fleet(kind: Kind) -> None:
    pages = {code: find(page) for code, page in json.loads(answers(PAGES))["findings"].items()}
    emitted = said() - (OF_KIND[Kind.CLUSTER] | OF_KIND[Kind.SENTINEL]) | OF_KIND[kind]
    assert [code for code in emitted & set(pages) if kind not in pages[code].kinds] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.id)
def test_a_page_takes_in_whoever_comes_for_its_finding(page: Runbook) -> None:
    for code in page.findings:
        refused = [step.id for step in page.steps if step.section is PageSection.LOOK and not takes_in(step, code)]
        assert refused == [], f"{page.id} turns {code} away"


def takes_in(step: Step, code: str) -> bool:
    """Whether a first step lets pass what it prints of a fleet that has this one finding."""
    return all(
        exit_code in step.exits and (step.expect is None or jmespath.holds(step.expect, json.dumps(document)))
        for exit_code, document in printed(step, code)
    )


def printed(step: Step, code: str) -> Iterator[tuple[int, object]]:
    """Every way in which status, its views or doctor can show it; other commands tell of something else."""
    if "status --views" in step.command:
        codes = [code] if code in OF_VIEWS else []
        yield from ((one, {"conflicts": [{"code": name}]}) for name in codes for one in exits(name))
        if not codes:
            yield 0, {"conflicts": []}
        return
    seen = SEEN_WITH.get(code, [code])
    if step.command.startswith("rlctl status"):
        told = [name for name in seen if name in OF_STATUS]
        yield from ((one, {"findings": [{"code": name}]}) for name in told for one in exits(name))
        if not told:
            yield 0, {"findings": []}
    elif step.command.startswith("rlctl doctor"):
        yield from ((one, {"checks": [{"name": name, "severity": "critical"}]}) for name in seen for one in exits(name))


def exits(code: str) -> set[int]:
    """By the severities that it is told with."""
    files = [*(ROOT / "rlctl/plan").glob("*finding*.py"), ROOT / "rlctl/plan/views.py"]
    source = "".join(file.read_text("utf-8") for file in files)
    is_critical = re.search(rf'critical\(\s*"{code}"|code="{code}", severity=Severity.CRITICAL', source)
    is_degraded = re.search(rf'degraded\(\s*"{code}"|code="{code}", severity=Severity.DEGRADED', source)
    return ({12} if is_critical else set()) | ({11} if is_degraded or not is_critical else set())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.id)
def test_a_page_speaks_of_all_that_leads_to_it(page: Runbook) -> None:
    text = page.sections[PageSection.SYMPTOM] + page.sections[PageSection.DECIDE]
    leading = (*page.findings, *page.error_codes, *page.causes)
    assert [code for code in leading if f"`{code}`" not in text] == []


SILENT = {"shard": 1, "writable": None, "wins": True}
REFUSING = {"shard": 1, "writable": False, "wins": True}
REPLACED = [{"shard": 1, "writable": None, "wins": False}, {"shard": 1, "writable": True, "wins": True}]
OTHER = {"shard": 0, "writable": True, "wins": True}
TAKE_OVER = {"kind": "take-over", "text": "node-3: take over shard 0 from node-0 without an election"}
EMPTY = {"kind": "start-node", "text": "node-1: start (shard 1 comes back empty: all its counters are lost)"}


@pytest.mark.parametrize(
    ("page", "step", "document", "is_taken"),
    [
        ("RB-01", "candidate", {"primaries": [OTHER, SILENT]}, True),
        ("RB-01", "candidate", {"primaries": [OTHER, REFUSING]}, False),
        ("RB-01", "candidate", {"primaries": [OTHER, *REPLACED]}, False),
        ("RB-01", "recheck", {"primaries": [OTHER, SILENT]}, True),
        ("RB-01", "recheck", {"primaries": [OTHER, REFUSING]}, False),
        ("RB-01", "elect", {"to": "node-3"}, True),
        ("RB-01", "elect", {}, False),
        ("RB-02", "lift", {"conflicts": [{"code": "no-writer"}, {"code": "node-fenced"}]}, True),
        ("RB-02", "lift", {"conflicts": [{"code": "two-writers"}, {"code": "node-fenced"}]}, False),
        ("RB-04", "takeover", {"steps": [TAKE_OVER]}, True),
        ("RB-04", "takeover", {"steps": [TAKE_OVER, EMPTY]}, False),
        ("RB-04", "bring-back", {"steps": [TAKE_OVER, EMPTY]}, False),
        ("RB-04", "bring-back", {"steps": []}, True),
        ("RB-05", "repair", {"findings": []}, False),
        ("RB-16", "scripts", {"drift": []}, False),
    ],
)
def test_what_calls_for_a_step(page: str, step: str, document: object, *, is_taken: bool) -> None:
    found = next(one for one in find(page).steps if one.id == step)
    assert found.when is not None
    assert jmespath.holds(found.when.query, json.dumps(document)) is is_taken


def test_the_shard_without_a_primary_is_the_silent_one() -> None:
    views = json.dumps({"primaries": [{**REFUSING, "shard": 0}, SILENT]})
    sources = [step for step in find("RB-01").steps if "RL_SHARD" in step.sets]
    assert [jmespath.search(step.sets["RL_SHARD"], views) for step in sources] == [1, 1]


def test_errors_and_pages_name_each_other() -> None:
    counted = Counter(code for page in PAGES for code in page.error_codes)
    assert [code for code, count in counted.items() if count > 1] == []
    assert every_error() - {"bug"} == set(counted) | ERRORS_WITHOUT_PAGE


def test_causes_and_pages_name_each_other() -> None:
    counted = Counter(cause for page in PAGES for cause in page.causes)
    assert [cause for cause, count in counted.items() if count > 1] == []
    assert set(Cause) == set(counted) | CAUSES_WITHOUT_PAGE


def test_every_fault_is_made_and_used() -> None:
    assert set(FAULTS) == set(Fault)
    assert {rehearsal.fault for page in PAGES for rehearsal in page.rehearsals} == set(Fault)


def test_the_index_is_that_of_the_pages() -> None:
    """To write both again: `.venv/bin/python -m tests.unit.runbooks.index`."""
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == index(PAGES)
    assert (FOLDER / FILE_NAME).read_text(encoding="utf-8") == answers(PAGES)


def test_every_page_can_be_found_by_a_symptom() -> None:
    assert all(page.symptoms for page in PAGES)
    assert not [one for one, count in Counter(s for page in PAGES for s in page.symptoms).items() if count > 1]
