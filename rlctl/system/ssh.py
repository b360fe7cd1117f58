"""Runs Python programs as root on other machines, through the user's ssh command and its settings."""

import hashlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlctl.errors import AccessDenied, HostRefused, RlctlError, TimedOut, Unreachable
from rlctl.system.files import create_folder, make_private_folder
from rlctl.system.trust import path_problem

CONNECT_S = 10
ANSWER_S = 60.0
# A shared connection stays open for this time after its last use, so that the next call needs no log-in.
PERSIST_S = 60
_SSH_FAILED = 255
_NO_PYTHON, _NO_SUDO = 96, 97
_AS_ROOT = (
    f"command -v python3 >/dev/null || exit {_NO_PYTHON}; "
    'if [ "$(id -u)" = 0 ]; then exec python3 - {arguments}; fi; '
    f"sudo -n true >/dev/null 2>&1 || exit {_NO_SUDO}; "
    "exec sudo -n python3 - {arguments}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The ssh address of a machine. All other settings come from the user's ssh configuration."""

    name: str
    address: str
    port: int
    user: str | None = None

    def __str__(self) -> str:
        return f"host {self.name}"


class Ssh:
    """Runs programs on machines; instances with the same socket folder share connections."""

    def __init__(self, sockets: Path) -> None:
        self._sockets = sockets

    def is_open(self, machine: Machine) -> bool:
        """Whether a shared connection to the machine is open. If the machine lost power, the connection may be dead."""
        return _control_path(machine, self._sockets).exists()

    def python(
        self,
        machine: Machine,
        program: str,
        arguments: Sequence[str],
        *,
        timeout_s: float = ANSWER_S,
        shared: bool = True,
    ) -> str:
        """Run a Python program on the machine as root and return its output.

        Raises HostRefused, Unreachable or TimedOut if the program cannot run or fails. If `shared` is False, ssh opens
        a separate connection.
        """
        quoted = " ".join(shlex.quote(argument) for argument in arguments)
        argv = ssh_argv(machine, self._sockets, _AS_ROOT.replace("{arguments}", quoted), shared=shared)
        make_private_folder(self._sockets)
        # The errors go to a file, because a read from a pipe would not end: ssh's shared connection keeps the error
        # stream open until that connection closes.
        with tempfile.TemporaryFile() as errors:
            try:
                done = subprocess.run(
                    argv, input=program.encode(), stdout=subprocess.PIPE, stderr=errors, timeout=timeout_s, check=False
                )
            except subprocess.TimeoutExpired as failure:
                raise TimedOut(f"{machine}: no answer within {timeout_s:g} s", hint=_by_hand(machine)) from failure
            except OSError as failure:
                raise Unreachable(f"cannot run ssh: {failure.strerror}", hint="install the OpenSSH client") from failure
            errors.seek(0)
            stderr = errors.read().decode("utf-8", "replace")
        if done.returncode != 0:
            raise ssh_failure(machine, done.returncode, stderr)
        return done.stdout.decode("utf-8", "replace")


def socket_folder(home: Path) -> Path:
    """Create the private folder for sockets of shared connections.

    The folder is below /tmp or TMPDIR and not in RLCTL_HOME, because the path of a socket must be short.
    """
    mark = hashlib.sha256(str(home).encode()).hexdigest()[:8]
    folder = Path(tempfile.gettempdir()) / f"rlctl-ssh-{os.getuid()}-{mark}"
    create_folder(folder)
    found = path_problem(folder)
    if found is not None:
        raise AccessDenied(found.evidence, hint="remove it, or set TMPDIR")
    return folder


def ssh_argv(machine: Machine, sockets: Path, command: str, *, shared: bool = True) -> list[str]:
    """The ssh command line. All checks in the user's ssh settings stay on, such as the host key check."""
    sharing = {
        "ControlMaster": "auto",
        "ControlPath": str(_control_path(machine, sockets)),
        "ControlPersist": str(PERSIST_S),
    }
    own = {"ControlMaster": "no", "ControlPath": "none"}
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": str(CONNECT_S),
        **(sharing if shared else own),
        "LogLevel": "ERROR",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    user = ["-l", machine.user] if machine.user else []
    return ["ssh", "-T", *words, "-p", str(machine.port), *user, "--", machine.address, command]


def _control_path(machine: Machine, sockets: Path) -> Path:
    way = f"{machine.user}@{machine.address}:{machine.port}"
    return sockets / hashlib.sha256(way.encode()).hexdigest()[:12]


def ssh_failure(machine: Machine, code: int, stderr: str) -> RlctlError:
    """The error for a program that failed or did not run, from ssh's exit code and error output."""
    last = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "")
    if code == _NO_SUDO:
        return HostRefused(
            f"{machine}: sudo refused to work without a password",
            hint=f"allow `sudo -n` for the ssh user, or use root; try: ssh {machine.address} sudo -n true",
        )
    if code == _NO_PYTHON:
        return Unreachable(f"{machine}: there is no python3", hint="install python3 there; Ansible needs it too")
    if code != _SSH_FAILED:
        return Unreachable(f"{machine}: the probe ended with exit code {code}: {last}", hint=_by_hand(machine))
    if "HOST IDENTIFICATION HAS CHANGED" in stderr:
        return HostRefused(
            f"{machine}: its host key is not the one that is known for {machine.address}",
            hint=f"verify the key by another way, then `ssh-keygen -R {machine.address}` and `ssh {machine.address}`",
        )
    if "host key verification failed" in stderr.lower():
        return HostRefused(
            f"{machine}: the host key of {machine.address} is not known here",
            hint=f"verify the key by another way, then accept it: ssh -p {machine.port} {machine.address}",
        )
    if "permission denied" in stderr.lower() or "too many authentication failures" in stderr.lower():
        return HostRefused(f"{machine}: ssh was refused: {last}", hint=_by_hand(machine))
    return Unreachable(f"{machine} cannot be reached: {last or 'ssh printed nothing'}", hint=_by_hand(machine))


def _by_hand(machine: Machine) -> str:
    user = f"{machine.user}@" if machine.user else ""
    return f"try by hand: ssh -p {machine.port} {user}{machine.address} true"
