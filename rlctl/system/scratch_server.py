"""Temporary servers on loopback with a password.

If rlctl is killed, Linux ends the servers, and a later run of rlctl removes their folders.
"""

import fcntl
import os
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rlctl.errors import Unreachable
from rlctl.secrets import Secret
from rlctl.system.clock import Clock, wait_until
from rlctl.system.files import open_own, read_damaged, write_private
from rlctl.system.ports import LOOPBACK, free_base_port
from rlctl.system.redis import CommandFailed, Credentials, LinkFailure, NodeLink
from rlctl.system.server_log import is_ready

START_S = 30.0
# Memory limit of a trial server, which is empty and needs less. Without the limit, a large value of `databases` or
# `maxclients` could take all memory of the machine.
TRIAL_MEMORY_BYTES = 4 * 1024**3
TRIAL_EVERY_S = 0.002
# A folder younger than this is kept, because the process that created it may not have locked it yet.
LEFT_S = 60.0
_PR_SET_PDEATHSIG = 1
_LOG = "server.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchServer:
    """A running server with its own random password."""

    port: int
    password: Secret

    def link(self, *, timeout_s: float = 60.0) -> NodeLink:
        """Open a new connection; the caller closes it."""
        return NodeLink(
            LOOPBACK, self.port, Credentials(username="default", password=self.password), timeout_s=timeout_s
        )


@contextmanager
def scratch_server(program: str, directives: Mapping[str, str], clock: Clock) -> Iterator[ScratchServer]:
    """Start a server with these directives; ends it and removes its folder at the end of the block."""
    with _own_folder("rlctl-scratch-") as folder:
        server = ScratchServer(port=free_base_port(1), password=Secret(secrets.token_urlsafe(24)))
        own = {"bind": LOOPBACK, "port": str(server.port), "dir": str(folder), "save": '""', "appendonly": "no"}
        text = "".join(f"{key} {value}\n" for key, value in (own | dict(directives)).items())
        write_private(folder / "scratch.conf", f"{text}requirepass {server.password.reveal()}\n")
        process = _start([program, str(folder / "scratch.conf")], folder)
        try:
            _await(server, process, folder, clock)
            yield server
        finally:
            process.kill()
            process.wait()


def start_once(program: str, conf: str, clock: Clock) -> str:
    """Start a server with this configuration, and end it once it is ready. Returns the log of this start."""
    with _own_folder("rlctl-trial-") as folder:
        write_private(folder / "trial.conf", conf)
        process = _start([program, "trial.conf"], folder, memory_bytes=TRIAL_MEMORY_BYTES)

        def log() -> str:
            return read_damaged(folder / _LOG)

        def is_settled() -> bool:
            return process.poll() is not None or is_ready(log())

        try:
            wait_until(
                is_settled,
                timeout_s=START_S,
                clock=clock,
                what=f"{program} starts with the directives of the topology",
                hint=f"run `{program} --port 0 --unixsocket s` to see what it waits for",
                every_s=TRIAL_EVERY_S,
            )
            return log()
        finally:
            process.kill()
            process.wait()


@contextmanager
def _own_folder(prefix: str) -> Iterator[Path]:
    """Create a temporary folder for the block. Removes the folders of killed runs first."""
    _remove_abandoned(prefix)
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # The lock shows other runs that this folder is in use. The kernel releases the lock when this process ends.
            # A file with the pid would not do, because a process in another namespace sees another pid.
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(handle)


def _remove_abandoned(prefix: str) -> None:
    """Remove this user's unlocked folders older than `LEFT_S`. Their servers ended with the killed runs."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                found = os.fstat(handle)
                if found.st_uid == os.geteuid() and time.time() - found.st_mtime > LEFT_S:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
            finally:
                os.close(handle)


def _start(argv: list[str], folder: Path, *, memory_bytes: int | None = None) -> "subprocess.Popen[bytes]":
    try:
        with open(folder / _LOG, "wb", opener=open_own) as log:
            return subprocess.Popen(
                argv,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_limit_resources(memory_bytes),  # noqa: PLW1509  system calls only, before there are threads
            )
    except OSError as failure:
        raise Unreachable(f"cannot start {argv[0]}: {failure.strerror}", hint="name another server binary") from failure


def _limit_resources(memory_bytes: int | None) -> Callable[[], None]:
    """A preexec_fn that sets the server's limits; on Linux it also lets the kernel kill the server when rlctl ends."""
    import ctypes  # noqa: PLC0415  costs start-up time, and most commands start no such server

    prctl = ctypes.CDLL(None).prctl if sys.platform.startswith("linux") else None
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    memory = [most for most in (memory_bytes, hard) if most is not None and most != resource.RLIM_INFINITY]

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (min(memory), hard))
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return bound


def _await(server: ScratchServer, process: "subprocess.Popen[bytes]", folder: Path, clock: Clock) -> None:
    link = server.link(timeout_s=2.0)

    def is_settled() -> bool:
        if process.poll() is not None:
            return True
        try:
            return bool(link.call("PING"))
        except (LinkFailure, CommandFailed):
            return False

    try:
        wait_until(is_settled, timeout_s=START_S, clock=clock, what="the scratch server answers")
    finally:
        link.close()
    if process.poll() is not None:
        words = read_damaged(folder / _LOG).strip().splitlines()
        raise Unreachable(
            f"the scratch server ended at once: {words[-1] if words else 'its log is empty'}",
            hint="name another server binary in RLCTL_REDIS_SERVER",
        )
