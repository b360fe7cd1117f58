"""Progress of an operation; the CLI decides how it is shown."""

from typing import Protocol


class Progress(Protocol):
    """Receives the progress of one operation."""

    def note(self, text: str) -> None:
        """Show one line of text."""

    def step(self, number: int, of: int, text: str, outcome: str) -> None:
        """Show step `number` of `of` and its outcome."""


class SilentProgress:
    """Progress that is discarded."""

    def note(self, text: str) -> None:
        """Discard it."""

    def step(self, number: int, of: int, text: str, outcome: str) -> None:
        """Discard it."""


SILENT_PROGRESS = SilentProgress()
