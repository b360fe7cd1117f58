"""Commands that are sent in one round, and their results. Pure."""

from dataclasses import dataclass

from rlctl.errors import RlctlError
from rlctl.limits.failures import Failure
from rlctl.limits.resp import Reply


@dataclass(frozen=True, slots=True)
class Command:
    """A packed command for the node that owns the hash tag `tag`; `sha1` is empty if the command calls no script."""

    message: bytes
    tag: bytes
    sha1: str = ""


CommandResult = Reply | Failure | RlctlError
