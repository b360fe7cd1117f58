"""The folder of a run: what was ordered, a journal that is flushed line by line, and what was found in the end."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlctl.system.clock import Clock
from rlctl.system.files import append_line, make_private_folder, read_damaged, read_own, write_private
from rlctl.system.process import ProcessId

REQUEST = "order.json"
RESULT = "result.json"
# Journal event of the error that ended a run.
FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Everything that is kept of one run."""

    root: Path

    @property
    def id(self) -> str:
        """The run's name."""
        return self.root.name

    @property
    def journal(self) -> Path:
        """Events and changes of state, a line each."""
        return self.root / "journal.jsonl"

    @property
    def owner(self) -> Path:
        """The process that carries the run out."""
        return self.root / "owner.json"

    @property
    def twin(self) -> Path:
        """The throw-away fleet's own state folder."""
        return self.root / "twin"

    @property
    def report(self) -> Path:
        """The page for people."""
        return self.root / "report.html"

    def history(self, client: str) -> Path:
        """What one client noted."""
        return self.root / f"client-{client}.bin"

    def ledger(self, moment: str, node: str, client: str) -> Path:
        """One client's ledger as a node held it at a moment, as it came off the wire."""
        return self.root / f"ledger-{moment}-{node}-{client}.raw"

    def open(self) -> None:
        """Make the folder."""
        make_private_folder(self.root)

    def write(self, name: str, document: Mapping[str, object]) -> None:
        """Keep a document: order.json, result.json, series.json."""
        write_private(self.root / name, json.dumps(document) + "\n")

    def read(self, name: str) -> dict[str, Any] | None:
        """A document, or None where there is none or only a part of one."""
        text = read_own(self.root / name)
        if text is None:
            return None
        try:
            document = json.loads(text)
        except ValueError:
            return None
        return document if isinstance(document, dict) else None

    def write_text(self, name: str, text: str) -> None:
        """Keep a text, such as the scenario that is run."""
        write_private(self.root / name, text)

    @property
    def table(self) -> str:
        """The run's id as packet filters spell names."""
        return self.id.replace("-", "_")

    def is_owned(self) -> bool:
        """Whether the process that carries the run out still runs."""
        owner = ProcessId.load(self.owner)
        return owner is not None and owner.is_alive()

    @property
    def state(self) -> str:
        """running, done or killed."""
        if self.read(RESULT) is not None:
            return "done"
        return "running" if self.is_owned() else "killed"


class RunJournal:
    """Writes what happens as it happens, so that a killed run can still be told."""

    def __init__(self, folder: RunFolder, clock: Clock) -> None:
        self._path = folder.journal
        self._clock = clock

    def write(self, event: str, **details: object) -> float:
        """One line; answers with its time."""
        now_s = self._clock.monotonic()
        self.write_at(now_s, event, **details)
        return now_s

    def write_at(self, time_s: float, event: str, **details: object) -> None:
        """A line about another instant."""
        append_line(self._path, json.dumps({"t": time_s, "event": event, **details}))


def journal_lines(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """What was written; a line that was cut off by a kill is left out."""
    for line in read_damaged(folder.journal).splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and "t" in record and "event" in record:
            yield record
