"""Lock a fleet for one changing operation: the file lock of this machine first, then the key in the fleet."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlctl.errors import AccessDenied, LockHeld, Refused, RlctlError, TimedOut, Unreachable
from rlctl.execute.lock import LOCK_KEY, FleetLock, LockOwner, file_lock
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession, check_openable, open_fleet, open_fleet_for_removal
from rlctl.execute.stop import StopFlag
from rlctl.limits.release import Release
from rlctl.limits.slots import key_slot
from rlctl.observe.model import NodeFacts, Observed, Presence, Role
from rlctl.plan.unproven import describe_unproven, proof_hint
from rlctl.state.home import Home
from rlctl.system.clock import Clock, SystemClock
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink
from rlctl.targets.base import ProgressListener
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import NodeName, NodeSpec, all_nodes, data_nodes

WAIT_EVERY_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWait:
    """Whether to wait while another operation holds the lock, and for how long at most (None: without limit)."""

    wanted: bool
    at_most_s: float | None = None


class LockedFleet:
    """An opened fleet under the lock of one operation; `take_key` adds the lock key in Redis."""

    def __init__(self, fleet: FleetSession, owner: LockOwner, wait: Callable[[], bool]) -> None:
        self.fleet = fleet
        self._owner = owner
        self._wait = wait
        self._lock: FleetLock | None = None
        self._key_node: NodeSpec | None = None
        self._proven: frozenset[NodeName] = frozenset()

    def take_key(self, observed: Observed) -> None:
        """Set the lock key if a primary can store it now; raises LockHeld if another operation has set it."""
        self._note_proven(observed)
        if self._lock is not None:
            return
        spec = primary_for_key(self.fleet, observed, LOCK_KEY)
        if spec is None:
            return
        self._key_node = spec
        lock = FleetLock(self._open_links, self._owner)
        try:
            lock.acquire(wait=self._wait)
        except (LinkFailure, CommandFailed):
            # Continue without the key: a primary that is failing over cannot store it, and the file lock still keeps
            # out other processes of this machine.
            return
        self._lock = lock

    def follow(self, observed: Observed) -> None:
        """After a failover, extend the key on the new primary."""
        self._key_node = primary_for_key(self.fleet, observed, LOCK_KEY) or self._key_node
        self._note_proven(observed)

    def check(self) -> None:
        """Raise Refused if another operation has taken the lock."""
        if self._lock is not None and self._lock.is_lost:
            raise Refused(
                "another operation has taken the lock of this fleet",
                hint="`rlctl unlock` shows its owner; completed steps are not undone",
            )

    def release(self) -> None:
        """Delete the lock key; keep the file lock."""
        if self._lock is not None:
            self._lock.release()

    def _note_proven(self, observed: Observed) -> None:
        """Remember the proven nodes. Only they get passwords, because any process may listen on a dead node's port."""
        self._proven = frozenset(node.name for node in observed.up)

    def _open_links(self) -> Iterator[NodeLink]:
        """Yield a link to the node that stores the key, then links to the nodes that may have replaced that node."""
        assert self._key_node is not None
        nodes = data_nodes(self.fleet.topology)
        others = [spec for spec in nodes if spec != self._key_node and spec.name in self._proven]
        for spec in (self._key_node, *others):
            yield self.fleet.connector.separate_link(spec)


@contextmanager
def lock_fleet(
    topology: Topology,
    home: Home,
    command: str,
    stop: StopFlag,
    progress: Progress,
    *,
    waiting: LockWait,
    removing: bool = False,
    release: Release | None = None,
) -> Iterator[LockedFleet]:
    """Lock a fleet, and only then open it: until the lock is free, another operation may change the fleet.

    Other processes see `command` as the command of the lock's owner; `removing` opens the fleet as `rlctl destroy`
    does. Raises LockHeld, or TimedOut if `waiting` asked for a wait.
    """
    if not removing:
        check_openable(topology, home)
    home.open_for_writing()
    owner = LockOwner.myself(command)
    keep_waiting = _lock_wait(SystemClock(), stop, progress, waiting)
    listener = ProgressListener(note=progress.note, check_stop=stop.check)
    opened = (
        open_fleet_for_removal(topology, home, listener) if removing else open_fleet(topology, home, release, listener)
    )
    try:
        with file_lock(home.lock(topology.name), owner, wait=keep_waiting), opened as fleet:
            locked = LockedFleet(fleet, owner, keep_waiting)
            try:
                yield locked
            finally:
                locked.release()
    except LockHeld as failure:
        if not waiting.wanted:
            raise
        raise TimedOut(f"waited {waiting.at_most_s:g} s: {failure.message}", hint=failure.hint) from failure


def _lock_wait(clock: Clock, stop: StopFlag, progress: Progress, waiting: LockWait) -> Callable[[], bool]:
    """Return the callback for a lock that another process holds.

    The callback sleeps and returns True, or returns False once waiting must end.
    """
    started: float | None = None

    def keep_waiting() -> bool:
        nonlocal started
        stop.check()
        if not waiting.wanted:
            return False
        if started is None:
            started = clock.monotonic()
            progress.note("waiting for the fleet's lock")
        if waiting.at_most_s is not None and clock.monotonic() - started >= waiting.at_most_s:
            return False
        clock.sleep(WAIT_EVERY_S)
        return True

    return keep_waiting


def primary_for_key(fleet: FleetSession, observed: Observed, key: str) -> NodeSpec | None:
    """Return the primary that can store this key now, or None."""
    specs = {spec.name: spec for spec in all_nodes(fleet.topology)}
    if fleet.topology.kind is Kind.CLUSTER:
        slot = key_slot(key)
        owners = (node for node in observed.up if node.fleet_ok and _owns(node, slot))
        return next((specs[node.name] for node in owners), None)
    primaries = [node for node in observed.up if node.role is Role.PRIMARY]
    return specs[primaries[0].name] if len(primaries) == 1 else None


def primary_unreachable(fleet: FleetSession, observed: Observed, what: str, *, meanwhile: str = "") -> RlctlError:
    """Return the error for data that cannot be read, because its primary denies access, is unproven or is silent.

    `what` is the data, and `meanwhile` a clause on what services do until then; both are part of the message.
    """
    if denied := denied_access(observed):
        return denied
    if unproven := describe_unproven(observed):
        return Unreachable(
            f"rlctl cannot query the primary that stores {what}{meanwhile}: {unproven}", hint=proof_hint(fleet.topology)
        )
    return Unreachable(
        f"the primary that stores {what} does not answer{meanwhile}", hint="`rlctl status` shows the fleet"
    )


def denied_access(observed: Observed) -> AccessDenied | None:
    """Return the error for nodes that refuse the password; None if no node does."""
    denied = [node for node in observed.nodes if node.presence is Presence.DENIED]
    if not denied:
        return None
    return AccessDenied(
        "; ".join(f"{node.name} refuses the password ({node.evidence})" for node in denied),
        hint="import the fleet's secrets: `rlctl secrets import FILE`, or set RLCTL_SECRETS=FILE",
    )


def _owns(node: NodeFacts, slot: int) -> bool:
    return any(first <= slot <= last for first, last in node.slots)
