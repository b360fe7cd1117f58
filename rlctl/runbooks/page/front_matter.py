"""Reads the front matter of a page: what the page is for, and its rehearsals. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from rlctl.files.mistakes import Mistakes
from rlctl.files.reader import NodeReader
from rlctl.files.values import ValueType, choice, duration, text
from rlctl.files.yaml import Entry, Node, compose
from rlctl.files.yaml import Mapping as Map
from rlctl.runbooks.page.model import Fault, FleetKinds, PageSeverity, Rehearsal, Risk
from rlctl.topology.model import Kind

_DAY_MS = 24 * 3_600_000
_WORD = text(r"[a-z][a-z0-9_-]*", "a lower-case word")
_LINE = text(r"\S.*", "one line of text")
_ID = text(r"RB-[0-9]{2}", "RB- and two digits")
_KIND, _MODE, _FAULT, _SEVERITY, _RISK = (
    choice(Kind),
    choice(FleetKinds),
    choice(Fault),
    choice(PageSeverity),
    choice(Risk),
)
_TIME = duration(1_000, _DAY_MS)
_LISTS: Mapping[str, ValueType[str]] = {
    "servers": _LINE,
    "symptoms": _LINE,
    "findings": _WORD,
    "error_codes": _WORD,
    "causes": _WORD,
    "drills": _WORD,
}
_KEYS = (
    *("id", "title", "severity", "mode", "risk", "owner", "time_to_mitigate", "escalate_after"),
    *("servers", "symptoms", "findings", "error_codes", "causes", "drills", "rehearsals"),
)
_REHEARSAL_KEYS = ("fault", "kinds", "settings", "mended_before", "drill")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMatter:
    """The settings at the top of a page."""

    id: str
    title: str
    severity: PageSeverity
    mode: FleetKinds
    risk: Risk
    owner: str
    mitigate_ms: int
    escalate_after_ms: int
    lists: Mapping[str, tuple[str, ...]]
    rehearsals: tuple[Rehearsal, ...]


def read_front(source: str, mistakes: Mistakes) -> FrontMatter:
    """Read the YAML of a page. `source` starts at line 1 of the page, so that line numbers are right."""
    reader = NodeReader(mistakes)
    entries = reader.keys(compose(source.encode(), mistakes), _KEYS, _KEYS)

    def one(key: str, kind: ValueType[T]) -> T | None:
        return reader.value(entries[key].value, key, kind) if key in entries else None

    page_id, title, owner = one("id", _ID), one("title", _LINE), one("owner", _LINE)
    severity, mode, risk = one("severity", _SEVERITY), one("mode", _MODE), one("risk", _RISK)
    mitigate_ms, escalate_after_ms = one("time_to_mitigate", _TIME), one("escalate_after", _TIME)
    lists = {key: _list(reader, entries, key, kind) for key, kind in _LISTS.items()}
    read = _rehearsals(reader, entries)
    rehearsals = tuple(one for one in read if one is not None)
    if mode is not None and len(rehearsals) == len(read):
        _check_rehearsals(mistakes, entries, mode, rehearsals, lists["drills"])
    # If a key is missing, this call raises, so no value below is None.
    mistakes.raise_any()
    assert page_id is not None
    assert title is not None
    assert owner is not None
    assert severity is not None
    assert mode is not None
    assert risk is not None
    assert mitigate_ms is not None
    assert escalate_after_ms is not None
    return FrontMatter(
        id=page_id,
        title=title,
        severity=severity,
        mode=mode,
        risk=risk,
        owner=owner,
        mitigate_ms=mitigate_ms,
        escalate_after_ms=escalate_after_ms,
        lists=lists,
        rehearsals=rehearsals,
    )


def _list(reader: NodeReader, entries: Mapping[str, Entry], key: str, kind: ValueType[T]) -> tuple[T, ...]:
    nodes = reader.items(entries[key].value, key) if key in entries else ()
    return tuple(value for node in nodes if (value := reader.value(node, key, kind)) is not None)


def _rehearsals(reader: NodeReader, entries: Mapping[str, Entry]) -> list[Rehearsal | None]:
    """The rehearsals; None for each that cannot be read."""
    nodes = reader.items(entries["rehearsals"].value, "rehearsals") if "rehearsals" in entries else ()
    return [_rehearsal(reader, node) for node in nodes]


def _rehearsal(reader: NodeReader, node: Node) -> Rehearsal | None:
    entries = reader.keys(reader.mapping(node, "a rehearsal"), _REHEARSAL_KEYS, ("fault", "kinds"))
    fault = reader.value(entries["fault"].value, "fault", _FAULT) if "fault" in entries else None
    kinds = _list(reader, entries, "kinds", _KIND)
    before, drill = (
        reader.value(entries[key].value, key, _WORD) if key in entries else None for key in ("mended_before", "drill")
    )
    settings = _settings(reader, entries["settings"].value) if "settings" in entries else {}
    if fault is None:
        return None
    return Rehearsal(fault=fault, kinds=kinds, settings=settings, mended_before=before, drill=drill)


def _settings(reader: NodeReader, node: Node) -> dict[str, str]:
    found: Map = reader.mapping(node, "settings")
    values = {key: reader.value(entry.value, key, _LINE) for key, entry in found.entries.items()}
    return {key: value for key, value in values.items() if value is not None}


def _check_rehearsals(
    mistakes: Mistakes,
    entries: Mapping[str, Entry],
    mode: FleetKinds,
    rehearsals: tuple[Rehearsal, ...],
    drills: tuple[str, ...],
) -> None:
    """Check that the rehearsals cover the kinds of `mode`, and that `drills` lists their drills."""
    if "rehearsals" not in entries:
        return
    line = entries["rehearsals"].line
    tried = {kind for rehearsal in rehearsals for kind in rehearsal.kinds}
    if tried != set(mode.kinds):
        mistakes.add(line, f"rehearsals: their kinds must be exactly the kinds of mode {mode}")
    unnamed = {rehearsal.drill for rehearsal in rehearsals} - {None, *drills}
    if unnamed:
        mistakes.add(line, f"rehearsals: add {', '.join(sorted(map(str, unnamed)))} to `drills` too")
