"""Set the resource limits of this process, as an operator may have done."""

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_OPEN = 256


@contextmanager
def no_file_left() -> Iterator[None]:
    """Use up the open files of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN, hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        try:
            while True:
                held.callback(os.close, os.open("/dev/null", os.O_RDONLY))
        except OSError:
            yield
