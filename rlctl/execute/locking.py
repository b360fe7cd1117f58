"""Holding a fleet for one changing operation: the machine's lock first, then the fleet's own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redis.crc import key_slot

from rlctl.errors import Refused
from rlctl.execute.fleet import Fleet
from rlctl.execute.lock import LOCK_KEY, FleetLock, Owner, file_lock
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.observe.model import NodeFacts, Observed, Role
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeSpec, all_nodes

WAIT_EVERY_S = 0.2


class HeldFleet:
    """The lock of a running operation; the half in Redis is taken as soon as a primary answers."""

    def __init__(self, fleet: Fleet, owner: Owner, wait: Callable[[], bool]) -> None:
        self._fleet = fleet
        self._owner = owner
        self._wait = wait
        self._lock: FleetLock | None = None

    def take(self, observed: Observed) -> None:
        """Take the fleet's own lock where a primary can hold it."""
        if self._lock is not None:
            return
        spec = lock_keeper(self._fleet, observed)
        if spec is None:
            return
        lock = FleetLock(lambda: self._fleet.connector.separate_link(spec), self._owner)
        try:
            lock.acquire(wait=self._wait)
        except (LinkFailure, CommandFailed):
            # A primary that is failing over cannot hold a lock; the machine's lock holds.
            return
        self._lock = lock

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


@contextmanager
def hold(fleet: Fleet, command: str, stop: StopFlag, progress: Progress, *, wait: bool) -> Iterator[HeldFleet]:
    """Hold the fleet; LockHeld names who has it."""
    fleet.home.open_for_writing()
    owner = Owner.myself(command)
    told = False

    def patience() -> bool:
        nonlocal told
        stop.check()
        if wait and not told:
            progress.note("waiting for the fleet's lock")
            told = True
        if wait:
            fleet.clock.sleep(WAIT_EVERY_S)
        return wait

    with file_lock(fleet.home.lock(fleet.topology.name), owner, wait=patience):
        held = HeldFleet(fleet, owner, patience)
        try:
            yield held
        finally:
            held.release()


def lock_keeper(fleet: Fleet, observed: Observed) -> NodeSpec | None:
    """The node that can hold the lock key now: the primary that owns its slot."""
    specs = {spec.name: spec for spec in all_nodes(fleet.topology)}
    if fleet.topology.kind is Kind.CLUSTER:
        slot = key_slot(LOCK_KEY.encode())
        owners = (node for node in observed.up if node.fleet_ok and _owns(node, slot))
        return next((specs[node.name] for node in owners), None)
    primaries = [node for node in observed.up if node.role is Role.PRIMARY]
    return specs[primaries[0].name] if len(primaries) == 1 else None


def read_owner(fleet: Fleet, observed: Observed) -> tuple[NodeLink, str] | None:
    """The fleet's lock as it stands: a connection to its keeper and the stored text."""
    spec = lock_keeper(fleet, observed)
    if spec is None:
        return None
    link = fleet.connector.link(spec)
    text = link.call("GET", LOCK_KEY)
    return (link, str(text)) if text else None


def _owns(node: NodeFacts, slot: int) -> bool:
    return any(first <= slot <= last for first, last in node.slots)
