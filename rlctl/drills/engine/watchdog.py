"""Watchdog process of a drill: cleans up if the drill is killed or exceeds its time limit.

Each line on its standard input is the number of seconds to wait for the next line, or `done` to end the watchdog.
"""

import os
import select
import signal
import sys
from pathlib import Path

from rlctl.drills.engine.cleanup import clean_up
from rlctl.drills.engine.watchdog_client import ARMED, DONE
from rlctl.errors import Exit, RlctlError
from rlctl.execute.progress import SILENT_PROGRESS
from rlctl.lab.run_folder import RunFolder
from rlctl.system.clock import SystemClock, wait_until
from rlctl.system.process import ProcessId

END_S = 60.0
_CHUNK = 4096


def main() -> int:
    """Report that the watchdog is armed, and wait. End on `done`; clean up at the end of input or after the limit."""
    folder, deadline_s = RunFolder(Path(sys.argv[1])), float(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.write(ARMED + "\n")
    sys.stdout.flush()
    word = last_word(deadline_s)
    if word == DONE:
        return Exit.OK
    try:
        _await_end_of_drill(folder, is_late=word is None)
        clean_up(folder, SILENT_PROGRESS)
    except RlctlError as failure:
        return failure.exit_code
    return Exit.OK


def last_word(deadline_s: float) -> str | None:
    """Wait for the last line. Returns DONE, an empty string at the end of input, or None if no line came in time."""
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], deadline_s)
        if not ready:
            return None
        # Lines are shorter than PIPE_BUF, so a read returns whole lines only.
        words = os.read(sys.stdin.fileno(), _CHUNK).decode().split()
        if not words or words[-1] == DONE:
            return "".join(words[-1:])
        deadline_s = float(words[-1])


def _await_end_of_drill(folder: RunFolder, *, is_late: bool) -> None:
    """Wait until the drill's process has ended. Kill the process first if it is late."""
    owner = ProcessId.load(folder.owner)
    if owner is None:
        return
    if is_late:
        owner.send(signal.SIGKILL)
    wait_until(
        lambda: not owner.is_alive(), timeout_s=END_S, clock=SystemClock(), what="the end of the drill's process"
    )


if __name__ == "__main__":
    sys.exit(main())
