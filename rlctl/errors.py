"""The errors that rlctl reports to its user: each has a code, a hint and an exit code."""

from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    """The exit codes of rlctl, on which scripts and CI rely."""

    OK = 0
    BUG = 1
    USAGE = 2
    INVALID_FILE = 3
    DENIED = 4
    NOT_FOUND = 5
    UNREACHABLE = 6
    TIMEOUT = 7
    GUARD = 8
    DECLINED = 9
    CHANGES = 10
    DEGRADED = 11
    CRITICAL = 12
    PARTIAL = 13
    DRILL_FAILED = 14
    CHECK_FAILED = 15
    INCONCLUSIVE = 16
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


class RlctlError(Exception):
    """The base class. The message says what went wrong, where and why; `hint` says what to do next."""

    exit_code: ClassVar[Exit] = Exit.BUG
    code: ClassVar[str] = "bug"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageFault(RlctlError):
    """The command line is wrong in a way that click does not detect."""

    exit_code = Exit.USAGE
    code = "usage"


class InvalidFile(RlctlError):
    """A file that the user gave is invalid. The message starts with `file:line`."""

    exit_code = Exit.INVALID_FILE
    code = "invalid-file"


class AccessDenied(RlctlError):
    """A server refused the credentials of rlctl, or the fleet's secrets are missing on this machine."""

    exit_code = Exit.DENIED
    code = "access-denied"


class NotFound(RlctlError):
    """A file, node, fleet or other object that the command needs does not exist."""

    exit_code = Exit.NOT_FOUND
    code = "not-found"


class Unreachable(RlctlError):
    """A server does not answer, a tool is missing, or the state folder cannot be used."""

    exit_code = Exit.UNREACHABLE
    code = "unreachable"


class HostRefused(Unreachable):
    """A host refused rlctl: its host key has changed, or it denied the login or sudo."""

    code = "host-refused"


class ResourceLimit(Unreachable):
    """The operating system denied rlctl more memory, threads or open files."""

    code = "resource-limit"


class TimedOut(RlctlError):
    """A condition was not met before its deadline."""

    exit_code = Exit.TIMEOUT
    code = "timeout"


class Refused(RlctlError):
    """A guard refused to continue, because that would be unsafe, or would change something outside the fleet."""

    exit_code = Exit.GUARD
    code = "refused"


class LockHeld(Refused):
    """Another operation holds the fleet's lock."""

    code = "lock-held"


class StalePlan(Refused):
    """A saved plan no longer fits the topology or the fleet."""

    code = "stale-plan"


class Declined(RlctlError):
    """The user declined a question, or there is no terminal for the question."""

    exit_code = Exit.DECLINED
    code = "declined"


class PartlyDone(RlctlError):
    """Some steps were done and one failed. The message names the step and says how to continue."""

    exit_code = Exit.PARTIAL
    code = "partly-done"


class CheckFailed(RlctlError):
    """Every step was done, but a final check found that the fleet is not in the expected state."""

    exit_code = Exit.CHECK_FAILED
    code = "check-failed"


class Interrupted(RlctlError):
    """The user or the system asked rlctl to stop, and rlctl stopped at a safe point."""

    exit_code = Exit.INTERRUPTED
    code = "interrupted"


class HungUp(Interrupted):
    """SIGHUP: the terminal was closed, and rlctl stopped at a safe point."""

    exit_code = Exit.HUNG_UP
    code = "hung-up"


class Terminated(Interrupted):
    """SIGTERM: rlctl stopped at a safe point."""

    exit_code = Exit.TERMINATED
    code = "terminated"
