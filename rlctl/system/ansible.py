"""Runs playbooks with the Ansible that is installed for rlctl's own Python interpreter.

The results come from a file of events, which a callback plugin writes, and never from the text that Ansible prints.
"""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlctl.errors import Unreachable
from rlctl.system.files import make_private_folder, open_own, read_damaged, write_private
from rlctl.system.playbook_events import End, Event, PlaybookRun, TaskResult, parse_events
from rlctl.system.process import OWN_PYTHON

LOOK_EVERY_S = 0.05
END_S = 10.0
# Runs `python -m ansible`. On Linux the kernel ends Ansible if rlctl is killed (1 is PR_SET_PDEATHSIG). Ansible keeps
# nearly every object, so garbage collections free nothing: the higher threshold makes them rare and saves a tenth of a
# run's time.
_ATTACHED = (
    "import ctypes, gc, runpy, signal, sys; gc.set_threshold(50_000); "
    "sys.platform.startswith('linux') and ctypes.CDLL(None).prctl(1, signal.SIGTERM); "
    "runpy.run_module('ansible', run_name='__main__', alter_sys=True)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Playbook:
    """One run of a playbook on some hosts of an inventory. Variables are passed in a file, never in argv."""

    path: Path
    inventory: Path
    hosts: Sequence[str]
    variables: Mapping[str, object] = field(default_factory=dict)
    check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsibleSettings:
    """Settings of all playbook runs: the state folder (RLCTL_HOME), and the folder of shared ssh connections."""

    home: Path
    sockets: Path


def run_playbook(
    call: Playbook, settings: AnsibleSettings, on_event: Callable[[Event], None], check_stop: Callable[[], None]
) -> PlaybookRun:
    """Run a playbook to its end and pass each event to `on_event`.

    `check_stop` raises an error to end the run early. Raises Unreachable if Ansible ends without an event that reports
    the end of the playbook.
    """
    # The temporary folder is in the fleet's private folder, beside the inventory, so that `destroy` removes it even if
    # a killed rlctl left it behind.
    with tempfile.TemporaryDirectory(prefix="run-", dir=call.inventory.parent) as name:
        folder = Path(name)
        events, log, variables = folder / "events", folder / "log", folder / "variables.json"
        write_private(events, "")
        write_private(variables, json.dumps(call.variables))
        make_private_folder(folder / "tmp")
        environment = playbook_environment(os.environ, call, settings, folder)
        process = _start(playbook_argv(call, variables), environment, log)
        reader = _EventReader(events, on_event)
        try:
            while _is_running(process):
                reader.read_new()
                check_stop()
        finally:
            _end(process)
        reader.read_new()
        if reader.end is None:
            raise _aborted(call, process.returncode, read_damaged(log))
        return PlaybookRun(results=tuple(reader.results), failures=reader.end.failures)


def playbook_argv(call: Playbook, variables: Path) -> list[str]:
    argv = [*OWN_PYTHON, "-c", _ATTACHED, "playbook", str(call.path), "--inventory", str(call.inventory)]
    argv += ["--limit", ",".join(call.hosts), "--extra-vars", f"@{variables}"]
    return [*argv, "--check"] if call.check else argv


def playbook_environment(
    own: Mapping[str, str], call: Playbook, settings: AnsibleSettings, folder: Path
) -> dict[str, str]:
    """The environment of a playbook run: the environment `own` with rlctl's settings.

    The variables ANSIBLE_* of `own` are removed, because they could change the results. Only ANSIBLE_VAULT_* are kept.
    """
    kept = {
        name: value
        for name, value in own.items()
        if name.startswith("ANSIBLE_VAULT_") or not name.startswith("ANSIBLE_")
    }
    return kept | {
        "ANSIBLE_CONFIG": str(call.path.parent / "ansible.cfg"),
        "ANSIBLE_CALLBACKS_ENABLED": "rlctl_events",
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(settings.sockets),
        "RLCTL_EVENTS": str(folder / "events"),
        "RLCTL_HOME": str(settings.home),
        # Ansible does not start if the locale uses another encoding than UTF-8.
        "LC_ALL": "C.UTF-8",
    }


class _EventReader:
    def __init__(self, path: Path, on_event: Callable[[Event], None]) -> None:
        self._path = path
        self._on_event = on_event
        self._position = 0
        self.results: list[TaskResult] = []
        self.end: End | None = None

    def read_new(self) -> None:
        """Read the lines that were completed since the last call."""
        with self._path.open("rb") as stream:
            stream.seek(self._position)
            text = stream.read()
        text = text[: text.rfind(b"\n") + 1]
        self._position += len(text)
        for event in parse_events(text.decode("utf-8", "replace").splitlines()):
            self._record(event)
            self._on_event(event)

    def _record(self, event: Event) -> None:
        if isinstance(event, TaskResult):
            self.results.append(event)
        else:
            self.end = event


def _start(argv: Sequence[str], environment: Mapping[str, str], log: Path) -> "subprocess.Popen[bytes]":
    try:
        with open(log, "wb", opener=open_own) as sink:
            return subprocess.Popen(
                list(argv),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                # Ansible gets its own session, so that Ctrl-C reaches only rlctl. When `check_stop` then raises an
                # error, rlctl ends the playbook.
                start_new_session=True,
            )
    except OSError as failure:
        raise Unreachable(f"cannot run Ansible: {failure.strerror}", hint="install rlctl again") from failure


def _is_running(process: "subprocess.Popen[bytes]") -> bool:
    try:
        process.wait(LOOK_EVERY_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is not None:
        return
    # Signal the whole process group: Ansible's workers keep running if only Ansible itself ends.
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _aborted(call: Playbook, code: int, log: str) -> Unreachable:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return Unreachable(
        f"Ansible aborted {call.path.name} with exit code {code}: {' / '.join(lines[-3:]) or 'it printed nothing'}",
        hint="fix the cause and run the same command again; completed tasks stay done",
    )
