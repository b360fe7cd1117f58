"""Run rlctl commands in forks of one process that has imported all modules already.

Python's start is most of what a short command costs. Each test worker has one server, which forks for each command;
the fork gets the words, environment, folder and standard streams of the command, and ends as a process of its own.
Tests of the start itself, of signals and of terminals start the real program.
"""

import atexit
import contextlib
import gc
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
LARGEST_REQUEST = 1 << 20
# Variables that Python or the C library reads only at its start.
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "TZ")
# Modules that commands import when they need them. None of them starts a thread at import.
_LIBRARIES = (
    *("rich.console", "rich.markup", "rich.table", "cryptography.x509", "jinja2"),
    *("matplotlib.figure", "matplotlib.backends.backend_svg"),
)


def needs_a_real_start(changed: Mapping[str, str]) -> bool:
    return any(name.startswith(_READ_AT_START) for name in changed)


class ForkServer:
    """The client in the worker. The server starts with the first command and ends with the worker."""

    def __init__(self) -> None:
        self._channel: socket.socket | None = None
        self._lock = threading.Lock()

    def run(
        self, words: Sequence[str], *, folder: Path, env: Mapping[str, str], stdin: str | None, timeout_s: float
    ) -> "subprocess.CompletedProcess[str]":
        """Run `python -m rlctl WORDS` and wait for its end."""
        pipes = [os.pipe() for _ in range(4)]
        (given, giving), (output, out), (errors, err), (outcome, ended) = pipes
        request = json.dumps({"words": list(words), "folder": str(folder), "env": dict(env)}).encode()
        try:
            socket.send_fds(self._open(), [request], [given, out, err, ended])
        finally:
            for descriptor in (given, out, err, ended):
                os.close(descriptor)
        with ThreadPoolExecutor(3) as pool:
            pool.submit(_write, giving, stdin or "")
            said, complained = pool.submit(_read, output), pool.submit(_read, errors)
            code = _await_code(outcome, timeout_s)
            return subprocess.CompletedProcess(list(words), code, said.result(), complained.result())

    def _open(self) -> socket.socket:
        with self._lock:
            if self._channel is None:
                self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    server = subprocess.Popen(
                        [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())],
                        pass_fds=[theirs.fileno()],
                        cwd=ROOT,
                        stdin=subprocess.DEVNULL,
                    )
                # It ends when this process does; nothing waits for it.
                server.returncode = 0
            return self._channel


def _write(descriptor: int, text: str) -> None:
    with contextlib.suppress(BrokenPipeError), open(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


def _read(descriptor: int) -> str:
    with open(descriptor, encoding="utf-8") as stream:
        return stream.read()


def _await_code(descriptor: int, timeout_s: float) -> int:
    """The exit code of the fork, which is killed if it takes too long."""
    with open(descriptor, encoding="ascii") as stream:
        pid = int(stream.readline())
        timer = threading.Timer(timeout_s, os.kill, (pid, signal.SIGKILL))
        timer.start()
        try:
            return int(stream.readline())
        finally:
            timer.cancel()


# --- the server ---------------------------------------------------------------------------------------------


def serve(channel: socket.socket) -> None:
    """Fork for each request until the worker closes the channel."""
    _preload()
    gc.freeze()
    while True:
        request, descriptors, _flags, _address = socket.recv_fds(channel, LARGEST_REQUEST, 4)
        if not request:
            return
        # Two forks: the first waits for the second, so that this loop never waits for a command.
        if os.fork() == 0:
            channel.close()
            _supervise(json.loads(request), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        _reap()


def _preload() -> None:
    for module in pkgutil.walk_packages(import_module("rlctl").__path__, "rlctl."):
        import_module(module.name)
    for library in _LIBRARIES:
        import_module(library)
    assert threading.active_count() == 1, "a fork must not lose threads"


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _supervise(request: dict[str, Any], descriptors: Sequence[int]) -> NoReturn:
    *streams, ended = descriptors
    pid = os.fork()
    if pid == 0:
        os.close(ended)
        _become(request, streams)
    for stream in streams:
        os.close(stream)
    os.write(ended, b"%d\n" % pid)
    _pid, status = os.waitpid(pid, 0)
    os.write(ended, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become(request: dict[str, Any], streams: Sequence[int]) -> NoReturn:
    """Run the command as `python -m rlctl` does, and exit as the interpreter exits."""
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["folder"])
        sys.argv = ["rlctl", *request["words"]]
        code = _main()
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - what would be a traceback of the program is one here
        traceback.print_exc()
    os._exit(code)


def _main() -> int:
    from rlctl.__main__ import main  # noqa: PLC0415 - the server imports it before it forks

    try:
        main()
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 0
    return 0


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
