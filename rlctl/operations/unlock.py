"""Show the lock of a fleet, and remove it."""

from dataclasses import dataclass

from rlctl.errors import Refused, Unreachable
from rlctl.execute.lock import LOCK_KEY, RELEASE, UNKNOWN_OWNER, LockOwner, is_free, read_owner
from rlctl.execute.locking import primary_for_key
from rlctl.execute.session import FleetSession
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink, Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLock:
    """A held lock. `link` is None for the file lock of this machine, which only its owner can release."""

    owner: LockOwner | None
    token: str
    link: NodeLink | None

    def describe(self) -> str:
        return self.owner.describe() if self.owner else UNKNOWN_OWNER


def find_lock(fleet: FleetSession) -> FoundLock | None:
    """Return the lock key in the fleet, or else the file lock of this machine, or None if the fleet is not locked."""
    spec = None if fleet.is_new else primary_for_key(fleet, fleet.observe(), LOCK_KEY)
    if spec is not None:
        link = fleet.connector.link(spec)
        if token := _ask(link, "to show it", "GET", LOCK_KEY):
            return FoundLock(owner=LockOwner.from_text(str(token)), token=str(token), link=link)
    path = fleet.home.lock(fleet.topology.name)
    if not path.exists() or is_free(path):
        return None
    return FoundLock(owner=read_owner(path), token="", link=None)


def break_lock(fleet: FleetSession, lock: FoundLock) -> None:
    """Delete the lock key; raises Refused if its owner has changed, or if only the file lock is held."""
    if lock.link is None:
        raise Refused(
            f"a running process on this machine holds the lock ({lock.describe()})",
            hint="end that process; this also releases the lock",
        )
    if not _ask(lock.link, "to remove it", "EVAL", RELEASE, 1, LOCK_KEY, lock.token):
        raise Refused(f"the lock of fleet {fleet.topology.name} has another owner now", hint="`rlctl unlock` shows it")


def _ask(link: NodeLink, purpose: str, *command: object) -> Reply:
    """Send a command to the node that stores the lock key; raises Unreachable or Refused if the command fails."""
    try:
        return link.call(*command)
    except LinkFailure as failure:
        raise Unreachable(
            f"the node that stores the lock did not answer: {failure}",
            hint="`rlctl status` shows the fleet; then run `rlctl unlock` again",
        ) from failure
    except CommandFailed as failure:
        raise Refused(
            f"{link.endpoint}, which stores the lock, refuses {purpose}: {failure}",
            hint="`rlctl doctor` shows what is wrong there; the lock expires at most 30 s after its owner has ended",
        ) from failure
