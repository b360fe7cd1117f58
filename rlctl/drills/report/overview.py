"""Compares runs of a scenario: the cost of each variant, and how loss grows with the lag. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from rlctl.drills.report.colours import COLOURS
from rlctl.drills.report.slope import FittedLine, Point, fitted
from rlctl.drills.report.values import Document
from rlctl.reports.drawing import INK, drawing

# The figures that show the cost of a setting.
PRICES = ("lost", "over", "gap_ms", "p99_ms", "refused")
_LEAST_POINTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewRow:
    """A run. `change` is the difference of each price from the first run's; None if either price was not measured."""

    run: Document
    knobs: dict[str, str]
    prices: dict[str, float | None]
    change: dict[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LagFit:
    """The fit of loss against injected lag, and the acknowledged operations per second."""

    line: FittedLine
    per_s: float | None
    points: tuple[Point, ...]
    plot: Markup

    @property
    def lost_per_s(self) -> float:
        """The slope: operations lost for each second of lag."""
        return self.line.slope * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRuns:
    """The runs of a scenario on one kind of fleet."""

    name: str
    kind: str
    title: str
    rows: tuple[OverviewRow, ...]
    lag_fit: LagFit | None


def groups(runs: Sequence[Document]) -> tuple[ScenarioRuns, ...]:
    """Group runs by scenario and kind, in the order of the runs."""
    keys = dict.fromkeys((run["scenario"], run["kind"]) for run in runs)
    return tuple(_group([run for run in runs if (run["scenario"], run["kind"]) == key]) for key in keys)


def prices(run: Document) -> dict[str, float | None]:
    """The figures in PRICES of a run. The p99 latency is that of the client that follows failovers."""
    followers = [one for one in run["clients"] if one["side"] == "majority"]
    p99_ms = followers[0]["p99_ms"] if followers else None
    return {**{name: run["metrics"][name] for name in PRICES if name != "p99_ms"}, "p99_ms": p99_ms}


def lag_points(runs: Sequence[Document]) -> tuple[Point, ...]:
    """Pairs of measured lag in ms and number of lost operations. Inconclusive runs are left out."""
    proven = (run for run in runs if run["verdict"] != "inconclusive" and run["lost"] is not None)
    return tuple((run["fault"]["cut_ms"] or 0.0, float(run["lost"])) for run in proven)


def _group(runs: Sequence[Document]) -> ScenarioRuns:
    first = runs[0]
    is_lag_sweep = first["scenario"] == "lag-sweep"
    return ScenarioRuns(
        name=first["scenario"],
        kind=first["kind"],
        title=first["title"],
        rows=tuple(_rows(runs)),
        lag_fit=_lag_fit(runs) if is_lag_sweep else None,
    )


def _rows(runs: Sequence[Document]) -> Iterator[OverviewRow]:
    base = prices(runs[0])
    differing = [name for name in _knobs(runs[0]) if len({_knobs(run).get(name) for run in runs}) > 1]
    for run in runs:
        own = prices(run)
        change = {name: _difference(own[name], base[name]) for name in PRICES}
        knobs = {name: _knobs(run).get(name, "") for name in differing}
        yield OverviewRow(run=run, knobs=knobs, prices=own, change=change)


def _knobs(run: Document) -> dict[str, str]:
    settings = dict(run["configuration"])
    parameters = settings.pop("parameters", {})
    return {name: str(value) for name, value in {**settings, **parameters}.items()}


def _difference(value: float | None, base: float | None) -> float | None:
    return None if value is None or base is None else value - base


def _lag_fit(runs: Sequence[Document]) -> LagFit | None:
    points = lag_points(runs)
    line = fitted(points) if len(points) >= _LEAST_POINTS else None
    if line is None:
        return None
    rates = [one["acked_per_s"] for run in runs for one in run["clients"] if one["acked_per_s"] is not None]
    return LagFit(
        line=line,
        per_s=median(rates) if rates else None,
        points=points,
        plot=_plot(f"slope-{runs[0]['kind']}", points, line),
    )


def _plot(name: str, points: Sequence[Point], line: FittedLine) -> Markup:
    with drawing(name, "Lost operations against the injected lag", height_in=2.9) as plot:
        axes = plot.panel(0.35, 2.0, "operations lost")
        widest = max(x for x, _ in points) * 1.05
        axes.plot([0, widest], [line.at(0), line.at(widest)], color=INK, lw=1.0, ls=(0, (4, 3)), alpha=0.7)
        axes.plot(*zip(*points, strict=True), "o", color=COLOURS["lost"], ms=7, clip_on=False)
        axes.yaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
        axes.set_xlim(-0.02 * widest, widest)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("injected lag, ms")
        return plot.svg()
