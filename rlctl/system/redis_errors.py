"""Turns a server's error reply, or a broken connection, into an error that names the node."""

from collections.abc import Iterator
from contextlib import contextmanager

from rlctl.errors import Refused, Unreachable
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.nodes import NodeName

LOOK = "`rlctl status` shows which node is the primary now"
UNCHANGED = "nothing was changed; `rlctl status` shows the fleet"


@contextmanager
def named_errors(node: NodeName, hint: str) -> Iterator[None]:
    """Raise Refused for an error reply, and Unreachable if the connection breaks.

    After Unreachable it is unknown whether the server ran the command.
    """
    try:
        yield
    except CommandFailed as failure:
        raise Refused(f"{node} refuses: {failure}", hint=hint) from failure
    except LinkFailure as failure:
        raise Unreachable(f"{node} did not answer: {failure}", hint=LOOK) from failure
