"""Mistakes in a file, collected with their line numbers and reported together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from rlctl.errors import InvalidFile

# Users do not need a longer list. The limit also bounds the time that a hostile file can take.
MOST_MISTAKES = 50
_MOST_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a topology. `paths` are the settings involved; the first is the one to change."""

    paths: tuple[str, ...]
    text: str


class ImpossibleSettings(InvalidFile):
    """Settings found to be impossible after the file was read. `load.raise_at_lines` adds the file and its lines."""

    code = "impossible-settings"

    def __init__(self, problems: Sequence[Problem], *, hint: str) -> None:
        super().__init__("\n".join(problem.text for problem in problems), hint=hint)
        self.problems = tuple(problems)


class Mistakes:
    """Collects the mistakes in one file and raises them as one InvalidFile, in line order."""

    def __init__(self, path: str, *, hint: str = "") -> None:
        self._path = path
        self._hint = hint
        self._found: list[tuple[int, str]] = []

    def add(self, line: int, text: str) -> None:
        """Record a mistake. Raises InvalidFile once there are MOST_MISTAKES."""
        self._found.append((line, text))
        if len(self._found) >= MOST_MISTAKES:
            self.stop(line, f"rlctl stopped reading after {MOST_MISTAKES} mistakes; correct these first")

    def stop(self, line: int, text: str) -> NoReturn:
        """Raise InvalidFile now, because the rest of the file cannot be read."""
        self._found.append((line, text))
        raise self._error()

    def raise_any(self) -> None:
        """Raise InvalidFile if a mistake was recorded."""
        if self._found:
            raise self._error()

    def _error(self) -> InvalidFile:
        found = sorted(self._found, key=lambda mistake: mistake[0])
        lines = [f"{self._path}:{line}: {text}" for line, text in found]
        return InvalidFile("\n".join(lines), hint=self._hint)


def shown(text: str) -> str:
    """Text from the user's file in backquotes, shortened and with unprintable characters escaped."""
    return f"`{printable(text)}`"


def printable(text: str) -> str:
    """Text from the user's file, shortened and with unprintable characters escaped."""
    cut = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
    return cut if cut.isprintable() else ascii(cut)[1:-1]
