"""What the core tells about its work while it goes on; the CLI decides how that looks."""

from typing import Protocol


class Progress(Protocol):
    """A listener to one operation."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def step(self, number: int, of: int, text: str, outcome: str) -> None:
        """A step's outcome."""


class SilentProgress:
    """Progress that no one reads."""

    def note(self, text: str) -> None:
        """Drop it."""

    def step(self, number: int, of: int, text: str, outcome: str) -> None:
        """Drop it."""


SILENT_PROGRESS = SilentProgress()
