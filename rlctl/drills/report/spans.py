"""What lasted from when to when: the faults, and what each node said of itself; and the instants between. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlctl.drills.report.labels import Mark
from rlctl.drills.report.values import Document
from rlctl.drills.report.words import EVENTS, INSTANTS, ROLES

# What ends a fault of its own; the heal ends every one that is left.
_ENDS = {"cut": "mend", "kill": "restart", "pause": "resume"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something that lasted."""

    start_ms: float
    end_ms: float
    name: str
    text: str = ""


def faults(series: Document) -> Iterator[Span]:
    """From the moment a fault is in effect until it is undone."""
    events = series["events"]
    for event in events:
        if event["name"] in _ENDS:
            undone = (_ENDS[event["name"]], "heal")
            ends = [one["t_ms"] for one in events if one["name"] in undone and one["t_ms"] > event["t_ms"]]
            yield Span(start_ms=event["until_ms"], end_ms=min(ends, default=last_ms(series)), name=event["name"])


def lane(states: list[Document], end_ms: float) -> Iterator[Span]:
    """One node's roles, each with its epoch where the node ever had one."""
    has_epochs = any(state["epoch"] for state in states)
    starts = [state["t_ms"] for state in states]
    for state, end in zip(states, [*starts[1:], end_ms], strict=True):
        role = ROLES[state["role"]]
        is_told = has_epochs and role in {"primary", "sentinel"}
        name = "replica without link" if role == "replica" and state["link"] != "up" else role
        text = f"{name}, epoch {state['epoch']}" if is_told else name
        yield Span(start_ms=state["t_ms"], end_ms=end, name=name, text=text)


def marks(series: Document) -> Iterator[Mark]:
    """What rlctl did, and what was seen to happen."""
    for event in series["events"]:
        if event["name"] != "loaded":
            whom = " ".join(event["nodes"]) if event["name"] in {"kill", "pause", "resume", "restart"} else ""
            text = " ".join(filter(None, (EVENTS.get(event["name"], event["name"]), whom)))
            yield Mark(at_ms=event["t_ms"], text=text, is_done=True)
    for name, at_ms in series["instants"].items():
        if at_ms is not None:
            yield Mark(at_ms=at_ms, text=INSTANTS[name], is_done=False)


def last_ms(series: Document) -> float:
    """The last thing that a run knows of."""
    ends = [event["until_ms"] for event in series["events"]]
    found = [at_ms for at_ms in series["instants"].values() if at_ms is not None]
    return float(max(series["end_ms"], *ends, *found, 1.0))
