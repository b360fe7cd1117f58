"""The timeline plot of a run: faults, rates of each client, lost operations, and roles of each node. Pure."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from rlctl.drills.report.colours import COLOURS
from rlctl.drills.report.labels import TimelineLabel, reach_ms, rows
from rlctl.drills.report.spans import Interval, faults, lane, last_ms, timeline_labels
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
    return _Timeline(run, series).drawn()


def end_ms(series: Document) -> float:
    """The end of the time axis, the same in all plots of a run."""
    return reach_ms(tuple(timeline_labels(series)), 0.0, last_ms(series) * 1.01, 1 / panel_letters())


class _Timeline:
    def __init__(self, run: Document, series: Document) -> None:
        self._run = run
        self._series = series
        self._all_labels = tuple(timeline_labels(series))
        self._end_ms = end_ms(series)
        self._placed = rows(self._all_labels, self._end_ms / panel_letters())
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
        lanes = plot.panel(top_in + _TITLE_IN, _LANE_IN * max(1, len(self._nodes)), "role reported by each node")
        self._lanes(lanes)
        for strip in strips:
            strip.tick_params(labelbottom=False)
        lanes.set_xlabel("seconds since the load began")
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
            for interval in lane(self._series["nodes"][node], self._end_ms):
                self._bar(axes, place, interval)
        axes.set_yticks(range(len(self._nodes)), self._nodes)
        axes.set_ylim(-0.5, max(1, len(self._nodes)) - 0.5)
        axes.grid(visible=False)
        axes.spines["left"].set_visible(False)

    def _bar(self, axes: "Axes", place: int, interval: Interval) -> None:
        start, end = max(0.0, interval.start_ms), min(interval.end_ms, self._end_ms)
        alpha = 0.85 if interval.name in {"no answer", "replica without link"} else 0.45
        axes.barh(
            place, (end - start) / 1000, 0.76, start / 1000, color=_ROLES[interval.name], alpha=alpha, lw=0, zorder=1.5
        )
        if (end - start) / self._end_ms * panel_letters() > len(interval.text) + 2:
            axes.text(start / 1000 + self._letters_s(0.8), place, interval.text, va="center_baseline", size=8.5)

    def _overlay(self, strips: Sequence["Axes"]) -> None:
        """Draw the bands of the faults and the lines of the instants through every strip."""
        for axes in strips:
            axes.set_xlim(0, self._end_ms / 1000)
            for fault in faults(self._series):
                colour = COLOURS["cut" if fault.name == "cut" else "kill"]
                axes.axvspan(fault.start_ms / 1000, fault.end_ms / 1000, color=colour, alpha=0.13, lw=0, zorder=0)
            for label in self._all_labels:
                axes.axvline(label.at_ms / 1000, **_line(label))

    def _labels(self, axes: "Axes", height_in: float) -> None:
        """Draw the labels, and the lines down from them, on axes behind all strips."""
        axes.set_axis_off()
        axes.set_zorder(-1)
        axes.set_xlim(0, self._end_ms / 1000)
        axes.set_ylim(height_in, 0)
        for label, row in self._placed:
            below_in = self._strip_in - _ROW_IN * row
            axes.plot([label.at_ms / 1000] * 2, [height_in, below_in - _ROW_IN], **_line(label))
            weight = "bold" if label.is_done else "normal"
            x = label.at_ms / 1000 + self._letters_s(0.5)
            axes.text(x, below_in - 0.05, label.text, size=8.5, weight=weight, va="baseline")

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
        """The edges of the bins in seconds."""
        width_ms = self._series["bin_ms"]
        return [place * width_ms / 1000 for place in range(bins + 1)]

    def _letters_s(self, letters: float) -> float:
        return letters * self._end_ms / panel_letters() / 1000


def _line(label: TimelineLabel) -> dict[str, Any]:
    """The line style of a label: solid for an action of rlctl, dashed for an observation."""
    return {"color": INK, "lw": 0.7, "ls": "-" if label.is_done else (0, (2, 2)), "alpha": 0.55, "zorder": 1}
