"""This process at the limits that an operator may have set."""

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_OPEN = 256


@contextmanager
def no_file_left() -> Iterator[None]:
    """This process at its limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN, hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        try:
            while True:
                held.callback(os.close, os.open("/dev/null", os.O_RDONLY))
        except OSError:
            yield
