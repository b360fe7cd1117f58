"""Commands that are sent together, and what becomes of each. Pure."""

from dataclasses import dataclass

from rlctl.errors import RlctlError
from rlctl.limits.failures import Failure
from rlctl.limits.resp import Reply


@dataclass(frozen=True, slots=True)
class Ask:
    """One command for the node in charge of `tag`; an empty `sha1` means that it calls no script."""

    message: bytes
    tag: bytes
    sha1: str = ""


Outcome = Reply | Failure | RlctlError
