"""Writes the traceback of a bug to a file under RLCTL_HOME."""

import os
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from rlctl.errors import RlctlError
from rlctl.state.home import Home
from rlctl.system.files import make_private_folder, write_private

_KEPT_REPORTS = 50


def write_bug_report(failure: Exception) -> tuple[str, str]:
    """Write the traceback to a file, and return the message and the hint for the user."""
    trace = "".join(traceback.format_exception(failure))
    message = f"a bug in rlctl: {trace.strip().splitlines()[-1]}"
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    try:
        path = Home.from_environment().bugs / f"bug-{stamp}-{os.getpid()}.txt"
        make_private_folder(path.parent)
        write_private(path, trace)
        _remove_old(path.parent)
    except RlctlError:
        return message, "please report it"
    return message, f"please report it and attach {path}"


def _remove_old(bugs: Path) -> None:
    # The file names contain the time, so they sort from oldest to newest.
    for old in sorted(bugs.glob("bug-*.txt"))[:-_KEPT_REPORTS]:
        with suppress(OSError):
            old.unlink()
