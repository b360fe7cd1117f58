"""A server for a moment: on loopback, behind a password, and gone with its folder whatever happens."""

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
# An empty server needs less, whatever its directives; `databases` or `maxclients` can ask for all memory of a machine.
TRIAL_MEMORY_BYTES = 4 * 1024**3
TRIAL_EVERY_S = 0.002
# A folder that is younger may not be locked yet.
LEFT_S = 60.0
_PR_SET_PDEATHSIG = 1
_LOG = "server.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchServer:
    """A running server that nobody else knows."""

    port: int
    password: Secret

    def link(self, *, timeout_s: float = 60.0) -> NodeLink:
        """A new connection; whoever asks closes it."""
        return NodeLink(
            LOOPBACK, self.port, Credentials(username="default", password=self.password), timeout_s=timeout_s
        )


@contextmanager
def scratch_server(program: str, directives: Mapping[str, str], clock: Clock) -> Iterator[ScratchServer]:
    """Start one with these directives; its end and the removal of its folder come with the block's."""
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
    """What a server with this configuration says until it is ready or has ended; then it is gone with its folder."""
    with _own_folder("rlctl-trial-") as folder:
        write_private(folder / "trial.conf", conf)
        process = _start([program, "trial.conf"], folder, memory_bytes=TRIAL_MEMORY_BYTES)

        def said() -> str:
            return read_damaged(folder / _LOG)

        def is_settled() -> bool:
            return process.poll() is not None or is_ready(said())

        try:
            wait_until(
                is_settled,
                timeout_s=START_S,
                clock=clock,
                what=f"{program} starts with the directives of the topology",
                hint="start it by hand with `--port 0 --unixsocket s` to see what it waits for",
                every_s=TRIAL_EVERY_S,
            )
            return said()
        finally:
            process.kill()
            process.wait()


@contextmanager
def _own_folder(prefix: str) -> Iterator[Path]:
    """A temporary folder; those of killed runs are removed first."""
    _remove_abandoned(prefix)
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # The lock ends with this process, however it ends, and holds across namespaces, where pids do not.
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(handle)


def _remove_abandoned(prefix: str) -> None:
    """Remove this user's folders that no process holds. Their servers have ended with the process that made them."""
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
                preexec_fn=_limit_resources(memory_bytes),  # noqa: PLW1509  calls into the kernel, before any thread is there
            )
    except OSError as failure:
        raise Unreachable(f"cannot start {argv[0]}: {failure.strerror}", hint="name another server binary") from failure


def _limit_resources(memory_bytes: int | None) -> Callable[[], None]:
    """Limits that a server gives itself before it starts; on Linux the kernel ends it when rlctl itself is killed."""
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
            f"the scratch server ended at once: {words[-1] if words else 'it left no word'}",
            hint="name another server binary in RLCTL_REDIS_SERVER",
        )
