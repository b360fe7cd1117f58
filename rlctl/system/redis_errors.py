"""Orders that servers may refuse, or not answer: errors in rlctl's words."""

from collections.abc import Iterator
from contextlib import contextmanager

from rlctl.errors import Refused, Unreachable
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.nodes import NodeName

LOOK = "`rlctl status` shows who is the primary now"
UNCHANGED = "nothing was changed; `rlctl status` shows the fleet"


@contextmanager
def named_errors(node: NodeName, hint: str) -> Iterator[None]:
    """What a server refuses, or a connection that breaks, in rlctl's words; what got lost may have been obeyed."""
    try:
        yield
    except CommandFailed as failure:
        raise Refused(f"{node} refuses: {failure}", hint=hint) from failure
    except LinkFailure as failure:
        raise Unreachable(f"{node} did not answer: {failure}", hint=LOOK) from failure
