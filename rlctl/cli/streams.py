"""Standard streams: opens closed streams at the start, and raises an error if a result cannot be written."""

import io
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO

from rlctl.errors import Unreachable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class ReaderGone(Exception):
    """The reader of stdout has closed the pipe, as `head -1` does."""


def prepare() -> None:
    """Open closed standard streams, and make stdout raise ReaderGone or Unreachable if a write fails."""
    # The system assigns the lowest free descriptor. If stderr remained closed, the next file that rlctl opens would
    # receive the text for stderr. A closed stdout is opened for reading, so that a write to it fails.
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, _opened(flags, "r" if name == "stdin" else "w"))
    sys.stdout = _result_stream(sys.stdout)


def is_dropped(stream: TextIO) -> bool:
    """Whether the stream writes to /dev/null."""
    return os.path.samestat(os.fstat(stream.fileno()), Path(os.devnull).stat())


def drop(stream: TextIO | io.FileIO) -> None:
    """Redirect the stream to /dev/null, so that the interpreter's flush of the stream at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _opened(flags: int, mode: str) -> IO[str]:
    descriptor = os.open(os.devnull, flags)
    os.set_inheritable(descriptor, True)
    return open(descriptor, mode, encoding="utf-8", closefd=False)


def _result_stream(stdout: TextIO) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(_ResultFile(stdout.fileno(), "w", closefd=False)),
        encoding=stdout.encoding,
        errors=stdout.errors,
        line_buffering=bool(stdout.line_buffering),
    )


class _ResultFile(io.FileIO):
    """Raises rlctl's own errors instead of OSError, because click and rich exit by themselves on a broken pipe."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError as failure:
            drop(self)
            raise ReaderGone from failure
        except OSError as failure:
            drop(self)
            raise Unreachable(
                f"cannot write the result to stdout: {failure.strerror}",
                hint="only the output is lost; `rlctl history` shows what the command changed",
            ) from failure
