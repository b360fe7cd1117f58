"""A planned failover of a cluster waits until the voters may vote and are heard."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from rlctl.errors import TimedOut
from rlctl.execute.journal import Journal
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession
from rlctl.execute.stop import StopFlag
from rlctl.execute.votes import LINKED_S, await_votes
from rlctl.observe.model import Observed
from rlctl.plan.failover import FailoverMode
from rlctl.plan.failover_choice import choose
from tests.unit.fleets import changed, cluster, desired_of, healthy

TOPOLOGY = cluster()
WINDOW_S = 2 * TOPOLOGY.cluster.node_timeout_ms / 1000
STATE = healthy(TOPOLOGY)
ORDER = choose(desired_of(TOPOLOGY), STATE, 0, FailoverMode.PLANNED)


def not_linked(state: Observed) -> Observed:
    table = state.node(ORDER.new).table
    return changed(state, ORDER.new, table=tuple(replace(peer, linked=False) for peer in table))


class FakeClock:
    """Time that passes in sleep alone."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def monotonic(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.at_s)


class FakeFleet:
    """A primary that was promoted or not, whose replica has been connected for so long, and what nodes say."""

    def __init__(self, journal: Path, *, promoted: bool = False, age_s: int = 0) -> None:
        self.topology = TOPOLOGY
        self.clock = FakeClock()
        self.home = SimpleNamespace(journal=lambda _name: journal)
        self.connector = SimpleNamespace(link=lambda _spec: SimpleNamespace(call=self._answer))
        self.says: Callable[[float], Observed] = lambda _at_s: STATE
        self._promoted = promoted
        self._age_s = age_s

    def observe(self) -> Observed:
        return self.says(self.clock.at_s)

    def _answer(self, *command: str) -> str:
        if command[0] == "INFO":
            return f"role:master\r\nsecond_repl_offset:{4711 if self._promoted else -1}\r\n"
        return f"id=7 age={self._age_s + int(self.clock.at_s)} flags=S\n"


def waited(fleet: FakeFleet) -> tuple[float, list[str]]:
    notes: list[str] = []
    await_votes(cast("FleetSession", fleet), ORDER, cast("Progress", SimpleNamespace(note=notes.append)), StopFlag())
    return fleet.clock.at_s, notes


@pytest.mark.parametrize(
    ("promoted", "age_s", "waits_s"),
    [
        pytest.param(False, 0, 0, id="a primary since its start"),
        pytest.param(True, WINDOW_S + 1, 0, id="promoted long ago"),
        pytest.param(True, 0, WINDOW_S + 1, id="just promoted; ages are whole seconds"),
        pytest.param(True, 4, WINDOW_S - 3, id="promoted 4 s ago"),
    ],
)
def test_voters_that_have_voted(tmp_path: Path, *, promoted: bool, age_s: float, waits_s: float) -> None:
    spent_s, notes = waited(FakeFleet(tmp_path / "journal", promoted=promoted, age_s=int(age_s)))
    assert spent_s == pytest.approx(waits_s, abs=0.2)
    assert notes == ([f"waiting: primaries vote for shard 0 at most once in {WINDOW_S:g} s"] if waits_s else [])


@pytest.mark.parametrize(
    ("argv", "outcome", "waits_s"),
    [
        pytest.param(["failover", "0", "--yes"], "timeout", WINDOW_S, id="a failed order"),
        pytest.param(["failover", "0", "--yes"], None, WINDOW_S, id="an order that was killed"),
        pytest.param(["failover", "1", "--yes"], "timeout", 0, id="of another shard"),
        pytest.param(["failover", "0", "--yes"], "done", 0, id="one that succeeded shows in its connections"),
    ],
)
def test_orders_before(tmp_path: Path, argv: Sequence[str], outcome: str | None, waits_s: float) -> None:
    fleet = FakeFleet(tmp_path / "journal")
    journal = Journal(tmp_path / "journal", fleet.clock)
    journal.begin("failover", argv)
    if outcome is not None:
        journal.end(outcome)
    assert waited(fleet)[0] == pytest.approx(waits_s, abs=0.2)


def test_an_order_in_the_future_is_of_another_clock(tmp_path: Path) -> None:
    fleet = FakeFleet(tmp_path / "journal")
    fleet.clock.at_s = 1_000.0
    Journal(tmp_path / "journal", fleet.clock).begin("failover", ["failover", "0"])
    fleet.clock.at_s = 0.0
    assert waited(fleet)[0] == 0


def test_bus_links_that_come_back(tmp_path: Path) -> None:
    fleet = FakeFleet(tmp_path / "journal")
    fleet.says = lambda at_s: STATE if at_s >= 1 else not_linked(STATE)
    spent_s, [note] = waited(fleet)
    assert spent_s == pytest.approx(1, abs=0.2)
    assert note.startswith("waiting: node-0, node-1")


def test_bus_links_that_do_not_come_back(tmp_path: Path) -> None:
    fleet = FakeFleet(tmp_path / "journal")
    fleet.says = lambda _at_s: not_linked(STATE)
    with pytest.raises(TimedOut, match=f"bus links between {ORDER.new} and all other nodes") as caught:
        waited(fleet)
    assert "nothing was changed" in caught.value.hint
    assert fleet.clock.at_s == pytest.approx(LINKED_S, abs=0.2)
