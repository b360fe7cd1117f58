"""Evidence of a failed test: the last lines of its fleets' logs and journals."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

_PATTERNS = ("*.log", "*.jsonl", "error*.txt")
_MOST_FILES = 16
_LINES = 15
_WIDTH = 400


def tails(folders: Iterable[Path]) -> list[tuple[str, str]]:
    """The files that were written last, with their last lines."""
    found = {path for folder in folders for path in _files(folder)}
    newest = sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
    return [(f"the end of {path}", _end(path)) for path in islice(newest, _MOST_FILES)]


def _files(folder: Path) -> Iterator[Path]:
    for pattern in _PATTERNS:
        yield from (path for path in folder.rglob(pattern) if path.is_file() and path.stat().st_size)


def _end(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES:]
    return "\n".join(line[:_WIDTH] for line in lines)
