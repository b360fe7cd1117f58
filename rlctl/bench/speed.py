"""Measures every case in every pattern, in rounds, so that noise on the machine affects all cases alike."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlctl.bench.figures import Measurement, Pattern, SpeedRow, speed_row
from rlctl.bench.measure import DEPTH, LoadGenerator
from rlctl.bench.session import Session
from rlctl.bench.subjects import BenchCase
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag

MANY = 200
ROUNDS = 3
PATTERNS = tuple(Pattern(keys=keys, depth=depth) for depth in (1, DEPTH) for keys in (1, MANY))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedReport:
    """The result of `rlctl bench`."""

    name: str
    release: str
    server: str
    primaries: int
    duration_s: float
    rows: tuple[SpeedRow, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the validity of the rows."""
        return tuple(note for row in self.rows for note in row.notes)

    def to_json(self) -> dict[str, object]:
        return {
            "schema": "rlctl.bench/1",
            "name": self.name,
            "release": self.release,
            "server": self.server,
            "primaries": self.primaries,
            "duration_s": self.duration_s,
            "rows": [row.to_json() for row in self.rows],
            "notes": list(self.notes),
        }


def speed_rows(
    session: Session, bench_cases: Sequence[BenchCase], duration_s: float, progress: Progress, stop: StopFlag
) -> tuple[SpeedRow, ...]:
    """Measure all rows; each takes `duration_s`, spread over the rounds."""
    load = LoadGenerator(session, session.primaries, stop)
    found: dict[tuple[int, Pattern], list[Measurement]] = {}
    for turn in range(1, ROUNDS + 1):
        progress.note(f"round {turn} of {ROUNDS}")
        for case in bench_cases:
            load.fill(case, MANY)
        for pattern in PATTERNS:
            for index, case in enumerate(bench_cases):
                found.setdefault((index, pattern), []).append(load.run(case, pattern, duration_s / ROUNDS))
    return tuple(_rows(bench_cases, found))


def _rows(bench_cases: Sequence[BenchCase], found: dict[tuple[int, Pattern], list[Measurement]]) -> Iterator[SpeedRow]:
    """Yield the rows of each case; INCR is the first case."""
    for index, case in enumerate(bench_cases):
        for pattern in PATTERNS:
            yield speed_row(case, pattern, found[index, pattern], found[0, pattern])
