"""Compares the limiters: medians over the rounds, ratios to peers, and goals."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from contenders import OURS, Contender
from table import render_table

LEGEND = """\
server us: median over the rounds of what one decision takes inside the server, INFO commandstats
per s: decisions a second through the library's own Python client, one thread, median over the rounds
throttled-py's fixed window is a bare INCRBY: denied calls count. pyrate-limiter removes old entries in a thread of
its own, which is not in its figure. limits' fixed window counts denied calls too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The medians of a limiter over all rounds."""

    contender: Contender
    server_us: float
    per_s: float

    def to_json(self) -> dict[str, Any]:
        return {
            "family": self.contender.family,
            "library": self.contender.library,
            "limiter": self.contender.label,
            "answer": answer(self.contender),
            "server_us": self.server_us,
            "decisions_per_s": self.per_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The largest ratio of server time to that of the fastest peer."""

    label: str
    peers: tuple[str, ...]
    ratio: float

    def rivals(self, results: Sequence[Result], *, admits: bool) -> list[Result]:
        """The results of the peers for the same answer."""
        return [one for one in results if one.contender.name in self.peers and one.contender.admits is admits]


GOALS = (
    Goal(label="token_bucket", peers=("throttled-py token_bucket",), ratio=1.0),
    Goal(label="gcra", peers=("throttled-py gcra", "throttled-py leaking_bucket"), ratio=1.0),
    Goal(
        label="sliding_counter",
        peers=("limits sliding window counter", "throttled-py sliding_window"),
        ratio=1.0,
    ),
    Goal(label="fixed_window", peers=("limits fixed window",), ratio=1.3),
    Goal(label="rolling_ring", peers=("limits moving window",), ratio=1.2),
    Goal(label="rolling_ring L=10,000", peers=("limits moving window",), ratio=1.2),
    Goal(label="rolling_window", peers=("pyrate-limiter RedisBucket",), ratio=1.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """A limiter of rlctl and the fastest of its peers."""

    ours: Result
    rival: Result
    goal: float

    @property
    def ratio(self) -> float:
        """Server time relative to the peer."""
        return self.ours.server_us / self.rival.server_us

    @property
    def is_met(self) -> bool:
        return self.ratio <= self.goal


def result_of(contender: Contender, server_us: Sequence[float], per_s: Sequence[float]) -> Result:
    return Result(contender=contender, server_us=median(server_us), per_s=median(per_s))


def duels(results: Sequence[Result]) -> Iterator[Duel]:
    """Yield a comparison for each goal, admitting and denying, whose peers are installed."""
    for goal in GOALS:
        for admits in (True, False):
            rivals = goal.rivals(results, admits=admits)
            mine = [one for one in results if is_ours(one, goal.label) and one.contender.admits is admits]
            if rivals and mine:
                rival = min(rivals, key=lambda one: one.server_us)
                yield Duel(ours=mine[0], rival=rival, goal=goal.ratio)


def fastest_client(results: Sequence[Result], *, ours: bool) -> Result | None:
    """The limiter with the most decisions per second, without INCR."""
    found = [one for one in results if (one.contender.library == OURS) is ours and one.contender.family != "none"]
    return max(found, key=lambda one: one.per_s, default=None)


def is_ours(result: Result, label: str) -> bool:
    """Whether a result is that of rlctl's limiter with this name."""
    return result.contender.library == OURS and result.contender.label == label


def answer(contender: Contender) -> str:
    return "admit" if contender.admits else "deny"


def as_text(results: Sequence[Result]) -> str:
    """The report as text."""
    incr = next(one for one in results if one.contender.family == "none")
    rows = [
        [
            one.contender.family,
            one.contender.name,
            answer(one.contender),
            f"{one.server_us:.2f}",
            f"{one.per_s:,.0f}",
            f"{one.per_s / incr.per_s:.2f}",
        ]
        for one in sorted(results, key=lambda one: (one.contender.family, not one.contender.admits, one.server_us))
    ]
    table = render_table(["family", "limiter", "answer", "server us", "per s", "of INCR"], rows)
    return "\n\n".join(filter(None, (table, _goals_text(results), _clients_text(results), LEGEND)))


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "schema": "rlctl-benchmark.limiters/1",
        "results": [one.to_json() for one in results],
        "goals": [
            {
                "limiter": duel.ours.contender.label,
                "answer": answer(duel.ours.contender),
                "peer": duel.rival.contender.name,
                "ratio": duel.ratio,
                "goal": duel.goal,
                "met": duel.is_met,
            }
            for duel in duels(results)
        ],
    }


def _goals_text(results: Sequence[Result]) -> str:
    rows = [
        [
            duel.ours.contender.label,
            duel.rival.contender.name,
            answer(duel.ours.contender),
            f"{duel.ours.server_us:.2f}",
            f"{duel.rival.server_us:.2f}",
            f"{duel.ratio:.2f}",
            f"{duel.goal:g}",
            "met" if duel.is_met else "MISSED",
        ]
        for duel in duels(results)
    ]
    header = ["ours", "fastest peer", "answer", "ours us", "peer us", "ratio", "goal", "verdict"]
    return render_table(header, rows) if rows else "no peers are installed: `pip install '.[bench]'`"


def _clients_text(results: Sequence[Result]) -> str:
    mine, rival = fastest_client(results, ours=True), fastest_client(results, ours=False)
    if mine is None or rival is None:
        return ""
    verdict = "met" if mine.per_s >= rival.per_s else "MISSED"
    return (
        f"through Python: {mine.contender.name} {mine.per_s:,.0f}/s, fastest peer {rival.contender.name} "
        f"{rival.per_s:,.0f}/s (goal at least as many: {verdict})"
    )
