"""Every subject in every pattern, round by round, so that a noisy moment meets everyone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlctl.bench.figures import Pattern, Row, Slice, row_of
from rlctl.bench.measure import DEPTH, Load
from rlctl.bench.session import Session
from rlctl.bench.subjects import Subject
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag

MANY = 200
ROUNDS = 3
PATTERNS = tuple(Pattern(keys=keys, depth=depth) for depth in (1, DEPTH) for keys in (1, MANY))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedReport:
    """What `rlctl bench` found."""

    name: str
    release: str
    server: str
    primaries: int
    duration_s: float
    rows: tuple[Row, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Everything that a reader must know before believing a row."""
        return tuple(note for row in self.rows for note in row.notes)

    def to_json(self) -> dict[str, object]:
        """As `bench -o json` shows it."""
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
    session: Session, subjects: Sequence[Subject], duration_s: float, progress: Progress, stop: StopFlag
) -> tuple[Row, ...]:
    """All rows; each took `duration_s`, spread over the rounds."""
    load = Load(session, session.primaries, stop)
    found: dict[tuple[int, Pattern], list[Slice]] = {}
    for turn in range(1, ROUNDS + 1):
        progress.note(f"round {turn} of {ROUNDS}")
        for subject in subjects:
            load.fill(subject, MANY)
        for pattern in PATTERNS:
            for index, subject in enumerate(subjects):
                found.setdefault((index, pattern), []).append(load.run(subject, pattern, duration_s / ROUNDS))
    return tuple(_rows(subjects, found))


def _rows(subjects: Sequence[Subject], found: dict[tuple[int, Pattern], list[Slice]]) -> Iterator[Row]:
    """Subject by subject; INCR is the first of them."""
    for index, subject in enumerate(subjects):
        for pattern in PATTERNS:
            yield row_of(subject, pattern, found[index, pattern], found[0, pattern])
