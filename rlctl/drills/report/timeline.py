"""The plot of a run over time: faults, rates of each client, lost acknowledgements, and the role of each node. Pure."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from rlctl.drills.report.colours import COLOURS
from rlctl.drills.report.labels import Mark, reach_ms, rows
from rlctl.drills.report.spans import Span, faults, lane, last_ms, marks
from rlctl.drills.report.values import Document
from rlctl.drills.report.words import SIDES
from rlctl.reports.drawing import INK, Drawing, drawing, panel_letters

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW_IN = 0.17
_RATE_IN = 1.05
_LOST_IN = 0.6
_LANE_IN = 0.25
_TITLE_IN = 0.34
_FOOT_IN = 0.5
_ROLES = {
    "primary": COLOURS["primary"],
    "replica": COLOURS["replica"],
    "replica without link": COLOURS["silent"],
    "no answer": COLOURS["silent"],
    "sentinel": COLOURS["sentinel"],
}


def timeline(run: Document, series: Document) -> Markup:
    """One SVG."""
    return _Timeline(run, series).drawn()


def end_ms(series: Document) -> float:
    """Where the axis of time ends in all plots of a run, so that they can be read one below the other."""
    return reach_ms(tuple(marks(series)), 0.0, last_ms(series) * 1.01, 1 / panel_letters())


class _Timeline:
    """What all strips of the plot share."""

    def __init__(self, run: Document, series: Document) -> None:
        self._run = run
        self._series = series
        self._marks = tuple(marks(series))
        self._end_ms = end_ms(series)
        self._placed = rows(self._marks, self._end_ms / panel_letters())
        self._strip_in = _ROW_IN * (max((row for _, row in self._placed), default=0) + 1)
        self._has_losses = any(series["lost"])
        self._nodes = sorted(series["nodes"], reverse=True)

    def drawn(self) -> Markup:
        strips = len(self._series["rates"]) * (_RATE_IN + _TITLE_IN)
        strips += (_LOST_IN + _TITLE_IN) * self._has_losses
        lanes_in = _LANE_IN * max(1, len(self._nodes))
        height_in = 0.1 + self._strip_in + strips + _TITLE_IN + lanes_in + _FOOT_IN
        says = f"Timeline of {self._run['scenario']}: rates of each client, losses, and the role of each node"
        with drawing("timeline", says, height_in=height_in) as plot:
            self._paint(plot, height_in)
            return plot.svg()

    def _paint(self, plot: Drawing, height_in: float) -> None:
        top_in = 0.1 + self._strip_in
        strips = []
        for name, rates in self._series["rates"].items():
            strips.append(self._rates(plot.panel(top_in + _TITLE_IN, _RATE_IN, self._client(name)), rates))
            top_in += _TITLE_IN + _RATE_IN
        if self._has_losses:
            strips.append(self._losses(plot.panel(top_in + _TITLE_IN, _LOST_IN, "acknowledged and later lost, /s")))
            top_in += _TITLE_IN + _LOST_IN
        lanes = plot.panel(top_in + _TITLE_IN, _LANE_IN * max(1, len(self._nodes)), "what each node says it is")
        self._lanes(lanes)
        for strip in strips:
            strip.tick_params(labelbottom=False)
        lanes.set_xlabel("seconds since the load was under way")
        self._overlay([*strips, lanes])
        labels_in = height_in - 0.1 - _FOOT_IN
        self._labels(plot.panel(0.1, labels_in), labels_in)

    def _client(self, name: str) -> str:
        side = next((one["side"] for one in self._run["clients"] if one["name"] == name), name)
        return f"client {name} ({SIDES.get(side, side)}): operations per second"

    def _rates(self, axes: "Axes", rates: Document) -> "Axes":
        edges = self._edges(len(rates["acked"]))
        axes.stairs(self._per_second(rates["acked"]), edges, fill=True, color=COLOURS["acked"], alpha=0.75, lw=0)
        axes.stairs(self._per_second(rates["refused"]), edges, color=COLOURS["refused"], lw=1.4)
        unclear = [
            (edges[place], value) for place, value in enumerate(self._per_second(rates["indeterminate"])) if value
        ]
        if unclear:
            axes.plot(*zip(*unclear, strict=True), "D", color=COLOURS["indeterminate"], ms=4.5, clip_on=False)
        return self._scaled(axes)

    def _losses(self, axes: "Axes") -> "Axes":
        lost = self._series["lost"]
        axes.stairs(self._per_second(lost), self._edges(len(lost)), fill=True, color=COLOURS["lost"], alpha=0.85, lw=0)
        return self._scaled(axes)

    def _lanes(self, axes: "Axes") -> None:
        for place, node in enumerate(self._nodes):
            for span in lane(self._series["nodes"][node], self._end_ms):
                self._bar(axes, place, span)
        axes.set_yticks(range(len(self._nodes)), self._nodes)
        axes.set_ylim(-0.5, max(1, len(self._nodes)) - 0.5)
        axes.grid(visible=False)
        axes.spines["left"].set_visible(False)

    def _bar(self, axes: "Axes", place: int, span: Span) -> None:
        start, end = max(0.0, span.start_ms), min(span.end_ms, self._end_ms)
        alpha = 0.85 if span.name in {"no answer", "replica without link"} else 0.45
        axes.barh(
            place, (end - start) / 1000, 0.76, start / 1000, color=_ROLES[span.name], alpha=alpha, lw=0, zorder=1.5
        )
        if (end - start) / self._end_ms * panel_letters() > len(span.text) + 2:
            axes.text(start / 1000 + self._letters_s(0.8), place, span.text, va="center_baseline", size=8.5)

    def _overlay(self, strips: Sequence["Axes"]) -> None:
        """Draw the bands of the faults and the lines of the instants through every strip."""
        for axes in strips:
            axes.set_xlim(0, self._end_ms / 1000)
            for fault in faults(self._series):
                colour = COLOURS["cut" if fault.name == "cut" else "kill"]
                axes.axvspan(fault.start_ms / 1000, fault.end_ms / 1000, color=colour, alpha=0.13, lw=0, zorder=0)
            for mark in self._marks:
                axes.axvline(mark.at_ms / 1000, **_line(mark))

    def _labels(self, axes: "Axes", height_in: float) -> None:
        """One strip behind all others carries the labels, and the lines from there down."""
        axes.set_axis_off()
        axes.set_zorder(-1)
        axes.set_xlim(0, self._end_ms / 1000)
        axes.set_ylim(height_in, 0)
        for mark, row in self._placed:
            below_in = self._strip_in - _ROW_IN * row
            axes.plot([mark.at_ms / 1000] * 2, [height_in, below_in - _ROW_IN], **_line(mark))
            weight = "bold" if mark.is_done else "normal"
            x = mark.at_ms / 1000 + self._letters_s(0.5)
            axes.text(x, below_in - 0.05, mark.text, size=8.5, weight=weight, va="baseline")

    def _scaled(self, axes: "Axes") -> "Axes":
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415  loaded with the first plot only

        axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        axes.yaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
        axes.set_ylim(bottom=0)
        axes.spines["left"].set_visible(False)
        return axes

    def _per_second(self, bins: Iterable[int]) -> list[float]:
        return [value * 1000 / self._series["bin_ms"] for value in bins]

    def _edges(self, bins: int) -> list[float]:
        """Where the bins begin and end, in seconds."""
        width_ms = self._series["bin_ms"]
        return [place * width_ms / 1000 for place in range(bins + 1)]

    def _letters_s(self, letters: float) -> float:
        return letters * self._end_ms / panel_letters() / 1000


def _line(mark: Mark) -> dict[str, Any]:
    """How the line of an instant is drawn: whole where rlctl did it, broken where it was seen."""
    return {"color": INK, "lw": 0.7, "ls": "-" if mark.is_done else (0, (2, 2)), "alpha": 0.55, "zorder": 1}
