"""Summary of a command's JSON in a few lines. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence

MOST_LINES = 8
# Keys of rlctl's JSON whose list entries are printed, one on each line.
_LISTS = ("findings", "conflicts", "checks", "steps", "drift", "warnings")
# Keys that can have the text of an entry; the first that is set is printed.
_TEXTS = ("text", "evidence", "class")
_WELL = frozenset({"ok"})


def summary(output: str, errors: str) -> tuple[str, ...]:
    """The findings, conflicts, failed checks or steps in an output, and the message of an error."""
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
        # Print equal lines once, such as those of a node that lacks many scripts.
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
    """Sort key: critical entries first."""
    return entry.get("severity") != "critical"


def _from_error(errors: str) -> Iterator[str]:
    """Read the error on the last line of standard error; progress comes before it."""
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
