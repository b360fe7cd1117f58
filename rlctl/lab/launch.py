"""Starts the worker process of a run, forwards its progress, stops it, and reads the error that it recorded."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rlctl.errors import RlctlError, TimedOut
from rlctl.execute.stop import StopFlag
from rlctl.lab.run_folder import FAILED, RunFolder, journal_lines
from rlctl.system.child import Child
from rlctl.system.process import OWN_PYTHON, ProcessId
from rlctl.system.sandbox import enter_argv

LISTEN_S = 0.2
END_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerExit:
    """Exit code of a worker, and the last lines of its standard error."""

    code: int
    last_errors: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProgram:
    """A module of rlctl that carries out runs.

    If `owns_folder` is set, the worker process owns its run, and cleans up by itself when rlctl ends.
    """

    module: str
    in_sandbox: bool
    owns_folder: bool
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, folder: RunFolder, on_note: Callable[[str], None], stop: StopFlag) -> WorkerExit:
        """Carry out the request in the folder. Once `stop` is set, stop the worker and wait until it has ended."""
        # Ctrl-C in a terminal signals every foreground process. An attached worker would be stopped by the terminal
        # and again by rlctl, and the second signal would abort it. A detached worker is stopped by rlctl only.
        with Child(self._argv(folder), detached=True) as child:
            owner = ProcessId.of(child.pid) if self.owns_folder else None
            if owner is not None:
                owner.save(folder.owner)
            is_stopping = False
            while (line := _next_line(child)) is not None:
                if line:
                    on_note(json.loads(line)["note"])
                if stop.is_set and not is_stopping:
                    is_stopping = True
                    child.close()
            return WorkerExit(code=child.wait(timeout_s=END_S), last_errors=child.last_errors())

    def _argv(self, folder: RunFolder) -> list[str]:
        argv = [*OWN_PYTHON, "-m", self.module, str(folder.root)]
        if self.environment:
            argv = ["env", *(f"{name}={value}" for name, value in self.environment.items()), *argv]
        return enter_argv(argv) if self.in_sandbox else argv


def recorded_failure(folder: RunFolder) -> RlctlError | None:
    """The error that ended the worker; None if the journal has no error, for example after SIGKILL."""
    failed = next((line for line in reversed(list(journal_lines(folder))) if line["event"] == FAILED), None)
    if failed is None:
        return None
    return _class_of(str(failed["code"]))(str(failed["message"]), hint=str(failed["hint"]))


def _class_of(code: str) -> type[RlctlError]:
    kinds = [RlctlError]
    for kind in kinds:
        if kind.code == code and kind is not RlctlError:
            return kind
        kinds += kind.__subclasses__()
    return RlctlError


def _next_line(child: Child) -> str | None:
    try:
        return child.read_line(timeout_s=LISTEN_S)
    except TimedOut:
        return ""
