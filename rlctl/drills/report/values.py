"""Formats figures in the same way for HTML and terminal reports. Pure."""

from collections.abc import Mapping
from typing import Any

from rlctl.drills.report.words import METRICS, Unit
from rlctl.drills.scenario.model import Metric

# A result or a series as a JSON document.
Document = Mapping[str, Any]
UNMEASURED = "not measured"


def count(value: float | None) -> str:
    return UNMEASURED if value is None else f"{value:,.15g}"


def ms(value: float | None) -> str:
    """A time with tenths of a millisecond."""
    return UNMEASURED if value is None else f"{value:,.1f} ms"


def fine_ms(value: float | None) -> str:
    """A latency with microseconds."""
    return UNMEASURED if value is None else f"{value:,.3f} ms"


def brief(value: float | None) -> str:
    """A rounded time in seconds or milliseconds."""
    if value is None:
        return UNMEASURED
    return f"{value / 1000:.2f} s" if value >= 1000 else f"{value:.0f} ms"


def percent(value: float | None) -> str:
    return UNMEASURED if value is None else f"{value:.3g} %" if value < 1 else f"{value:.2f} %"


def times(value: float | None) -> str:
    return UNMEASURED if value is None else f"{value:.2f} times"


def amount(value: float | None, unit: Unit) -> str:
    match unit:
        case Unit.COUNT:
            return count(value)
        case Unit.MS:
            return ms(value)
        case Unit.PERCENT:
            return percent(value)
        case Unit.TIMES:
            return times(value)


def seen(expected: Document) -> str:
    """The measured value of an expectation."""
    return amount(expected["seen"], METRICS[Metric(expected["metric"])].unit)


def wanted(expected: Document) -> str:
    """The expected range."""
    low, high = expected["least"], expected["most"]
    suffix = {Unit.MS: " ms", Unit.PERCENT: " %", Unit.TIMES: " times", Unit.COUNT: ""}[
        METRICS[Metric(expected["metric"])].unit
    ]
    if low is not None and high is not None:
        return (f"{low:,g}" if low == high else f"{low:,g} to {high:,g}") + suffix
    return (f"at least {low:,g}" if low is not None else f"at most {high:,g}") + suffix


def lost(run: Document) -> str:
    """The number of lost operations with their share. Without a loss, the share's upper bound is shown."""
    return UNMEASURED if run["lost"] is None else f"{count(run['lost'])} ({lost_share(run)})"


def lost_share(run: Document) -> str:
    """The share of acknowledged operations that were lost, or its upper bound if none was lost."""
    acked = run["ops"]["acked"]
    if run["lost"] is None or not acked:
        return f"of {count(acked)} acknowledged"
    if run["lost"]:
        return f"{percent(100 * run['lost'] / acked)} of {count(acked)} acknowledged"
    if run["verdict"] == "inconclusive":
        return f"of {count(acked)} acknowledged, and nothing is proven by it"
    return f"95 % upper bound 3/{count(acked)} = {percent(300 / acked)}"


def label(run: Document) -> str:
    """Scenario, kind and variant."""
    variant = f", {run['variant']}" if run["variant"] else ""
    return f"{run['scenario']} on {run['kind']}{variant}"


def timers(run: Document) -> str:
    """The timers of the fleet, which determine how long a failover takes."""
    timeout_ms = run["configuration"].get("timeout_ms")
    name = "node time-out" if run["kind"] == "cluster" else "down-after"
    which = "short timers" if run["timers"] == "short" else "the topology's own timers"
    return which if timeout_ms is None else f"{which}: {name} {timeout_ms:,} ms"


def place(run: Document) -> str:
    """The fleet that the drill ran on."""
    return "the deployed fleet" if run["live"] else "a twin"
