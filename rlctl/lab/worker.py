"""Worker process of a run: carries out the request, reports progress, and stops when rlctl ends.

`rlctl.lab.launch` starts the worker. The request is in the run's folder. The worker writes its progress to standard
output, one JSON object per line. The end of standard input means that rlctl has ended. The worker writes the error of
a failed run to the run's journal, as event `failed`.
"""

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from rlctl.errors import Exit, RlctlError, Unreachable
from rlctl.execute.stop import StopFlag
from rlctl.lab.run_folder import FAILED, RunFolder, RunJournal
from rlctl.system.clock import SystemClock
from rlctl.system.redis import CommandFailed, LinkFailure


class JsonProgress:
    """Progress as JSON lines on standard output, which rlctl shows to the user."""

    def note(self, text: str) -> None:
        # If rlctl has ended, no process reads the notes. The run ignores this error, because it must still clean up.
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.write(json.dumps({"note": text}) + "\n")
            sys.stdout.flush()

    def step(self, number: int, of: int, text: str, outcome: str) -> None:
        """Do nothing: the steps of a throw-away fleet's deploy are not shown."""


class StopWithParent(StopFlag):
    """Stop flag that is set by a signal, or when rlctl ends."""

    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        _await_end_of_input()
        os.kill(os.getpid(), signal.SIGTERM)


def end_with_parent() -> None:
    """End this process as soon as rlctl ends.

    Call this only in a worker with its own namespaces, because its servers then end together with the namespaces.
    """

    def listen() -> None:
        _await_end_of_input()
        os._exit(Exit.TERMINATED)

    threading.Thread(target=listen, daemon=True).start()


def serve(carry_out: Callable[[RunFolder, JsonProgress], None]) -> int:
    """Carry out the request in the folder given on the command line, and return the exit code."""
    # Other users of the machine must not read the files of a run.
    os.umask(0o077)
    folder = RunFolder(Path(sys.argv[1]))
    try:
        carry_out(folder, JsonProgress())
    except (LinkFailure, CommandFailed) as failure:
        refused = Unreachable(f"a node refused or lost a command: {failure}", hint="see the node's log")
        return _fail(folder, refused)
    except RlctlError as failure:
        return _fail(folder, failure)
    return Exit.OK


def _fail(folder: RunFolder, failure: RlctlError) -> int:
    journal = RunJournal(folder, SystemClock())
    journal.write(FAILED, code=failure.code, message=failure.message, hint=failure.hint)
    return failure.exit_code


def _await_end_of_input() -> None:
    while os.read(0, 1):
        pass
