"""The journal: one record of each operation on a fleet, in append-only JSON lines, one file for each fleet."""

import getpass
import json
import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlctl.system.clock import Clock
from rlctl.system.files import append_line, read_damaged


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """The record of one operation; `ended` is None if the operation was killed or is still running."""

    id: str
    command: str
    user: str
    host: str
    argv: tuple[str, ...]
    started: str
    ended: str | None
    outcome: str
    pid: int
    steps: tuple[tuple[str, str], ...]

    def to_json(self) -> dict[str, object]:
        """Return the JSON form for `history -o json`."""
        return {
            "id": self.id,
            "command": self.command,
            "user": self.user,
            "host": self.host,
            "argv": list(self.argv),
            "started": self.started,
            "ended": self.ended,
            "outcome": self.outcome,
            "steps": [{"text": text, "outcome": outcome} for text, outcome in self.steps],
        }


class Journal:
    """Writes the events of one operation as they happen, so that a killed operation leaves a record."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._id = secrets.token_hex(6)

    def begin(self, command: str, argv: Sequence[str]) -> None:
        """Record that the operation starts to change the fleet."""
        self._write(
            {
                "event": "begin",
                "command": command,
                "user": current_user(),
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "argv": list(argv),
            }
        )

    def step(self, text: str, outcome: str) -> None:
        self._write({"event": "step", "text": text, "outcome": outcome})

    def end(self, outcome: str) -> None:
        """Record the outcome: `done`, or the code of the error."""
        self._write({"event": "end", "outcome": outcome})

    def _write(self, event: dict[str, object]) -> None:
        stamped = {"op": self._id, "at": self._clock.now().isoformat(timespec="milliseconds"), **event}
        append_line(self._path, json.dumps(stamped, separators=(",", ":")))


def read(path: Path) -> tuple[JournalEntry, ...]:
    """Read the operations of a journal, oldest first; damaged lines are skipped."""
    events: dict[str, list[dict[str, object]]] = {}
    for line in read_damaged(path).splitlines():
        try:
            event = json.loads(line)
            events.setdefault(str(event["op"]), []).append(event)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return tuple(_operation(op, own) for op, own in events.items() if own[0].get("event") == "begin")


def current_user() -> str:
    """Return the name of the user that runs rlctl, or the uid if the user has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _operation(op: str, events: Sequence[dict[str, object]]) -> JournalEntry:
    first, last = events[0], events[-1]
    ended = last.get("event") == "end"
    argv, pid = first.get("argv"), first.get("pid")
    return JournalEntry(
        id=op,
        command=str(first.get("command")),
        user=str(first.get("user")),
        host=str(first.get("host")),
        argv=tuple(str(word) for word in argv) if isinstance(argv, list) else (),
        started=str(first.get("at")),
        ended=str(last.get("at")) if ended else None,
        outcome=str(last.get("outcome")) if ended else "unfinished",
        pid=pid if isinstance(pid, int) else 0,
        steps=tuple((str(one.get("text")), str(one.get("outcome"))) for one in events if one.get("event") == "step"),
    )
