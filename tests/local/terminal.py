"""A pseudo-terminal for tests of questions and colours."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.local.driver import PATIENCE_S, LocalFleet

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*(?:3[0-7]|9[0-7])[0-9;]*m")


@dataclass(slots=True, kw_only=True)
class Terminal:
    """One command with the terminal as stdin, stdout and stderr."""

    process: subprocess.Popen[bytes]
    side: int
    seen: str = field(default="")

    def read_until(self, text: str) -> str:
        """Wait for `text` and return everything shown so far."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} was never shown:\n{self.seen}"
            assert self._read(), f"ended without showing {text!r}:\n{self.seen}"
        return self.seen

    def answer(self, text: str) -> None:
        """Type these words and Enter."""
        self.press(f"{text}\n".encode())

    def press(self, keys: bytes) -> None:
        """Type these words."""
        os.write(self.side, keys)

    def hang_up(self) -> None:
        """Close the terminal: the kernel sends SIGHUP, and further output is lost."""
        os.close(self.side)
        self.side = -1

    def finish(self) -> tuple[int, str]:
        """The exit code and everything that was shown."""
        while self._read():
            pass
        return self.process.wait(timeout=PATIENCE_S), self.seen

    def _read(self) -> bool:
        """Read the available output; False at its end."""
        ready, _, _ = select.select([self.side], [], [], PATIENCE_S)
        assert ready, f"silent for {PATIENCE_S:g} s:\n{self.seen}"
        try:
            piece = os.read(self.side, 65536)
        except OSError:
            # Linux answers EIO once the last process has closed its side.
            return False
        self.seen += piece.decode(errors="replace").replace("\r\n", "\n")
        return bool(piece)


@contextlib.contextmanager
def at_terminal(
    fleet: LocalFleet, *words: str, columns: int = 200, before: Sequence[str] = (), **more_env: str
) -> Iterator[Terminal]:
    """Start a command, preceded by the words `before`, with a controlling terminal of this width.

    The command is ended by its pid if the test fails early.
    """
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in fleet.env().items() if name not in {"COLUMNS", "LINES"}}
    process = subprocess.Popen(
        ["setsid", "--ctty", *before, *fleet.argv(*words)],
        cwd=fleet.folder,
        env=environment | {"TERM": "xterm-256color"} | more_env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    terminal = Terminal(process=process, side=mine)
    try:
        yield terminal
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=PATIENCE_S)
        if terminal.side >= 0:
            terminal.hang_up()
