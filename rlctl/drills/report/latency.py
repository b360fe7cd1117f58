"""The plot of latency over time, with a point for each acknowledged batch. Pure."""

from markupsafe import Markup

from rlctl.drills.report.colours import COLOURS
from rlctl.drills.report.spans import faults
from rlctl.drills.report.timeline import end_ms
from rlctl.drills.report.values import Document
from rlctl.reports.drawing import SERIES, drawing

_HEIGHT_IN = 2.6


def latency(run: Document, series: Document) -> Markup:
    """Draw the plot with a logarithmic scale, which shows both fast answers and timeouts."""
    with drawing("latency", f"Latency over time in {run['scenario']}, logarithmic", height_in=_HEIGHT_IN) as plot:
        axes = plot.panel(0.3, _HEIGHT_IN - 0.8, "from sending to the reply, ms")
        for points, colour in zip(series["latency"].values(), SERIES, strict=False):
            shown = [(at_ms / 1000, took_ms) for at_ms, took_ms in points if at_ms >= 0]
            if shown:
                axes.plot(*zip(*shown, strict=True), ".", color=colour, ms=3.2, mew=0, alpha=0.8)
        for fault in faults(series):
            colour = COLOURS["cut" if fault.name == "cut" else "kill"]
            axes.axvspan(fault.start_ms / 1000, fault.end_ms / 1000, color=colour, alpha=0.13, lw=0, zorder=0)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _place: f"{value:,g}")
        axes.yaxis.set_minor_formatter(lambda _value, _place: "")
        axes.set_xlim(0, end_ms(series) / 1000)
        axes.set_xlabel("seconds since the load began")
        return plot.svg()


def slowest_ms(series: Document, client: str) -> float | None:
    """The latency of the slowest acknowledged batch. Exact, because thinning keeps the slowest batch of each group."""
    return max((took_ms for _, took_ms in series["latency"].get(client, ())), default=None)
