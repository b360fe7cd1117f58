"""How mistakes in a file are named: what is wrong, where, all of them at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from rlctl.errors import InvalidFile

# Past this many a reader no longer reads; stopping also bounds the time a hostile file can take.
MOST_MISTAKES = 50
_MOST_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a topology; `paths` are the settings involved, the one to blame first."""

    paths: tuple[str, ...]
    text: str


class ImpossibleSettings(InvalidFile):
    """Settings that turn out to be impossible after the file was read; `load.blame` adds the file and its lines."""

    code = "impossible-settings"

    def __init__(self, problems: Sequence[Problem], *, hint: str) -> None:
        super().__init__("\n".join(problem.text for problem in problems), hint=hint)
        self.problems = tuple(problems)


class Mistakes:
    """Collects what is wrong with one file and raises all of it as one InvalidFile, in line order."""

    def __init__(self, path: str, *, hint: str = "") -> None:
        self._path = path
        self._hint = hint
        self._found: list[tuple[int, str]] = []

    def add(self, line: int, text: str) -> None:
        """Note a mistake and go on; the mistake too many ends the reading."""
        self._found.append((line, text))
        if len(self._found) >= MOST_MISTAKES:
            self.stop(line, f"stopped reading after {MOST_MISTAKES} mistakes; correct these first")

    def stop(self, line: int, text: str) -> NoReturn:
        """Raise now: what follows in the file cannot be understood."""
        self._found.append((line, text))
        raise self._error()

    def raise_any(self) -> None:
        """Raise what was noted, if anything was."""
        if self._found:
            raise self._error()

    def _error(self) -> InvalidFile:
        found = sorted(self._found, key=lambda mistake: mistake[0])
        lines = [f"{self._path}:{line}: {text}" for line, text in found]
        return InvalidFile("\n".join(lines), hint=self._hint)


def shown(text: str) -> str:
    """Text of the user's in backquotes, made short and printable."""
    return f"`{printable(text)}`"


def printable(text: str) -> str:
    """Text of the user's, made short and printable."""
    cut = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
    return cut if cut.isprintable() else ascii(cut)[1:-1]
