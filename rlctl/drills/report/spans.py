"""The intervals and instants of a timeline: faults, the roles of each node, and events. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlctl.drills.report.labels import TimelineLabel
from rlctl.drills.report.values import Document
from rlctl.drills.report.words import EVENTS, INSTANTS, ROLES

# The event that ends each kind of fault. The heal at the end of a run ends all faults.
_ENDS = {"cut": "mend", "kill": "restart", "pause": "resume"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    start_ms: float
    end_ms: float
    name: str
    text: str = ""


def faults(series: Document) -> Iterator[Interval]:
    """The interval of each fault, from when it is in effect until it is undone."""
    events = series["events"]
    for event in events:
        if event["name"] in _ENDS:
            undone = (_ENDS[event["name"]], "heal")
            ends = [one["t_ms"] for one in events if one["name"] in undone and one["t_ms"] > event["t_ms"]]
            yield Interval(start_ms=event["until_ms"], end_ms=min(ends, default=last_ms(series)), name=event["name"])


def lane(states: list[Document], end_ms: float) -> Iterator[Interval]:
    """The intervals in which a node kept its role. The text of a primary or sentinel includes the epoch, if known."""
    has_epochs = any(state["epoch"] for state in states)
    starts = [state["t_ms"] for state in states]
    for state, end in zip(states, [*starts[1:], end_ms], strict=True):
        role = ROLES[state["role"]]
        is_told = has_epochs and role in {"primary", "sentinel"}
        name = "replica without link" if role == "replica" and state["link"] != "up" else role
        text = f"{name}, epoch {state['epoch']}" if is_told else name
        yield Interval(start_ms=state["t_ms"], end_ms=end, name=name, text=text)


def timeline_labels(series: Document) -> Iterator[TimelineLabel]:
    """The labels for the actions and observations of rlctl."""
    for event in series["events"]:
        if event["name"] != "loaded":
            nodes = " ".join(event["nodes"]) if event["name"] in {"kill", "pause", "resume", "restart"} else ""
            text = " ".join(filter(None, (EVENTS.get(event["name"], event["name"]), nodes)))
            yield TimelineLabel(at_ms=event["t_ms"], text=text, is_done=True)
    for name, at_ms in series["instants"].items():
        if at_ms is not None:
            yield TimelineLabel(at_ms=at_ms, text=INSTANTS[name], is_done=False)


def last_ms(series: Document) -> float:
    """The time of the last event of a run."""
    ends = [event["until_ms"] for event in series["events"]]
    found = [at_ms for at_ms in series["instants"].values() if at_ms is not None]
    return float(max(series["end_ms"], *ends, *found, 1.0))
