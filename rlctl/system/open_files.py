"""Detects that rlctl itself reached its limit of open files. Otherwise rlctl would report that a node failed."""

import resource
from errno import EMFILE, ENFILE

from rlctl.errors import ResourceLimit

_ENOUGH = 1024


def limit_reached(failure: BaseException) -> ResourceLimit | None:
    """The error to report if `failure` means that no more files can be opened; None for any other failure."""
    if not isinstance(failure, OSError) or failure.errno not in {EMFILE, ENFILE}:
        return None
    if failure.errno == ENFILE:
        return ResourceLimit(
            "this machine cannot open more files", hint="raise fs.file-max, or end processes with many open files"
        )
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ResourceLimit(
        f"rlctl may open {soft} files at once and needs more for this command",
        hint=f"run `ulimit -n {_ENOUGH}` in this shell, then the same command",
    )


def raise_at_limit(failure: BaseException) -> None:
    """Raise ResourceLimit if `failure` means that no more files can be opened; else do nothing."""
    error = limit_reached(failure)
    if error is not None:
        raise error from failure
