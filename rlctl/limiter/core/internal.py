"""Converts defects of this library to failures, so that the failure policy decides; logs each defect once."""

import logging
from pathlib import Path
from traceback import extract_tb
from types import TracebackType

from rlctl.errors import RlctlError
from rlctl.limits.failures import Cause, Failure

# Defects have their own logger: "rlctl.limiter" is silent until a service configures it, but a defect must always reach
# stderr.
_log = logging.getLogger("rlctl.internal")
_logged: set[tuple[type[Exception], str]] = set()


def internal(error: Exception) -> Failure:
    """Return the Failure that replaces an unexpected exception.

    The first error of each type and place is logged; later ones appear only in `Stats.errors`. The evidence omits the
    text of the exception, because the text may contain secrets.
    """
    place = _place(error)
    kind = (type(error), place)
    if kind not in _logged:
        _logged.add(kind)
        _log.error("internal error in rlctl.limiter; the failure policy decides, at %s", place, exc_info=error)
    return Failure(Cause.INTERNAL, f"{type(error).__name__} at {place}")


class _DefectsAsFailures:
    """Context manager that turns an unexpected exception into a Failure of cause `internal`."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, (Failure, RlctlError)):
            raise internal(error) from error


# The context manager has no state, so all threads and tasks share this object.
defects_as_failures = _DefectsAsFailures()


def _place(error: Exception) -> str:
    frames = extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown place"
