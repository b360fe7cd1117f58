"""Holding a fleet for one changing operation: the machine's lock first, then the fleet's own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlctl.errors import LockHeld, Refused, TimedOut, Unreachable
from rlctl.execute.lock import LOCK_KEY, FleetLock, LockOwner, file_lock
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession, check_openable, open_fleet, open_fleet_for_removal
from rlctl.execute.stop import StopFlag
from rlctl.limits.release import Release
from rlctl.limits.slots import key_slot
from rlctl.observe.model import NodeFacts, Observed, Role
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
    """Whether to wait for a held lock, and how long at most."""

    wanted: bool
    at_most_s: float | None = None


class LockedFleet:
    """A fleet and the lock of the operation on it; the half in Redis is taken as soon as a primary answers."""

    def __init__(self, fleet: FleetSession, owner: LockOwner, wait: Callable[[], bool]) -> None:
        self.fleet = fleet
        self._owner = owner
        self._wait = wait
        self._lock: FleetLock | None = None
        self._key_node: NodeSpec | None = None
        self._proven: frozenset[NodeName] = frozenset()

    def take_key(self, observed: Observed) -> None:
        """Take the fleet's own lock where a primary can hold it."""
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
            # A primary that is failing over cannot hold a lock; the machine's lock holds.
            return
        self._lock = lock

    def follow(self, observed: Observed) -> None:
        """Keep the lock where it went: to the primary that has taken over from its keeper."""
        self._key_node = primary_for_key(self.fleet, observed, LOCK_KEY) or self._key_node
        self._note_proven(observed)

    def check(self) -> None:
        """Refuse to go on once somebody else has the lock."""
        if self._lock is not None and self._lock.is_lost:
            raise Refused(
                "another operation has taken this fleet's lock in the meantime",
                hint="see `rlctl unlock` for who it is; what was done stays",
            )

    def release(self) -> None:
        """Give the fleet's own lock back."""
        if self._lock is not None:
            self._lock.release()

    def _note_proven(self, observed: Observed) -> None:
        """Only who has proven to be ours is given a password; at a dead node's port there may be anybody."""
        self._proven = frozenset(node.name for node in observed.up)

    def _open_links(self) -> Iterator[NodeLink]:
        """To the keeper, then to whoever may have taken over from it."""
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
    """Lock the fleet, then open it: what was read before the lock may have been changed by who held it."""
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
    """Asked for as long as somebody else has the lock: sleeps a little, or says that it was long enough."""
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
    """The node that can hold a key of rlctl's own now: the primary that owns its slot."""
    specs = {spec.name: spec for spec in all_nodes(fleet.topology)}
    if fleet.topology.kind is Kind.CLUSTER:
        slot = key_slot(key)
        owners = (node for node in observed.up if node.fleet_ok and _owns(node, slot))
        return next((specs[node.name] for node in owners), None)
    primaries = [node for node in observed.up if node.role is Role.PRIMARY]
    return specs[primaries[0].name] if len(primaries) == 1 else None


def primary_unreachable(fleet: FleetSession, observed: Observed, what: str, *, meanwhile: str = "") -> Unreachable:
    """Why no primary tells what it keeps: it was not asked, as nothing proves it, or it does not answer."""
    if unproven := describe_unproven(observed):
        return Unreachable(
            f"no primary that keeps {what} can be asked{meanwhile}: {unproven}", hint=proof_hint(fleet.topology)
        )
    return Unreachable(
        f"the primary that keeps {what} does not answer{meanwhile}", hint="`rlctl status` shows how the fleet stands"
    )


def _owns(node: NodeFacts, slot: int) -> bool:
    return any(first <= slot <= last for first, last in node.slots)
