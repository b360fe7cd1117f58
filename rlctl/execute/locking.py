"""Holding a fleet for one changing operation: the machine's lock first, then the fleet's own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlctl.errors import LockHeld, Refused, TimedOut, Unreachable
from rlctl.execute.lock import LOCK_KEY, FleetLock, Owner, file_lock
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession, check_openable, open_fleet, open_fleet_for_removal
from rlctl.execute.stop import StopFlag
from rlctl.limits.release import Release
from rlctl.limits.slots import key_slot
from rlctl.observe.model import NodeFacts, Observed, Role
from rlctl.plan.unproven import not_asked, way_out
from rlctl.state.home import Home
from rlctl.system.clock import Clock, SystemClock
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink
from rlctl.targets.base import ProgressListener
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import NodeName, NodeSpec, all_nodes, data_nodes

WAIT_EVERY_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Whether to wait for a held lock, and how long at most."""

    wanted: bool
    at_most_s: float | None = None


class HeldFleet:
    """A fleet and the lock of the operation on it; the half in Redis is taken as soon as a primary answers."""

    def __init__(self, fleet: FleetSession, owner: Owner, wait: Callable[[], bool]) -> None:
        self.fleet = fleet
        self._owner = owner
        self._wait = wait
        self._lock: FleetLock | None = None
        self._keeper: NodeSpec | None = None
        self._ours: frozenset[NodeName] = frozenset()

    def take(self, observed: Observed) -> None:
        """Take the fleet's own lock where a primary can hold it."""
        self._know(observed)
        if self._lock is not None:
            return
        spec = keeper(self.fleet, observed, LOCK_KEY)
        if spec is None:
            return
        self._keeper = spec
        lock = FleetLock(self._open_links, self._owner)
        try:
            lock.acquire(wait=self._wait)
        except (LinkFailure, CommandFailed):
            # A primary that is failing over cannot hold a lock; the machine's lock holds.
            return
        self._lock = lock

    def follow(self, observed: Observed) -> None:
        """Keep the lock where it went: to the primary that has taken over from its keeper."""
        self._keeper = keeper(self.fleet, observed, LOCK_KEY) or self._keeper
        self._know(observed)

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

    def _know(self, observed: Observed) -> None:
        """Only who has proven to be ours is given a password; at a dead node's port there may be anybody."""
        self._ours = frozenset(node.name for node in observed.up)

    def _open_links(self) -> Iterator[NodeLink]:
        """To the keeper, then to whoever may have taken over from it."""
        assert self._keeper is not None
        nodes = data_nodes(self.fleet.topology)
        others = [spec for spec in nodes if spec != self._keeper and spec.name in self._ours]
        for spec in (self._keeper, *others):
            yield self.fleet.connector.separate_link(spec)


@contextmanager
def hold(
    topology: Topology,
    home: Home,
    command: str,
    stop: StopFlag,
    progress: Progress,
    *,
    waiting: Waiting,
    removing: bool = False,
    release: Release | None = None,
) -> Iterator[HeldFleet]:
    """Lock the fleet, then open it: what was read before the lock may have been changed by who held it."""
    if not removing:
        check_openable(topology, home)
    home.open_for_writing()
    owner = Owner.myself(command)
    patience = _patience(SystemClock(), stop, progress, waiting)
    listener = ProgressListener(note=progress.note, check_stop=stop.check)
    opened = (
        open_fleet_for_removal(topology, home, listener) if removing else open_fleet(topology, home, release, listener)
    )
    try:
        with file_lock(home.lock(topology.name), owner, wait=patience), opened as fleet:
            held = HeldFleet(fleet, owner, patience)
            try:
                yield held
            finally:
                held.release()
    except LockHeld as failure:
        if not waiting.wanted:
            raise
        raise TimedOut(f"waited {waiting.at_most_s:g} s: {failure.message}", hint=failure.hint) from failure


def _patience(clock: Clock, stop: StopFlag, progress: Progress, waiting: Waiting) -> Callable[[], bool]:
    """Asked for as long as somebody else has the lock: sleeps a little, or says that it was long enough."""
    started: float | None = None

    def patience() -> bool:
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

    return patience


def keeper(fleet: FleetSession, observed: Observed, key: str) -> NodeSpec | None:
    """The node that can hold a key of rlctl's own now: the primary that owns its slot."""
    specs = {spec.name: spec for spec in all_nodes(fleet.topology)}
    if fleet.topology.kind is Kind.CLUSTER:
        slot = key_slot(key)
        owners = (node for node in observed.up if node.fleet_ok and _owns(node, slot))
        return next((specs[node.name] for node in owners), None)
    primaries = [node for node in observed.up if node.role is Role.PRIMARY]
    return specs[primaries[0].name] if len(primaries) == 1 else None


def no_keeper(fleet: FleetSession, observed: Observed, what: str, *, meanwhile: str = "") -> Unreachable:
    """Why no primary tells what it keeps: it was not asked, as nothing proves it, or it does not answer."""
    if unproven := not_asked(observed):
        return Unreachable(
            f"no primary that keeps {what} can be asked{meanwhile}: {unproven}", hint=way_out(fleet.topology)
        )
    return Unreachable(
        f"the primary that keeps {what} does not answer{meanwhile}", hint="`rlctl status` shows how the fleet stands"
    )


def _owns(node: NodeFacts, slot: int) -> bool:
    return any(first <= slot <= last for first, last in node.slots)
