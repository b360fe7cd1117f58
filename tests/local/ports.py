"""Ports for the fleets of tests: each worker hands out blocks of its own, one after the other.

A fleet whose nodes a test has ended still wants its ports back: by chance another one would get them meanwhile.
"""

import os
from itertools import cycle, islice

from rlctl.system.ports import is_free, ports_of
from rlctl.topology.nodes import SENTINEL_PORT_OFFSET

SIZE = 12
# Data and sentinel ports end where the bus ports of the first block begin, and those end below the system's own.
_FIRST, _END = 11_000, 21_000
_BLOCKS = [
    base
    for page in range(_FIRST, _END, 2 * SENTINEL_PORT_OFFSET)
    for base in range(page, page + SENTINEL_PORT_OFFSET - SIZE, SIZE)
]
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_OWN = _BLOCKS[_WORKER :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]
_next = cycle(_OWN)


def next_base_port() -> int:
    """The next block whose data, sentinel and bus ports nobody has."""
    for base in islice(_next, len(_OWN)):
        if all(map(is_free, ports_of(base, SIZE))):
            return base
    raise AssertionError("every block of ports is in use")
