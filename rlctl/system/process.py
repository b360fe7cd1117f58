"""Processes: run one to its end with a deadline, or start a detached server and find it again."""

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

# Our own interpreter, blind to the working folder: there anybody may have put a module that is called like one of ours.
OWN_PYTHON = (sys.executable, "-P")
# So long an operation of rlctl's that is told to end may take to its next safe point.
END_S = 30.0
_LOOK_EVERY_S = 0.05
# The start is computed from ticks; two readings of it may differ by rounding.
_SAME_START_S = 0.05
# What Linux appends to the working folder of a process when the folder is removed.
_REMOVED = " (deleted)"
_PROGRAM_HINT = "try it by hand; it must be an executable that this user may run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a program printed and how it ended; where it `timed_out`, it had been told to."""

    code: int
    output: str
    errors: str
    timed_out: bool = False


class Runner(Protocol):
    """Something that runs a program to its end."""

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
        """Run it; a program that is missing is Unreachable, one that takes too long TimedOut."""


class ProcessRunner:
    """Runs real programs: no shell, no inherited input."""

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
        """Run it; a program that is missing is Unreachable, one that takes too long TimedOut."""
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
    """Runs programs that may hold a fleet's lock: they are told to end before they are killed.

    Ctrl-C is for rlctl alone, which passes it on; a program that was told so tells how it ended.
    """

    is_stopped: Callable[[], bool]

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
        """Run it; a program that is missing is Unreachable, one that takes too long is told to end."""
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
            said = self._listen(process, timeout_s)
            late = said is None and not self.is_stopped()
            output, errors = said or _end(process)
        return Finished(code=process.returncode, output=output, errors=errors, timed_out=late)

    def _listen(self, process: "subprocess.Popen[str]", timeout_s: float) -> tuple[str, str] | None:
        """What it says until it ends; nothing yet when it is to be ended."""
        clock = SystemClock()
        until_s = clock.monotonic() + timeout_s
        while not self.is_stopped() and clock.monotonic() < until_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=_LOOK_EVERY_S)
        return None


def _end(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """Tell it to end, and after a while make it; what it said until then."""
    process.terminate()
    try:
        return process.communicate(timeout=END_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process for good: a pid alone is soon somebody else's.

    Its start is counted from the machine's own: the time of day is set anew at times, and nobody has died then.
    """

    pid: int
    started: float

    @classmethod
    def ours(cls) -> "ProcessId":
        """This process."""
        return cls(pid=os.getpid(), started=_started_s(psutil.Process()))

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """The process that has this pid now."""
        try:
            return cls(pid=pid, started=_started_s(psutil.Process(pid)))
        except psutil.Error:
            return None

    def is_alive(self) -> bool:
        """Whether this very process still runs; a zombie does not, once all its threads have let go of its ports."""
        try:
            process = psutil.Process(self.pid)
            same = abs(_started_s(process) - self.started) < _SAME_START_S
            return same and (process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
        except psutil.Error:
            return False

    def is_ending(self) -> bool:
        """Whether it is as good as gone, but some of its threads have not let go of its ports yet."""
        try:
            return self.is_alive() and psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def is_stopped(self) -> bool:
        """Whether somebody paused this very process."""
        try:
            return self.is_alive() and psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.Error:
            return False

    def works_in(self, folder: Path) -> bool:
        """Whether that is its working folder; where the system does not tell, it is not."""
        try:
            return Path(psutil.Process(self.pid).cwd().removesuffix(_REMOVED)) == folder.resolve()
        except (psutil.Error, OSError):
            return False

    def holds(self, socket: ListeningSocket) -> bool:
        """Whether the socket is this very process's; where the system does not tell, it is not."""
        try:
            links = Path(f"/proc/{self.pid}/fd").iterdir() if self.is_alive() else ()
            return any(_target(link) == f"socket:[{socket.inode}]" for link in links)
        except OSError as failure:
            raise_at_limit(failure)
            return False

    def send(self, number: signal.Signals) -> None:
        """Signal this very process; one that is gone needs none."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def save(self, path: Path) -> None:
        """Remember it in a file."""
        write_private(path, json.dumps({"pid": self.pid, "started": self.started}) + "\n")

    @classmethod
    def load(cls, path: Path) -> "ProcessId | None":
        """The process remembered in the file; a damaged file remembers none."""
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
    """All processes that work right below the folder, by their own one, each with its command line."""
    parent, found = folder.resolve(), dict[Path, list[tuple[ProcessId, str]]]()
    for process in psutil.process_iter():
        try:
            own = Path(process.cwd().removesuffix(_REMOVED))
            if own.parent == parent:
                # Looks share their objects, whose start is read once: after the clock was set anew it is another.
                one = ProcessId.of(process.pid)
                if one is not None:
                    found.setdefault(own, []).append((one, " ".join(process.cmdline())))
        except (psutil.Error, OSError) as failure:
            raise_at_limit(failure)
            continue
    return found


def start_detached(argv: Sequence[str], *, folder: Path, output: Path) -> int:
    """Start a server that outlives us: own session, private umask, a bare environment. Returns its pid."""
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
    # The server outlives us on purpose; without this the interpreter warns that it still runs.
    child.returncode = 0
    return child.pid


def reap(pid: int) -> None:
    """Collect a child that ended, so that it does not stay as a zombie of ours."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def find_program(names: Sequence[str]) -> str | None:
    """The first of these programs on PATH."""
    return next((found for name in names if (found := shutil.which(name))), None)
