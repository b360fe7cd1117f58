"""The measurements of a bench and the table rows made from them. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlctl.bench.stats import CommandCost, middle, percentile
from rlctl.bench.subjects import Answer, BenchCase

# If a smaller share of the answers is as expected, the row gets a note.
_CLEAN = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """How calls are sent: number of keys on each primary (1: one key in total), and calls in flight per connection."""

    keys: int
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCounts:
    """Counts of the client. `waits_us` has the latency of each call; it is empty if calls were pipelined."""

    calls: int
    admitted: int
    waits_us: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measurement of a case: the counts of the client and the cost on the servers."""

    counted: ClientCounts
    elapsed_s: float
    client_cpu_s: float
    spent: CommandCost

    @property
    def per_s(self) -> float:
        return self.counted.calls / self.elapsed_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedRow:
    """Figures of a case in one pattern: medians over the rounds, percentiles over all calls."""

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
        """Warnings about the validity of the row."""
        about = " ".join(filter(None, (self.script, self.answer)))
        notes = []
        if self.as_wanted < _CLEAN:
            notes.append(f"{about}: only {self.as_wanted:.0%} of the answers were as expected")
        if self.others_calls:
            notes.append(f"{about}: the server time includes {self.others_calls} calls of other clients")
        return tuple(notes)

    def to_json(self) -> dict[str, object]:
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


def speed_row(
    case: BenchCase, pattern: Pattern, slices: Sequence[Measurement], incr: Sequence[Measurement]
) -> SpeedRow:
    """The row of a case; `incr` are the measurements of INCR in the same rounds and pattern."""
    calls = sum(one.counted.calls for one in slices)
    waits = [wait for one in slices for wait in one.counted.waits_us]
    return SpeedRow(
        script=case.name,
        answer=case.answer,
        pattern=pattern,
        calls=calls,
        per_s=middle(one.per_s for one in slices) or 0.0,
        p50_us=percentile(waits, 50),
        p99_us=percentile(waits, 99),
        server_us=middle(one.spent.us_per_call for one in slices),
        of_incr=middle(one.per_s / plain.per_s for one, plain in zip(slices, incr, strict=True)),
        as_wanted=_wanted(case.answer, slices) / calls if calls else 1.0,
        others_calls=sum(one.spent.calls for one in slices) - calls,
    )


def _wanted(answer: Answer | None, slices: Iterable[Measurement]) -> int:
    counts = [one.counted for one in slices]
    if answer is Answer.ADMIT:
        return sum(one.admitted for one in counts)
    denied = answer is Answer.DENY
    return sum(one.calls - (one.admitted if denied else 0) for one in counts)
