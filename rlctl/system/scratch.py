"""A server for a moment: on loopback, behind a password, and gone with its folder whatever happens."""

import ctypes
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rlctl.errors import Unreachable
from rlctl.secrets import Secret
from rlctl.system.clock import Clock, wait_until
from rlctl.system.files import write_private
from rlctl.system.ports import LOOPBACK, free_base_port
from rlctl.system.redis import CommandFailed, LinkFailure, Login, NodeLink

START_S = 30.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchServer:
    """A running server that nobody else knows."""

    port: int
    password: Secret

    def link(self, *, timeout_s: float = 60.0) -> NodeLink:
        """A new connection; whoever asks closes it."""
        return NodeLink(LOOPBACK, self.port, Login(username="default", password=self.password), timeout_s=timeout_s)


@contextmanager
def scratch_server(program: str, directives: Mapping[str, str], clock: Clock) -> Iterator[ScratchServer]:
    """Start one with these directives; its end and the removal of its folder come with the block's."""
    with tempfile.TemporaryDirectory(prefix="rlctl-scratch-") as name:
        folder = Path(name)
        server = ScratchServer(port=free_base_port(1), password=Secret(secrets.token_urlsafe(24)))
        own = {"bind": LOOPBACK, "port": str(server.port), "dir": name, "save": '""', "appendonly": "no"}
        text = "".join(f"{key} {value}\n" for key, value in (own | dict(directives)).items())
        write_private(folder / "scratch.conf", f"{text}requirepass {server.password.reveal()}\n")
        process = _start([program, str(folder / "scratch.conf")], folder)
        try:
            _await(server, process, folder, clock)
            yield server
        finally:
            process.kill()
            process.wait()


def _start(argv: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    try:
        with (folder / "server.log").open("wb") as log:
            return subprocess.Popen(
                argv,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent(),  # noqa: PLW1509  a single call into the kernel, before any thread is there
            )
    except OSError as failure:
        raise Unreachable(f"cannot start {argv[0]}: {failure.strerror}", hint="name another server binary") from failure


def _die_with_parent() -> Callable[[], None] | None:
    """On Linux the kernel ends the server when rlctl itself is killed."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return ask


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
        words = (folder / "server.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise Unreachable(
            f"the scratch server ended at once: {words[-1] if words else 'it left no word'}",
            hint="name another server binary in RLCTL_REDIS_SERVER",
        )
