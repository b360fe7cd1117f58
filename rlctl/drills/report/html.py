"""The HTML pages of a run and of several runs. Pure."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment

from rlctl.drills.report import values, words
from rlctl.drills.report.latency import latency, slowest_ms
from rlctl.drills.report.notes import notes
from rlctl.drills.report.overview import groups
from rlctl.drills.report.targets import targets
from rlctl.drills.report.timeline import timeline
from rlctl.drills.report.values import Document
from rlctl.reports.page import environment

TEMPLATES = Path(__file__).parent / "templates"
_FILTERS = {
    "count": values.count,
    "ms": values.ms,
    "fine_ms": values.fine_ms,
    "brief": values.brief,
    "percent": values.percent,
    "times": values.times,
    "seen": values.seen,
    "wanted": values.wanted,
    "lost_share": values.lost_share,
    "label": values.label,
    "timers": values.timers,
    "place": values.place,
}


def page(run: Document, series: Document) -> str:
    """The page of a run."""
    return (
        _environment()
        .get_template("run.html.j2")
        .render(
            run=run,
            series=series,
            timeline=timeline(run, series) if series["rates"] else "",
            latency=latency(run, series) if series["rates"] else "",
            slowest={one["name"]: slowest_ms(series, one["name"]) for one in run["clients"]},
            targets=targets(run),
            notes=notes(run, series),
        )
    )


def overview(runs: Sequence[Document], links: Mapping[str, str]) -> str:
    """The page that compares runs. `links` maps the ids of runs to their pages."""
    return _environment().get_template("overview.html.j2").render(groups=groups(runs), runs=runs, links=links)


@cache
def _environment() -> Environment:
    found = environment(TEMPLATES)
    found.filters.update(_FILTERS)
    found.globals.update(
        {
            "metrics": {metric.value: word for metric, word in words.METRICS.items()},
            "times_words": words.TIMES,
            "classes": words.CLASSES,
            "causes": words.CAUSES,
            "sides": words.SIDES,
            "events": words.EVENTS,
            "configuration_words": words.CONFIGURATION,
        }
    )
    return found
