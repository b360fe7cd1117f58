"""The error tree: every failure a user can meet, with its code, hint and exit status."""

from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    """The exit codes of rlctl; a contract with scripts and CI."""

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
    """The root: what went wrong, where and why, and in `hint` what to do next."""

    exit_code: ClassVar[Exit] = Exit.BUG
    code: ClassVar[str] = "bug"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageFault(RlctlError):
    """The command line does not make sense, in a way click cannot see."""

    exit_code = Exit.USAGE
    code = "usage"


class InvalidFile(RlctlError):
    """A file that the user gave is not valid; the message starts with `file:line`."""

    exit_code = Exit.INVALID_FILE
    code = "invalid-file"


class AccessDenied(RlctlError):
    """A server refused our credentials, or the secrets that would open it are missing."""

    exit_code = Exit.DENIED
    code = "access-denied"


class NotFound(RlctlError):
    """What the user named does not exist."""

    exit_code = Exit.NOT_FOUND
    code = "not-found"


class Unreachable(RlctlError):
    """A server does not answer, a tool is missing, or the state folder cannot be used."""

    exit_code = Exit.UNREACHABLE
    code = "unreachable"


class HostRefused(Unreachable):
    """A host does not let us work on it: another host key than the known one, a refused log-in, a refused sudo."""

    code = "host-refused"


class ResourceLimit(Unreachable):
    """The operating system gives rlctl no more memory, threads or open files."""

    code = "resource-limit"


class TimedOut(RlctlError):
    """A condition did not come true before its deadline."""

    exit_code = Exit.TIMEOUT
    code = "timeout"


class Refused(RlctlError):
    """A guard refuses: going on would be unsafe or would touch what is not ours."""

    exit_code = Exit.GUARD
    code = "refused"


class LockHeld(Refused):
    """Another operation holds the fleet's lock."""

    code = "lock-held"


class StalePlan(Refused):
    """A saved plan no longer fits the topology or the fleet."""

    code = "stale-plan"


class Declined(RlctlError):
    """The user said no, or there is no terminal to ask on."""

    exit_code = Exit.DECLINED
    code = "declined"


class PartlyDone(RlctlError):
    """Some steps were done and one failed; the message says which and how to go on."""

    exit_code = Exit.PARTIAL
    code = "partly-done"


class CheckFailed(RlctlError):
    """Everything was done, but reading the fleet again shows another result."""

    exit_code = Exit.CHECK_FAILED
    code = "check-failed"


class Interrupted(RlctlError):
    """The user or the system asked rlctl to stop; it stopped at a safe point."""

    exit_code = Exit.INTERRUPTED
    code = "interrupted"


class HungUp(Interrupted):
    """SIGHUP, as the terminal was closed: rlctl stopped at a safe point."""

    exit_code = Exit.HUNG_UP
    code = "hung-up"


class Terminated(Interrupted):
    """SIGTERM asked rlctl to stop; it stopped at a safe point."""

    exit_code = Exit.TERMINATED
    code = "terminated"
