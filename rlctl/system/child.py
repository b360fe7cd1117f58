"""A child process with pipes: rlctl sends and reads lines, and ends it when it is no longer needed."""

import subprocess
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Self

from rlctl.errors import TimedOut, Unreachable


class Child:
    """A program with pipes for input and output.

    The program must end when its input is closed. The kernel closes the input when rlctl ends, so the program then does
    not outlive rlctl.
    """

    def __init__(self, argv: Sequence[str], *, detached: bool = False, reads_output: bool = True) -> None:
        self._argv = list(argv)
        try:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if reads_output else subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                bufsize=1,
                start_new_session=detached,
            )
        except OSError as failure:
            raise Unreachable(
                f"cannot run {argv[0]}: {failure.strerror}",
                hint="check that it is an executable that this user may run",
            ) from failure
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._errors: list[str] = []
        self._readers = [Thread(target=self._collect_errors, daemon=True)]
        if reads_output:
            self._readers.append(Thread(target=self._collect_lines, daemon=True))
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _failure: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send_line(self, line: str) -> None:
        """Send one line; does nothing if the child has ended or its input is closed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            return

    def read_line(self, *, timeout_s: float) -> str | None:
        """The next line of the child's output; None at the output's end. Raises TimedOut if no line arrives in time."""
        try:
            return self._lines.get(timeout=timeout_s)
        except Empty:
            raise TimedOut(f"{self._argv[0]} printed nothing for {timeout_s:g} s", hint=self.last_errors()) from None

    def close(self) -> None:
        """Close the child's input."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            return

    def wait(self, *, timeout_s: float) -> int:
        """Wait for the child to end, and return its exit code. Raises TimedOut if it still runs after `timeout_s`."""
        try:
            code = self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired as failure:
            raise TimedOut(f"{self._argv[0]} did not end within {timeout_s:g} s", hint="") from failure
        for reader in self._readers:
            reader.join(timeout=timeout_s)
        return code

    def end(self, *, patience_s: float = 5.0) -> None:
        """Close the child's input, and kill it if it does not end within `patience_s`."""
        self.close()
        try:
            self.wait(timeout_s=patience_s)
        except TimedOut:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def kill(self) -> None:
        self._process.kill()

    def last_errors(self) -> str:
        """The last lines of the child's standard error, on one line."""
        return " / ".join(line.strip() for line in self._errors[-3:] if line.strip())

    def _collect_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _collect_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors.append(line)
