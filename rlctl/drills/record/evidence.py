"""The record of a run, which the checks judge. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlctl.drills.record.ledger import Ledger
from rlctl.drills.record.ops import ClientHistory
from rlctl.drills.record.sample import Sample
from rlctl.drills.scenario.model import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event in the journal of a run, which lasted from `at_s` to `until_s`."""

    name: str
    at_s: float
    until_s: float
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that the event affected."""
        listed = self.details.get("nodes")
        return tuple(map(str, listed)) if isinstance(listed, list) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedSample:
    """One sample of a node, requested at `asked_s` and answered at `at_s`.

    If the node did not answer, both are the time of the request.
    """

    at_s: float
    asked_s: float
    node: str
    sample: Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePing:
    """One PING of a probe, sent at `at_s`. `heard` is true if the node answered the PING."""

    at_s: float
    name: str
    is_across: bool
    heard: bool
    answered_s: float | None = None

    def is_silent_until(self, at_s: float) -> bool:
        """Whether the PING had no answer before `at_s`.

        A later answer does not disprove a cut, because packets that the cut delayed may arrive after the heal.
        """
        return not self.heard or (self.answered_s is not None and self.answered_s >= at_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The record of one run.

    The keys of `ledgers` are a moment (`doomed` is before the heal, `final` after it), a node and a client.
    """

    scenario: Scenario
    victim: str
    shard: tuple[str, ...]
    method: str
    events: tuple[Event, ...]
    samples: tuple[TimedSample, ...]
    pings: tuple[ProbePing, ...]
    clients: tuple[ClientHistory, ...]
    attempted: Mapping[str, int | None]
    ledgers: Mapping[str, Mapping[str, Mapping[str, Ledger]]]
    places: Mapping[str, tuple[str, ...]]

    def first(self, *names: str) -> Event | None:
        """First event with one of these names."""
        return next((event for event in self.events if event.name in names), None)

    def last(self, *names: str) -> Event | None:
        """Last event with one of these names."""
        return next((event for event in reversed(self.events) if event.name in names), None)

    def on_victim(self, *names: str) -> Event | None:
        """First event with one of these names that affected the victim."""
        return next((event for event in self.events if event.name in names and self.victim in event.nodes), None)

    @property
    def started_s(self) -> float:
        """When every client had its first acknowledgement; the first event's time if the run ended earlier."""
        loaded = self.first("loaded")
        return loaded.at_s if loaded else (self.events[0].at_s if self.events else 0.0)

    @property
    def stopped_s(self) -> float:
        """When the load ended; for a killed run, the time of its last event or sample."""
        if stopping := self.first("stopping"):
            return stopping.at_s
        return max([0.0, *(one.at_s for one in self.events[-1:]), *(one.at_s for one in self.samples[-1:])])
