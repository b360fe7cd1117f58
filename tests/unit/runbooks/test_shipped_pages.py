"""The pages that rlctl ships: whole, findable by what is seen, and true to what the program can say."""

from collections import Counter
from pathlib import Path

import pytest

from rlctl.cli.lines import commands_in, parse_line
from rlctl.drills.library import ORDER
from rlctl.drills.settings import check_settings
from rlctl.errors import RlctlError
from rlctl.limiter.failures import Cause
from rlctl.runbooks.faults import FAULTS
from rlctl.runbooks.index import index
from rlctl.runbooks.model import Fault, Runbook
from rlctl.runbooks.order import split_settings
from rlctl.runbooks.shelf import all_shipped
from tests.unit.sayings import sayings

ROOT = Path(__file__).parents[3]
PAGES = all_shipped()
IDS = ["RB-01", "RB-02", "RB-03", "RB-04", "RB-05", "RB-06", "RB-07", "RB-09", "RB-10", "RB-12", "RB-16", "RB-17"]
# What has no page, and why none is needed: the finding's own text or fix is the whole answer.
WITHOUT_PAGE = {
    # of machines and of the topology, for a quiet hour: the check's own fix is the whole answer
    *("server", "ports", "host-facts", "ephemeral-bus-ports", "placement", "bus-authentication", "file-modes"),
    *("clock", "clock-offset", "cpu", "disk", "file-limit", "memory", "overcommit-memory", "swap-in-use"),
    *("swap-present", "tcp-backlog", "transparent-huge-pages", "eviction-policy", "persistence-restart", "replicas"),
    # somebody else's process or node: nothing that an operator of this fleet mends at night
    *("node-stranger", "node-foreign", "unknown-member"),
    # wants a plan for a quiet hour
    *("certificate", "engine-drift", "place-drift"),
    # all is well
    "fleet",
}
ERRORS_WITHOUT_PAGE = {
    *("usage", "invalid-limit", "invalid-file", "access-denied", "not-found", "unreachable", "timeout", "refused"),
    *("lock-held", "stale-plan", "overtaken", "declined", "partly-done", "check-failed", "not-read-back"),
    *("interrupted", "terminated"),
}
# The routes of a cluster at work, and a script that runs for too long.
CAUSES_WITHOUT_PAGE = {Cause.MOVED, Cause.ASK, Cause.TRY_AGAIN, Cause.BUSY}


def said() -> frozenset[str]:
    """Every code that status, views and doctor can say."""
    return sayings("plan/*.py") | sayings("doctor/*.py") | sayings("execute/doctor.py")


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


def test_findings_and_pages_name_each_other() -> None:
    counted = Counter(finding for page in PAGES for finding in page.findings)
    assert [finding for finding, count in counted.items() if count > 1] == []
    assert set(counted) <= said(), "a page answers what nobody says"
    assert said() - set(counted) == WITHOUT_PAGE, "a finding has no page, or a word here is said no more"


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
    """Written anew by: python -c 'from rlctl.runbooks import index, shelf; print(index.index(shelf.all_shipped()))'."""
    assert (ROOT / "runbooks/README.md").read_text(encoding="utf-8") == index(PAGES)


def test_every_page_can_be_found_by_a_symptom() -> None:
    assert all(page.symptoms for page in PAGES)
    assert not [one for one, count in Counter(s for page in PAGES for s in page.symptoms).items() if count > 1]
