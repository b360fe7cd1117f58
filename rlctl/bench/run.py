"""Runs a bench from start to end: journal entry, session, measurements, and removal of its keys.

A bench does not take the fleet's lock, because a bench does not change nodes or settings, and other operations must not
wait for a bench. A deploy at the same time can spoil the figures of the bench, but not the fleet. If a node stops or a
slot moves, the bench ends with an error.
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
from rlctl.bench.subjects import Answer, BenchCase, bench_cases
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
class BenchOptions:
    """The scripts to measure (empty: the default of the bench) and the seconds for each row."""

    scripts: Sequence[str]
    duration_s: float
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyReport:
    """The result of `rlctl bench --accuracy`."""

    name: str
    release: str
    rows: tuple[Accuracy, ...]

    def to_json(self) -> dict[str, object]:
        rows = [row.to_json() for row in self.rows]
        return {"schema": "rlctl.bench-accuracy/1", "name": self.name, "release": self.release, "rows": rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleReport:
    """The result of `rlctl bench --scale`."""

    name: str
    release: str
    scripts: tuple[Scaling, ...]

    def to_json(self) -> dict[str, object]:
        scripts = [one.to_json() for one in self.scripts]
        return {"schema": "rlctl.bench-scale/1", "name": self.name, "release": self.release, "scripts": scripts}


def scaled(fleet: FleetSession, wanted: Sequence[str]) -> list[BenchCase]:
    """The cases that the scaling bench measures: the admitting case of each script."""
    return [one for one in bench_cases(fleet.release, wanted or SCALED) if one.answer is Answer.ADMIT]


def run_speed_bench(fleet: FleetSession, bench: BenchOptions, progress: Progress, stop: StopFlag) -> SpeedReport:
    """Measure the speed of every wanted script, and of INCR."""

    def measure(session: Session) -> SpeedReport:
        window_ms = window_without_edge(session.primaries[0].now_us() // 1000)
        measured = bench_cases(fleet.release, bench.scripts, window_ms=window_ms)
        return SpeedReport(
            name=fleet.topology.name,
            release=fleet.release.version,
            server=session.server,
            primaries=len(session.primaries),
            duration_s=bench.duration_s,
            rows=speed_rows(session, measured, bench.duration_s, progress, stop),
        )

    return _benched(fleet, bench, progress, measure)


def run_accuracy_bench(fleet: FleetSession, bench: BenchOptions, progress: Progress, stop: StopFlag) -> AccuracyReport:
    """Attack every wanted script that has windows."""

    def measure(session: Session) -> AccuracyReport:
        rows = tuple(run_accuracy(session, attackable(fleet.release, bench.scripts), stop))
        return AccuracyReport(name=fleet.topology.name, release=fleet.release.version, rows=rows)

    return _benched(fleet, bench, progress, measure)


def run_scale_bench(fleet: FleetSession, bench: BenchOptions, progress: Progress, stop: StopFlag) -> ScaleReport:
    """Measure every wanted script on 1 to N shards."""
    one_machine = fleet.topology.target is TargetName.LOCAL

    def measure(session: Session) -> ScaleReport:
        found = [
            run_scale(session, case, bench.duration_s, progress, stop, one_machine=one_machine)
            for case in scaled(fleet, bench.scripts)
        ]
        return ScaleReport(name=fleet.topology.name, release=fleet.release.version, scripts=tuple(found))

    return _benched(fleet, bench, progress, measure)


def _benched(
    fleet: FleetSession, bench: BenchOptions, progress: Progress, measure: Callable[[Session], _Report]
) -> _Report:
    with _journalled(fleet, bench.argv), bench_session(fleet, progress) as session:
        return measure(session)


@contextmanager
def _journalled(fleet: FleetSession, argv: Sequence[str]) -> Iterator[None]:
    """Record the bench in the journal, so that `rlctl history` explains the load."""
    journal = Journal(fleet.home.journal(fleet.topology.name), fleet.clock)
    journal.begin("bench", argv)
    try:
        yield
    except Interrupted as failure:
        journal.end(failure.code)
        raise type(failure)(
            "stopped; the keys of the bench are removed", hint="run the same command again"
        ) from failure
    except RlctlError as failure:
        journal.end(failure.code)
        raise
    journal.end("done")
