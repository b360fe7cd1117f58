"""What a bench measured: slices of time, and the rows that they make. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlctl.bench.stats import Spent, middle, percentile
from rlctl.bench.subjects import Answer, Subject

# Below this share of wanted answers a row is not about what it says.
_CLEAN = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """How calls come: on so many keys (a primary, or one in all), and so many in flight on a connection."""

    keys: int
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the client saw: calls, admissions, and each call's wait where they came one by one."""

    calls: int
    admitted: int
    waits_us: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One subject for a moment, by the client and by the servers."""

    counted: Counted
    elapsed_s: float
    client_cpu_s: float
    spent: Spent

    @property
    def per_s(self) -> float:
        """Calls a second."""
        return self.counted.calls / self.elapsed_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One subject in one pattern: medians over the rounds, percentiles over all calls."""

    script: str
    answer: Answer | None
    pattern: Pattern
    calls: int
    per_s: float
    p50_us: float | None
    p99_us: float | None
    server_us: float | None
    of_incr: float | None
    as_wanted: float
    others_calls: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before believing the row."""
        about = " ".join(filter(None, (self.script, self.answer)))
        notes = []
        if self.as_wanted < _CLEAN:
            notes.append(f"{about}: only {self.as_wanted:.0%} of the answers were so")
        if self.others_calls:
            notes.append(f"{about}: {self.others_calls} calls were not the bench's; its server time is a mixture")
        return tuple(notes)

    def to_json(self) -> dict[str, object]:
        """As `bench -o json` shows it."""
        return {
            "script": self.script,
            "answer": self.answer,
            "keys": self.pattern.keys,
            "depth": self.pattern.depth,
            "calls": self.calls,
            "decisions_per_s": self.per_s,
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
            "server_us": self.server_us,
            "of_incr": self.of_incr,
            "as_wanted": self.as_wanted,
            "others_calls": self.others_calls,
        }


def row_of(subject: Subject, pattern: Pattern, slices: Sequence[Slice], incr: Sequence[Slice]) -> Row:
    """The row of a subject; `incr` was measured in the same rounds and the same pattern."""
    calls = sum(one.counted.calls for one in slices)
    waits = [wait for one in slices for wait in one.counted.waits_us]
    return Row(
        script=subject.name,
        answer=subject.answer,
        pattern=pattern,
        calls=calls,
        per_s=middle(one.per_s for one in slices) or 0.0,
        p50_us=percentile(waits, 50),
        p99_us=percentile(waits, 99),
        server_us=middle(one.spent.each_us for one in slices),
        of_incr=middle(one.per_s / plain.per_s for one, plain in zip(slices, incr, strict=True)),
        as_wanted=_wanted(subject.answer, slices) / calls if calls else 1.0,
        others_calls=sum(one.spent.calls for one in slices) - calls,
    )


def _wanted(answer: Answer | None, slices: Iterable[Slice]) -> int:
    counts = [one.counted for one in slices]
    if answer is Answer.ADMIT:
        return sum(one.admitted for one in counts)
    denied = answer is Answer.DENY
    return sum(one.calls - (one.admitted if denied else 0) for one in counts)
