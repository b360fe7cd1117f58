"""Sentinels in TILT after a stall: status reports it, and deploy waits until they act again."""

from collections.abc import Iterator

import pytest

from tests.local.driver import LocalFleet, sentinel_document, wait_for
from tests.local.failures import assert_fails
from tests.local.tilt import SENTINELS, stall, stall_one_by_one

# Longer than a deploy without steps waits.
TILT_MS = 20_000


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    fleet = LocalFleet(folder=tmp_path_factory.mktemp("watched"), document=sentinel_document())
    fleet.write()
    try:
        fleet.deploy()
        yield fleet
    finally:
        fleet.end_all()


def test_a_deploy_without_steps_waits_until_all_sentinels_act_again(watched: LocalFleet) -> None:
    """The last sentinel reports the others as down since before its stall, and checks again only after TILT."""
    stall_one_by_one(watched, SENTINELS, tilt_ms=TILT_MS)
    status = watched.status(expect=12)
    found = {(one["code"], one["severity"], one["subject"], one["runbook"]) for one in status["findings"]}
    degraded = {("sentinel-tilt", "degraded", name, "RB-12") for name in SENTINELS}
    assert found == {("sentinel-tilt", "critical", "fleet", "RB-12"), *degraded}
    views = watched.run("status", "--views", "-o", "json", expect=None).json()
    assert {(one["code"], one["subject"]) for one in views["conflicts"]} == {
        ("sentinel-tilt", name) for name in SENTINELS
    }
    ran = watched.run("deploy", "--yes")
    assert "healthy, nothing to do" in ran.out
    assert "in TILT" in ran.err


def test_a_deploy_that_may_not_wait_so_long_names_tilt(watched: LocalFleet) -> None:
    stall(watched, SENTINELS[:1], tilt_ms=TILT_MS)
    assert_fails(
        watched, "deploy", "--yes", "--timeout", "1s", code=15, name="check-failed", says="sentinel-0 is in TILT"
    )
    assert {one["code"] for one in watched.status(expect=11)["findings"]} == {"sentinel-tilt"}
    wait_for(lambda: watched.status(expect=None)["state"] == "healthy", "a sentinel that acts again")
