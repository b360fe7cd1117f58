"""Drill runs as JUnit XML: a test case for each run; `fail` is a failure, `inconclusive` an error. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from xml.etree import ElementTree as ET

from rlctl.drills.report.values import Document

_SUITE = "rlctl.failover-drill"
_NESTED = {"fail": "failure", "inconclusive": "error"}
# Characters that XML 1.0 does not allow in any notation.
_FORBIDDEN = dict.fromkeys(
    (*range(9), 11, 12, *range(14, 32), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF), "\N{REPLACEMENT CHARACTER}"
)


def junit(runs: Sequence[Document], elapsed_s: Mapping[str, float]) -> str:
    """The XML of a test suite of runs. `elapsed_s` maps the id of each run to its duration."""
    suite = ET.Element("testsuite", name=_SUITE, tests=str(len(runs)), skipped="0")
    suite.set("failures", _count(runs, "fail"))
    suite.set("errors", _count(runs, "inconclusive"))
    suite.set("time", f"{sum(elapsed_s.values()):.3f}")
    if runs:
        suite.set("timestamp", runs[0]["started"])
    for run in runs:
        suite.append(_case(run, elapsed_s.get(run["id"], 0.0)))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _count(runs: Sequence[Document], verdict: str) -> str:
    return str(sum(run["verdict"] == verdict for run in runs))


def _case(run: Document, elapsed_s: float) -> ET.Element:
    name = "/".join(filter(None, (run["scenario"], run["kind"], run["variant"])))
    case = ET.Element("testcase", classname=_SUITE, name=_clean(name), time=f"{elapsed_s:.3f}")
    properties = ET.SubElement(case, "properties")
    for key, value in _properties(run):
        ET.SubElement(properties, "property", name=key, value=_clean(str(value)))
    if run["verdict"] in _NESTED:
        reasons = [_clean(reason) for reason in run["reasons"]]
        nested = ET.SubElement(case, _NESTED[run["verdict"]], type=run["verdict"], message="; ".join(reasons))
        nested.text = "\n".join(reasons)
    out = ET.SubElement(case, "system-out")
    out.text = _clean(f"{run['claim']}\nagain: {run['rerun']}\nreport: {run['report'] or 'none'}\n")
    return case


def _properties(run: Document) -> Iterator[tuple[str, object]]:
    """The run's id, timers and figures; a metric that was not measured is left out."""
    yield from {"run": run["id"], "timers": run["timers"]}.items()
    yield from ((f"ops.{name}", value) for name, value in run["ops"].items())
    yield from ((name, value) for name, value in run["metrics"].items() if value is not None)


def _clean(text: str) -> str:
    return text.translate(_FORBIDDEN)
