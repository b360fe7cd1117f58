"""The standard streams of the process: one that was closed at the start is opened, and a lost result is an error."""

import io
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO

from rlctl.errors import Unreachable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class ReaderGone(Exception):
    """No process reads stdout any more, as after `| head -1`."""


def prepare() -> None:
    """Open the standard streams that are closed, and let stdout tell when a result is lost."""
    # Descriptors are given away from the lowest on: without this, the first file opened would get what is meant for
    # stderr. A closed stdout is opened for reading, so that a write to it fails.
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, _opened(flags, "r" if name == "stdin" else "w"))
    sys.stdout = _telling(sys.stdout)


def is_dropped(stream: TextIO) -> bool:
    """Whether it leads to nowhere."""
    return os.path.samestat(os.fstat(stream.fileno()), Path(os.devnull).stat())


def drop(stream: TextIO | io.FileIO) -> None:
    """Lead the stream to nowhere, with what it still has to write: the interpreter tries that again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _opened(flags: int, mode: str) -> IO[str]:
    descriptor = os.open(os.devnull, flags)
    os.set_inheritable(descriptor, True)
    return open(descriptor, mode, encoding="utf-8", closefd=False)


def _telling(stdout: TextIO) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(_Result(stdout.fileno(), "w", closefd=False)),
        encoding=stdout.encoding,
        errors=stdout.errors,
        line_buffering=bool(stdout.line_buffering),
    )


class _Result(io.FileIO):
    """Raises no OSError: click and rich end the process by themselves on a broken pipe."""

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
                hint="only the result is lost: what the command changed stays changed, see `rlctl history`",
            ) from failure
