"""Each shipped runbook repairs each of its faults, and fails if one of its changing steps is omitted."""

from typing import Any

import pytest

from rlctl.runbooks.catalog import all_shipped
from rlctl.system.process import ProcessRunner
from rlctl.system.sandbox import why_unavailable
from rlctl.topology.model import Kind
from tests import reruns
from tests.conftest import skip_or_fail
from tests.local.driver import LocalFleet, cluster_document
from tests.rotation import in_turn

PAGES = [
    pytest.param(page.id, kind, id=f"{page.id} {kind}")
    for page in all_shipped()
    for kind in Kind
    if any(kind in rehearsal.kinds for rehearsal in page.rehearsals)
]
# Omissions on one kind test nearly the same as on the other; `make soak` omits steps on both.
[WITH_OMISSIONS] = in_turn(list(Kind))


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    reason = why_unavailable(ProcessRunner())
    if reason is not None:
        skip_or_fail("local", f"the runbooks are not tried here: {reason}")


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> LocalFleet:
    """A folder without a fleet, because each trial deploys its own."""
    return LocalFleet(folder=tmp_path_factory.mktemp("runbooks"), document=cluster_document(name="tried"))


@pytest.mark.parametrize(("page", "kind"), PAGES)
def test_a_page_leads_to_health(home: LocalFleet, page: str, kind: Kind) -> None:
    more = [] if kind is WITH_OMISSIONS else ["--passages-only"]
    ran = home.run_bare("runbook", "test", page, "--kind", kind, *more, "-j", "2", "-o", "json", expect=None)
    assert ran.out, ran.err
    proof: dict[str, Any] = ran.json()
    reruns.count(len(proof["passages"]) + len(proof["omissions"]), proof["repeated"])
    assert ran.code == 0, ran.err
    assert proof["passages"]
