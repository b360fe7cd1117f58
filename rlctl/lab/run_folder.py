"""The folder of a run: its request, a journal that is flushed line by line, and its result."""

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
    """The files of one run."""

    root: Path

    @property
    def id(self) -> str:
        return self.root.name

    @property
    def journal(self) -> Path:
        """Events and samples, one JSON object per line."""
        return self.root / "journal.jsonl"

    @property
    def owner(self) -> Path:
        """File with the id of the process that carries out the run and cleans up."""
        return self.root / "owner.json"

    @property
    def twin(self) -> Path:
        """The state folder of the throw-away fleet."""
        return self.root / "twin"

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.root / "report.html"

    def history(self, client: str) -> Path:
        """File in which one client records its operations."""
        return self.root / f"client-{client}.bin"

    def ledger(self, moment: str, node: str, client: str) -> Path:
        """File with one client's ledger on a node at a moment, as the bytes of the server's answer."""
        return self.root / f"ledger-{moment}-{node}-{client}.raw"

    def open(self) -> None:
        make_private_folder(self.root)

    def write(self, name: str, document: Mapping[str, object]) -> None:
        """Write a JSON document, such as order.json or result.json."""
        write_private(self.root / name, json.dumps(document) + "\n")

    def read(self, name: str) -> dict[str, Any] | None:
        """Read a JSON document; None if it is missing or incomplete."""
        text = read_own(self.root / name)
        if text is None:
            return None
        try:
            document = json.loads(text)
        except ValueError:
            return None
        return document if isinstance(document, dict) else None

    def write_text(self, name: str, text: str) -> None:
        write_private(self.root / name, text)

    @property
    def table(self) -> str:
        """The run's id with underscores, as nftables allows no hyphens in the names of tables."""
        return self.id.replace("-", "_")

    def is_owned(self) -> bool:
        """Whether the run's owner is still alive."""
        owner = ProcessId.load(self.owner)
        return owner is not None and owner.is_alive()

    @property
    def state(self) -> str:
        """One of `running`, `done` and `killed`."""
        if self.read(RESULT) is not None:
            return "done"
        return "running" if self.is_owned() else "killed"


class RunJournal:
    """Writes events as they happen, so that a killed run can still be reported."""

    def __init__(self, folder: RunFolder, clock: Clock) -> None:
        self._path = folder.journal
        self._clock = clock

    def write(self, event: str, **details: object) -> float:
        """Append an event with the current monotonic time, and return this time."""
        now_s = self._clock.monotonic()
        self.write_at(now_s, event, **details)
        return now_s

    def write_at(self, time_s: float, event: str, **details: object) -> None:
        """Append an event with the monotonic time `time_s`."""
        append_line(self._path, json.dumps({"t": time_s, "event": event, **details}))


def journal_lines(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """The lines of a journal. A line that is incomplete after a kill is left out."""
    for line in read_damaged(folder.journal).splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and "t" in record and "event" in record:
            yield record
