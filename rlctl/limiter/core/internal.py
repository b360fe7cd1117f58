"""Errors of this library itself: logged once with their traceback, and failures that a policy answers."""

import logging
from pathlib import Path
from traceback import extract_tb
from types import TracebackType

from rlctl.errors import RlctlError
from rlctl.limits.failures import Cause, Failure

# Not a child of "rlctl.limiter", which is silent until a service configures it: a defect must reach stderr anyway.
_log = logging.getLogger("rlctl.internal")
_logged: set[tuple[type[Exception], str]] = set()


def internal(error: Exception) -> Failure:
    """The failure to raise or to keep in the place of an unexpected exception.

    The first error of each type and place is logged; later ones only appear in `Stats.errors`. The evidence leaves
    the exception's text out, as that may hold anything.
    """
    place = _place(error)
    kind = (type(error), place)
    if kind not in _logged:
        _logged.add(kind)
        _log.error("internal error in rlctl.limiter; the failure policy decides, at %s", place, exc_info=error)
    return Failure(Cause.INTERNAL, f"{type(error).__name__} at {place}")


class _DefectsAsFailures:
    """A block from which an unexpected exception comes out as a Failure with cause internal; see `internal`."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, (Failure, RlctlError)):
            raise internal(error) from error


# Without state, so one serves all threads and tasks.
defects_as_failures = _DefectsAsFailures()


def _place(error: Exception) -> str:
    frames = extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown place"
