"""Processes: run a program with a deadline, or start a detached server and find it again later."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from rlctl.errors import TimedOut, Unreachable
from rlctl.system.clock import SystemClock
from rlctl.system.files import cannot, open_own, read_damaged, write_private
from rlctl.system.listeners import ListeningSocket
from rlctl.system.open_files import raise_at_limit

# rlctl's own interpreter. -P keeps the working folder off sys.path, because Python would import a module of that folder
# in place of a module of rlctl with the same name.
OWN_PYTHON = (sys.executable, "-P")
# Time that an rlctl operation may take to reach its next safe point after SIGTERM.
END_S = 30.0
_LOOK_EVERY_S = 0.05
# The start time is computed from ticks, so two readings for the same process may differ by rounding.
_SAME_START_S = 0.05
# Linux appends this text to the path of a working folder that was removed.
_REMOVED = " (deleted)"
_PROGRAM_HINT = "run it by hand to see why; it must be an executable that this user may run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Output and exit code of a program. `timed_out` is True if rlctl ended the program at its time limit."""

    code: int
    output: str
    errors: str
    timed_out: bool = False


class Runner(Protocol):
    def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
        """Run a program to its end. Raises Unreachable if it cannot be started, and TimedOut after `timeout_s`."""


class ProcessRunner:
    """Runs programs without a shell and without input."""

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
        try:
            done = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as failure:
            raise TimedOut(f"{argv[0]} did not end within {timeout_s:g} s", hint=_PROGRAM_HINT) from failure
        except OSError as failure:
            raise_at_limit(failure)
            raise Unreachable(f"cannot run {argv[0]}: {failure.strerror}", hint=_PROGRAM_HINT) from failure
        return Finished(code=done.returncode, output=done.stdout, errors=done.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class GracefulRunner:
    """Runs programs that may hold a fleet's lock, so that a program which must end has time to release the lock.

    The program gets SIGTERM, and SIGKILL only if it still runs `END_S` seconds later. Ctrl-C in the terminal does not
    reach the program. Instead, `run` ends the program once `is_stopped` returns True, and returns the output that the
    program has printed by then.
    """

    is_stopped: Callable[[], bool]

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
        """Run a program. Raises Unreachable if it cannot be started.

        After `timeout_s` the program is ended, and `timed_out` of the result is True.
        """
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as failure:
            raise_at_limit(failure)
            raise Unreachable(f"cannot run {argv[0]}: {failure.strerror}", hint=_PROGRAM_HINT) from failure
        with process:
            printed = self._wait(process, timeout_s)
            late = printed is None and not self.is_stopped()
            output, errors = printed or _end(process)
        return Finished(code=process.returncode, output=output, errors=errors, timed_out=late)

    def _wait(self, process: "subprocess.Popen[str]", timeout_s: float) -> tuple[str, str] | None:
        """The program's output and errors once it has ended; None if rlctl must end it."""
        clock = SystemClock()
        until_s = clock.monotonic() + timeout_s
        while not self.is_stopped() and clock.monotonic() < until_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=_LOOK_EVERY_S)
        return None


def _end(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """Send SIGTERM to the process; after `END_S` send SIGKILL to its group. Returns its output and errors."""
    process.terminate()
    try:
        return process.communicate(timeout=END_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """Identifies a process by pid and start time, since the kernel reuses pids.

    The start time counts from boot, so that setting the wall clock does not change it.
    """

    pid: int
    started: float

    @classmethod
    def current(cls) -> "ProcessId":
        return cls(pid=os.getpid(), started=_started_s(psutil.Process()))

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """The process that has this pid now; None if no process has it."""
        try:
            return cls(pid=pid, started=_started_s(psutil.Process(pid)))
        except psutil.Error:
            return None

    def is_alive(self) -> bool:
        """Whether this process still runs. A zombie counts as running if its threads still hold its ports."""
        try:
            process = psutil.Process(self.pid)
            same = abs(_started_s(process) - self.started) < _SAME_START_S
            return same and (process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
        except psutil.Error:
            return False

    def is_ending(self) -> bool:
        """Whether this process is a zombie, and some of its threads still hold its ports."""
        try:
            return self.is_alive() and psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def is_stopped(self) -> bool:
        """Whether this process is paused, as by SIGSTOP."""
        try:
            return self.is_alive() and psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.Error:
            return False

    def works_in(self, folder: Path) -> bool:
        """Whether `folder` is the process's working folder; False if this user cannot read the working folder."""
        try:
            return Path(psutil.Process(self.pid).cwd().removesuffix(_REMOVED)) == folder.resolve()
        except (psutil.Error, OSError):
            return False

    def holds(self, socket: ListeningSocket) -> bool:
        """Whether this process has the socket open; False if this user cannot read the process's open files."""
        try:
            links = Path(f"/proc/{self.pid}/fd").iterdir() if self.is_alive() else ()
            return any(_target(link) == f"socket:[{socket.inode}]" for link in links)
        except OSError as failure:
            raise_at_limit(failure)
            return False

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process; does nothing if it has ended."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def save(self, path: Path) -> None:
        """Write the process's identity to a file that `load` reads."""
        write_private(path, json.dumps({"pid": self.pid, "started": self.started}) + "\n")

    @classmethod
    def load(cls, path: Path) -> "ProcessId | None":
        """The process that `save` wrote to the file; None if the file is missing or damaged."""
        try:
            record = json.loads(read_damaged(path))
            return cls(pid=int(record["pid"]), started=float(record["started"]))
        except (ValueError, KeyError, TypeError):
            return None


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # closed since the folder was listed
        return ""


def _started_s(process: psutil.Process) -> float:
    return process.create_time() - psutil.boot_time()


def processes_below(folder: Path) -> dict[Path, list[tuple[ProcessId, str]]]:
    """Processes whose working folder is a direct subfolder of `folder`, by that subfolder, with their command lines."""
    parent, found = folder.resolve(), dict[Path, list[tuple[ProcessId, str]]]()
    for process in psutil.process_iter():
        try:
            own = Path(process.cwd().removesuffix(_REMOVED))
            if own.parent == parent:
                # Look the process up again by its pid: psutil caches Process objects, and their start time is wrong
                # after the wall clock was set.
                one = ProcessId.of(process.pid)
                if one is not None:
                    found.setdefault(own, []).append((one, " ".join(process.cmdline())))
        except (psutil.Error, OSError) as failure:
            raise_at_limit(failure)
            continue
    return found


def start_detached(argv: Sequence[str], *, folder: Path, output: Path) -> int:
    """Start a server that outlives rlctl: own session, umask 077, minimal environment. Returns its pid."""
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
    try:
        sink = open(output, "ab", opener=open_own)  # noqa: SIM115  closed below, once the server has it
    except OSError as failure:
        raise cannot("open", output, failure) from failure
    with sink:
        try:
            child = subprocess.Popen(
                list(argv),
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                umask=0o077,
            )
        except OSError as failure:
            raise_at_limit(failure)
            raise Unreachable(f"cannot start {argv[0]}: {failure.strerror}", hint=_PROGRAM_HINT) from failure
    # The server outlives rlctl on purpose. Without this return code, Popen would warn at rlctl's exit that its child
    # still runs.
    child.returncode = 0
    return child.pid


def reap(pid: int) -> None:
    """Reap a child of this process if it has ended, so that it does not stay a zombie."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def find_program(names: Sequence[str]) -> str | None:
    """Path of the first of these programs that is on PATH; None if PATH has no such program."""
    return next((found for name in names if (found := shutil.which(name))), None)
