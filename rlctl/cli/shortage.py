"""Finds the resource limit behind a failure: memory, threads or open files."""

import errno
import resource

from rlctl.errors import ResourceLimit
from rlctl.system.open_files import limit_reached

# Messages of CPython and the C library. The text has to be compared, because these cases have no exception class.
_NO_THREAD = "can't start new thread"
_UNMAPPED = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")


def shortage(failure: BaseException) -> ResourceLimit | None:
    """Return an error that names the limit which caused the failure; None if the cause is not a limit."""
    if _is_out_of_memory(failure):
        return ResourceLimit(
            f"out of memory; {_limit('-v', resource.RLIMIT_AS, unit=1024)}",
            hint="set `ulimit -v unlimited`, or free memory, and run the command again",
        )
    if isinstance(failure, RuntimeError) and _NO_THREAD in str(failure):
        return ResourceLimit(
            f"cannot start a thread; {_limit('-u', resource.RLIMIT_NPROC)}, "
            f"{_limit('-v', resource.RLIMIT_AS, unit=1024)}",
            hint="raise `ulimit -u`, and `ulimit -v` for the threads' memory, and run the command again",
        )
    return limit_reached(failure)


def _is_out_of_memory(failure: BaseException) -> bool:
    """Whether memory ran out. If a shared library cannot be loaded for lack of memory, Python raises ImportError."""
    is_unmapped = isinstance(failure, ImportError) and any(text in str(failure) for text in _UNMAPPED)
    is_refused = isinstance(failure, OSError) and failure.errno == errno.ENOMEM
    return isinstance(failure, MemoryError) or is_unmapped or is_refused


def _limit(option: str, number: int, *, unit: int = 1) -> str:
    """Return a limit as the shell shows it, such as "`ulimit -v` is 1024"."""
    soft, _hard = resource.getrlimit(number)
    return f"`ulimit {option}` is {'unlimited' if soft == resource.RLIM_INFINITY else soft // unit}"
