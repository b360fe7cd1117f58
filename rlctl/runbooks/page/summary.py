"""What a command's JSON says, in a few lines for a tired reader. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence

MOST_LINES = 8
# Where the documents of rlctl keep what is worth a line, and under which of their keys it is told.
_LISTS = ("findings", "conflicts", "checks", "steps", "drift", "warnings")
_TEXTS = ("text", "evidence", "class")
_WELL = frozenset({"ok"})


def summary(output: str, errors: str) -> tuple[str, ...]:
    """The findings, conflicts, failed checks or steps that an output names; an error's own words."""
    lines = [*_from_document(_parsed(output)), *_from_error(errors)]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more"]
    return tuple(lines)


def _from_document(document: object) -> Iterator[str]:
    if not isinstance(document, Mapping):
        return
    for key in _LISTS:
        entries = document.get(key)
        found = entries if isinstance(entries, Sequence) and not isinstance(entries, str) else ()
        ill = [entry for entry in found if isinstance(entry, Mapping) and entry.get("severity") not in _WELL]
        # Of many scripts that one node lacks, a line for the node.
        yield from dict.fromkeys(line for entry in sorted(ill, key=_urgency) for line in _told(entry))
    if isinstance(document.get("source"), str):
        yield f"decided by {document['source']} ({document.get('reason')})"


def _told(entry: Mapping[str, object]) -> Iterator[str]:
    text = next((str(entry[key]) for key in _TEXTS if entry.get(key)), None)
    if text is not None:
        where = " ".join(str(entry[key]) for key in ("node", "outcome") if entry.get(key))
        check = f"{entry['name']} ({entry.get('subject')}): " if entry.get("name") else ""
        yield f"{check}{text}: {where}" if where else f"{check}{text}"


def _urgency(entry: Mapping[str, object]) -> bool:
    """What is critical comes first."""
    return entry.get("severity") != "critical"


def _from_error(errors: str) -> Iterator[str]:
    """The error is the last line; what comes before it is progress."""
    last = errors.strip().splitlines()[-1:]
    document = _parsed(last[0]) if last else None
    error = document.get("error") if isinstance(document, Mapping) else None
    if isinstance(error, Mapping):
        yield str(error.get("message"))
        if error.get("hint"):
            yield f"hint: {error['hint']}"


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
