"""Waits beside a drill, in a session of its own; when the drill is gone or far too late, undoes what it broke."""

import select
import signal
import sys
from pathlib import Path

from rlctl.drills.leases import ARMED, DONE
from rlctl.drills.records import RunFolder
from rlctl.drills.sweep import sweep
from rlctl.errors import Exit, RlctlError
from rlctl.execute.quiet import QUIET
from rlctl.system.process import ProcessId


def main() -> int:
    """Say that we are armed; end at the word, else sweep."""
    folder, deadline_s = RunFolder(Path(sys.argv[1])), float(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.write(ARMED + "\n")
    sys.stdout.flush()
    ready, _, _ = select.select([sys.stdin], [], [], deadline_s)
    if ready and sys.stdin.readline().strip() == DONE:
        return Exit.OK
    owner = ProcessId.load(folder.owner)
    if not ready and owner is not None:
        owner.send(signal.SIGKILL)
    try:
        sweep(folder, QUIET)
    except RlctlError as failure:
        return failure.exit_code
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
