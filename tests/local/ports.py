"""Ports for the fleets of tests. Each worker of any run on this machine has its own blocks and uses them in turn.

A fleet whose nodes a test has ended needs its ports again, so they must not go to another fleet meanwhile.
"""

import socket
import sys
from itertools import chain

from rlctl.system.ports import is_free, ports_of
from rlctl.topology.nodes import SENTINEL_PORT_OFFSET

SIZE = 12
# The limit for one worker, so that ten workers find enough blocks.
MOST = 40
# Data and sentinel ports end below the bus ports of the first block, and those end below the ephemeral ports.
_FIRST, _END = 11_000, 21_000
_BLOCKS = [
    base
    for page in range(_FIRST, _END, 2 * SENTINEL_PORT_OFFSET)
    for base in range(page, page + SENTINEL_PORT_OFFSET - SIZE, SIZE)
]
_claims: dict[int, socket.socket] = {}


def next_base_port() -> int:
    """The next block that no other worker has claimed and whose data, sentinel and bus ports are free."""
    own, others = list(_claims), [base for base in _BLOCKS if base not in _claims]
    for base in chain(others, own) if len(own) < MOST else chain(own, others):
        claim = _claims.pop(base, None) or _claim(base)
        if claim is not None:
            _claims[base] = claim
            if all(map(is_free, ports_of(base, SIZE))):
                return base
    raise AssertionError("every block of ports is in use")


def _claim(base: int) -> socket.socket | None:
    """Claim a name that only one process in this network namespace can hold. The claim ends with the process."""
    claim = socket.socket(socket.AF_UNIX)
    if sys.platform != "linux":
        return claim
    try:
        claim.bind(f"\0rlctl-tests-{base}")
    except OSError:
        claim.close()
        return None
    return claim
