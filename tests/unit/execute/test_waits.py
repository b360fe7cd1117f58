"""Waits that know about TILT: how long they last, and what they tell meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from rlctl.errors import TimedOut
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession
from rlctl.execute.stop import StopFlag
from rlctl.execute.waits import TILT_WAIT_S, await_tilt_end, wait_healthy
from rlctl.observe.model import Observed
from rlctl.plan.tilt import TILT_S
from tests.unit.fleets import changed, desired_of, fresh, healthy, killed, name, watched

TOPOLOGY = watched()
STATE = healthy(TOPOLOGY)
SENTINEL = name("sentinel-0")


def in_tilt(at_s: float, *, until_s: float) -> Observed:
    """A sentinel that holds its peers for down until TILT ends."""
    view = STATE.node(SENTINEL).sentinel
    assert view is not None
    if at_s >= until_s:
        return STATE
    since_s = max(0, int(TILT_S - until_s + at_s))
    return changed(STATE, SENTINEL, sentinel=replace(view, peers=(), usable_quorum=False, tilt_s=since_s))


class FakeClock:
    """Time that passes in sleep alone."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def monotonic(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds


class FakeFleet:
    """Data nodes that are content, and what an observation shows at which time."""

    def __init__(self, says: Callable[[float], Observed]) -> None:
        self.topology = TOPOLOGY
        self.clock = FakeClock()
        self.connector = SimpleNamespace(link=lambda _spec: SimpleNamespace(pipeline=lambda _asked: ["role:master"]))
        self._says = says

    def observe(self) -> Observed:
        return self._says(self.clock.at_s)

    def desired(self, _observed: Observed) -> object:
        return desired_of(TOPOLOGY)


def waited(fleet: FakeFleet, *, timeout_s: float, at_most_s: float) -> tuple[list[str], list[str]]:
    notes: list[str] = []
    _observed, findings = wait_healthy(
        cast("FleetSession", fleet),
        StopFlag(),
        cast("Progress", SimpleNamespace(note=notes.append)),
        timeout_s=timeout_s,
        at_most_s=at_most_s,
    )
    return [finding.code for finding in findings], notes


@pytest.mark.parametrize(
    ("says", "timeout_s", "at_most_s", "codes", "ends_s"),
    [
        pytest.param(lambda _at_s: STATE, 15, 60, [], 0, id="healthy"),
        pytest.param(lambda at_s: in_tilt(at_s, until_s=29), 15, 60, [], 29, id="until TILT has passed"),
        pytest.param(
            lambda at_s: in_tilt(at_s, until_s=29), 15, 5, ["sentinel-tilt"], 15, id="less time than the wait"
        ),
        pytest.param(lambda at_s: in_tilt(at_s, until_s=29), 5, 20, ["sentinel-tilt"], 20, id="less time than TILT"),
        pytest.param(lambda at_s: in_tilt(at_s, until_s=29), 15, 0, ["sentinel-tilt"], 15, id="no time for TILT"),
        pytest.param(lambda _at_s: in_tilt(0, until_s=29), 15, 60, ["sentinel-tilt"], 60, id="a TILT without end"),
        pytest.param(
            lambda at_s: killed(in_tilt(at_s, until_s=20), "sentinel-2"),
            *(15, 60, ["node-down"], 35),
            id="the usual wait after TILT",
        ),
        pytest.param(
            lambda at_s: killed(in_tilt(at_s, until_s=99), "node-1"),
            *(5, 9, ["sentinel-tilt", "node-down"], 9),
            id="TILT is told first",
        ),
    ],
)
def test_how_long_a_deploy_waits(
    says: Callable[[float], Observed], timeout_s: float, at_most_s: float, codes: list[str], ends_s: float
) -> None:
    fleet = FakeFleet(says)
    found, _notes = waited(fleet, timeout_s=timeout_s, at_most_s=at_most_s)
    assert found == codes
    assert fleet.clock.at_s == pytest.approx(ends_s, abs=0.2)


def test_tilt_is_told_while_it_is_waited_for() -> None:
    _codes, notes = waited(FakeFleet(lambda at_s: in_tilt(at_s, until_s=25)), timeout_s=15, at_most_s=60)
    assert notes[0] == "waiting until all nodes agree"
    assert notes[1].startswith("waiting: sentinel-0 is in TILT for about 24 s more")


def attended(fleet: FakeFleet) -> list[str]:
    notes: list[str] = []
    progress = cast("Progress", SimpleNamespace(note=notes.append))
    await_tilt_end(cast("FleetSession", fleet), SENTINEL, progress, StopFlag())
    return notes


@pytest.mark.parametrize(
    ("says", "ends_s", "notes"),
    [
        pytest.param(lambda _at_s: STATE, 0, 0, id="out of TILT"),
        pytest.param(lambda at_s: in_tilt(at_s, until_s=25), 25, 1, id="until TILT has passed"),
        pytest.param(lambda _at_s: fresh(TOPOLOGY), 0, 0, id="a sentinel that has died"),
    ],
)
def test_a_failover_waits_for_the_sentinel_that_it_orders(
    says: Callable[[float], Observed], ends_s: float, notes: int
) -> None:
    fleet = FakeFleet(says)
    told = attended(fleet)
    assert fleet.clock.at_s == pytest.approx(ends_s, abs=0.2)
    assert told == ["waiting: sentinel-0 leaving TILT, 30 s after it stalled or its clock jumped"] * notes


def test_a_sentinel_that_stalls_again_and_again_is_told() -> None:
    fleet = FakeFleet(lambda _at_s: in_tilt(0, until_s=30))
    with pytest.raises(TimedOut, match=r"sentinel-0 leaving TILT.*: timed out after 60 s") as failure:
        attended(fleet)
    assert fleet.clock.at_s == pytest.approx(TILT_WAIT_S, abs=0.2)
    assert "look for stalls" in failure.value.hint
