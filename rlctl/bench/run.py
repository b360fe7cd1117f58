"""One bench from start to end: journal, session, measuring, and nothing left.

A bench takes no fleet lock: it changes no node and no setting, and whatever else goes on must not wait for it. A
deploy beside it spoils figures, not fleets: a node that goes away or a key that moves ends the bench with an error.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from rlctl.bench.accuracy import attackable, run_accuracy
from rlctl.bench.claims import Accuracy
from rlctl.bench.scale import run_scale
from rlctl.bench.scaling import Scaling
from rlctl.bench.session import Session, bench_session
from rlctl.bench.speed import SpeedReport, speed_rows
from rlctl.bench.subjects import Answer, Subject, subjects
from rlctl.errors import Interrupted, RlctlError
from rlctl.execute.journal import Journal
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession
from rlctl.execute.stop import StopFlag
from rlctl.limits.windows import window_without_edge
from rlctl.topology.model import TargetName

SCALED = ("gcra",)
_Report = TypeVar("_Report")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What is wanted: some scripts or all, each row for so long."""

    scripts: Sequence[str]
    duration_s: float
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyReport:
    """What `rlctl bench --accuracy` found."""

    name: str
    release: str
    rows: tuple[Accuracy, ...]

    def to_json(self) -> dict[str, object]:
        """The contract of `bench --accuracy -o json`."""
        rows = [row.to_json() for row in self.rows]
        return {"schema": "rlctl.bench-accuracy/1", "name": self.name, "release": self.release, "rows": rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleReport:
    """What `rlctl bench --scale` found."""

    name: str
    release: str
    scripts: tuple[Scaling, ...]

    def to_json(self) -> dict[str, object]:
        """The contract of `bench --scale -o json`."""
        scripts = [one.to_json() for one in self.scripts]
        return {"schema": "rlctl.bench-scale/1", "name": self.name, "release": self.release, "scripts": scripts}


def scaled(fleet: FleetSession, wanted: Sequence[str]) -> list[Subject]:
    """The scripts whose growth is measured, admitting."""
    return [one for one in subjects(fleet.release, wanted or SCALED) if one.answer is Answer.ADMIT]


def run_speed_bench(fleet: FleetSession, bench: Bench, progress: Progress, stop: StopFlag) -> SpeedReport:
    """Every wanted script beside INCR."""

    def measure(session: Session) -> SpeedReport:
        window_ms = window_without_edge(session.primaries[0].now_us() // 1000)
        measured = subjects(fleet.release, bench.scripts, window_ms=window_ms)
        return SpeedReport(
            name=fleet.topology.name,
            release=fleet.release.version,
            server=session.server,
            primaries=len(session.primaries),
            duration_s=bench.duration_s,
            rows=speed_rows(session, measured, bench.duration_s, progress, stop),
        )

    return _benched(fleet, bench, progress, measure)


def run_accuracy_bench(fleet: FleetSession, bench: Bench, progress: Progress, stop: StopFlag) -> AccuracyReport:
    """Every wanted script that counts in windows under attack."""

    def measure(session: Session) -> AccuracyReport:
        rows = tuple(run_accuracy(session, attackable(fleet.release, bench.scripts), stop))
        return AccuracyReport(name=fleet.topology.name, release=fleet.release.version, rows=rows)

    return _benched(fleet, bench, progress, measure)


def run_scale_bench(fleet: FleetSession, bench: Bench, progress: Progress, stop: StopFlag) -> ScaleReport:
    """Every wanted script on 1..N shards."""
    one_machine = fleet.topology.target is TargetName.LOCAL

    def measure(session: Session) -> ScaleReport:
        found = [
            run_scale(session, subject, bench.duration_s, progress, stop, one_machine=one_machine)
            for subject in scaled(fleet, bench.scripts)
        ]
        return ScaleReport(name=fleet.topology.name, release=fleet.release.version, scripts=tuple(found))

    return _benched(fleet, bench, progress, measure)


def _benched(fleet: FleetSession, bench: Bench, progress: Progress, measure: Callable[[Session], _Report]) -> _Report:
    with _journalled(fleet, bench.argv), bench_session(fleet, progress) as session:
        return measure(session)


@contextmanager
def _journalled(fleet: FleetSession, argv: Sequence[str]) -> Iterator[None]:
    """Whoever wonders about a load finds it in the history."""
    journal = Journal(fleet.home.journal(fleet.topology.name), fleet.clock)
    journal.begin("bench", argv)
    try:
        yield
    except Interrupted as failure:
        journal.end(failure.code)
        raise type(failure)(
            "stopped; the keys of the bench are removed", hint="the same command starts anew"
        ) from failure
    except RlctlError as failure:
        journal.end(failure.code)
        raise
    journal.end("done")
