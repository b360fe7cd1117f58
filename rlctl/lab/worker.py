"""How a child process of rlctl's tells what it does, and hears that rlctl has gone."""

import contextlib
import json
import os
import signal
import sys
import threading

from rlctl.errors import Exit
from rlctl.execute.stop import StopFlag


class JsonProgress:
    """Tells rlctl, line by line, what goes on; rlctl shows it to the user."""

    def note(self, text: str) -> None:
        """Something worth a line."""
        # rlctl may have gone; then nobody listens, and the run heals and ends.
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.write(json.dumps({"note": text}) + "\n")
            sys.stdout.flush()

    def step(self, number: int, of: int, text: str, outcome: str) -> None:
        """A step's outcome; a twin's steps are nobody's business."""


def end_with_parent() -> None:
    """End at once when rlctl has gone: for a process that leaves nothing behind to put in order."""

    def listen() -> None:
        _await_end_of_input()
        os._exit(Exit.TERMINATED)

    threading.Thread(target=listen, daemon=True).start()


class StopWithParent(StopFlag):
    """Stops when asked by a signal, and when rlctl has gone."""

    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        _await_end_of_input()
        os.kill(os.getpid(), signal.SIGTERM)


def _await_end_of_input() -> None:
    while os.read(0, 1):
        pass
