"""Looking at a fleet's lock, and breaking it."""

from dataclasses import dataclass

from rlctl.errors import Refused, Unreachable
from rlctl.execute.lock import LOCK_KEY, RELEASE, LockOwner, is_free, read_owner
from rlctl.execute.locking import primary_for_key
from rlctl.execute.session import FleetSession
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink, Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLock:
    """A lock that somebody holds; without a link it is the machine's, which only its process can end."""

    owner: LockOwner | None
    token: str
    link: NodeLink | None

    def describe(self) -> str:
        """For people."""
        return self.owner.describe() if self.owner else "somebody who left no name"


def look(fleet: FleetSession) -> FoundLock | None:
    """The fleet's lock, or else the machine's."""
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
    """Remove the key if it is still the one that was shown."""
    if lock.link is None:
        raise Refused(
            f"the lock on this machine belongs to a running process ({lock.describe()})",
            hint="end that process; its lock ends with it",
        )
    if not _ask(lock.link, "to remove it", "EVAL", RELEASE, 1, LOCK_KEY, lock.token):
        raise Refused(f"the lock of fleet {fleet.topology.name} has changed hands meanwhile", hint="look again")


def _ask(link: NodeLink, purpose: str, *command: object) -> Reply:
    """What the lock's keeper answers; it may die or fall silent at any moment, also while somebody is asked."""
    try:
        return link.call(*command)
    except LinkFailure as failure:
        raise Unreachable(
            f"the node that keeps the lock did not answer: {failure}",
            hint="`rlctl status` shows how the fleet stands; look again then",
        ) from failure
    except CommandFailed as failure:
        raise Refused(
            f"{link.endpoint}, which keeps the lock, refuses {purpose}: {failure}",
            hint="`rlctl doctor` shows what is wrong there; the lock ends by itself at most 30 s after its owner",
        ) from failure
