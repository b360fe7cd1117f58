"""Reads the evidence of a run from its folder, even if the run was killed."""

from collections.abc import Iterator
from typing import Any

from rlctl.drills.engine.client_processes import read_history
from rlctl.drills.record.evidence import Event, Evidence, ProbePing, TimedSample
from rlctl.drills.record.ledger import Ledger, read_bitmap, read_list
from rlctl.drills.record.sample import Sample
from rlctl.drills.scenario.model import LoadMode, Scenario
from rlctl.lab.run_folder import RunFolder, journal_lines

_MOMENTS = ("doomed", "final")
# Lines of the journal that are not events of the run: samples, pings, and clean-ups after the run (`swept`).
_NO_EVENTS = {"sample", "canary", "swept"}
_SAMPLE_FIELDS = set(Sample.__slots__)


def read_evidence(folder: RunFolder, scenario: Scenario) -> Evidence:
    """Read the record of a run."""
    lines = list(journal_lines(folder))
    begin: dict[str, Any] = next((line for line in lines if line["event"] == "begin"), {})
    places = {name: tuple(nodes) for name, nodes in begin.get("clients", {}).items()}
    ends = folder.read("clients.json") or {}
    shard = tuple(begin.get("shard", ()))
    nodes = tuple(dict.fromkeys((*shard, *(node for listed in places.values() for node in listed))))
    clients = tuple(read_history(folder, name, name, ends.get(name, {})) for name in places)
    return Evidence(
        scenario=scenario,
        victim=begin.get("victim", ""),
        shard=shard,
        method=begin.get("method", ""),
        events=tuple(sorted(_events(lines), key=lambda event: event.at_s)),
        samples=tuple(sorted(_samples(lines), key=lambda seen: seen.at_s)),
        pings=tuple(sorted(_pings(lines), key=lambda one: one.at_s)),
        clients=clients,
        attempted={name: ends.get(name, {}).get("attempted") for name in places},
        ledgers={moment: _ledgers(folder, moment, nodes, tuple(places), scenario) for moment in _MOMENTS},
        places=places,
    )


def _events(lines: list[dict[str, Any]]) -> Iterator[Event]:
    for line in lines:
        if line["event"] in _NO_EVENTS:
            continue
        details = {key: value for key, value in line.items() if key not in {"t", "event", "until"}}
        yield Event(name=line["event"], at_s=line["t"], until_s=line.get("until", line["t"]), details=details)


def _samples(lines: list[dict[str, Any]]) -> Iterator[TimedSample]:
    for line in lines:
        if line["event"] == "sample":
            facts = {key: value for key, value in line.items() if key in _SAMPLE_FIELDS}
            yield TimedSample(
                at_s=line["t"], asked_s=line.get("asked", line["t"]), node=line["node"], sample=Sample(**facts)
            )


def _pings(lines: list[dict[str, Any]]) -> Iterator[ProbePing]:
    for line in lines:
        if line["event"] == "canary":
            for at_s, answered_s in line["notes"]:
                yield ProbePing(
                    at_s=at_s,
                    name=line["name"],
                    is_across=line["across"],
                    heard=answered_s is not None,
                    answered_s=answered_s,
                )


def _ledgers(
    folder: RunFolder, moment: str, nodes: tuple[str, ...], clients: tuple[str, ...], scenario: Scenario
) -> dict[str, dict[str, Ledger]]:
    found: dict[str, dict[str, Ledger]] = {}
    for node in nodes:
        for client in clients:
            path = folder.ledger(moment, node, client)
            ledger = _read(path.read_bytes(), scenario) if path.exists() else None
            if ledger is not None:
                found.setdefault(node, {})[client] = ledger
    return found


def _read(raw: bytes, scenario: Scenario) -> Ledger | None:
    return read_bitmap(raw) if scenario.load.mode is LoadMode.BITS else read_list(raw)
