"""The environments of a drill: a twin in its own namespaces, a twin without namespaces, or the deployed fleet."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace

from rlctl.drills.engine.recover import repair
from rlctl.drills.engine.run_files import requested_fleet, requested_partitioner
from rlctl.drills.engine.run_request import RunRequest
from rlctl.drills.engine.watchdog_client import watchdog_for
from rlctl.drills.scenario.model import Scenario, Side
from rlctl.errors import Refused
from rlctl.execute.fleet_records import HISTORY_KEY, add_to_history
from rlctl.execute.journal import Journal, current_user
from rlctl.execute.locking import LockedFleet, LockWait, lock_fleet, primary_for_key
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.lab.cleanup import remove_fleet, remove_twin_folder
from rlctl.lab.packet_filter import open_sandbox_partitioner
from rlctl.lab.partition import ClientSource
from rlctl.lab.partitioner import Partitioner
from rlctl.lab.run_folder import RunFolder
from rlctl.lab.twin_fleet import deploy_twin
from rlctl.plan.findings import assess
from rlctl.system.sandbox import raise_loopback

LOG_BYTES = 100_000
ARGV = ("failover-drill",)
# Packet rules must cut off the clients of a side together with the nodes of this side. In a namespace, the rules match
# the clients by address; elsewhere, by a range of ports below the ephemeral ports.
OWN_ADDRESSES = {
    side: ClientSource(address=address)
    for side, address in {
        Side.MAJORITY: "127.79.0.1",
        Side.MINORITY: "127.79.0.2",
        Side.OTHERS: "127.79.0.3",
        Side.STALE: "127.79.0.4",
    }.items()
}
OWN_PORTS = {
    Side.MAJORITY: ClientSource(ports=(24_000, 24_999)),
    Side.MINORITY: ClientSource(ports=(25_000, 25_999)),
    Side.OTHERS: ClientSource(ports=(26_000, 26_999)),
    Side.STALE: ClientSource(ports=(27_000, 27_999)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A locked fleet, its partitioner and its clients' addresses.

    `breaking` is the context in which the run injects faults. The watchdog allows less time inside this context.
    """

    held: LockedFleet
    partitioner: Partitioner
    sources: dict[Side, ClientSource]
    breaking: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    def far_clients(self) -> tuple[ClientSource, ...]:
        """The clients on the majority's side of a cut."""
        return tuple(source for side, source in self.sources.items() if side is not Side.MINORITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """The arguments of `open_environment`."""

    folder: RunFolder
    request: RunRequest
    scenario: Scenario
    progress: Progress
    stop: StopFlag


@contextmanager
def open_environment(setup: RunSetup) -> Iterator[Environment]:
    """Open the requested environment. On exit, remove the twin or repair the live fleet."""
    if setup.request.sandbox:
        raise_loopback()
        with _twin(setup) as held, closing(open_sandbox_partitioner(setup.folder.table)) as partitioner:
            yield Environment(held=held, partitioner=partitioner, sources=OWN_ADDRESSES)
        return
    with watchdog_for(setup.folder, setup.scenario.budget.run_ms) as watchdog:
        open_fleet_of = _fleet if setup.request.live else _twin_beside
        with open_fleet_of(setup) as environment:
            yield replace(environment, breaking=watchdog.breaking)


@contextmanager
def _twin_beside(setup: RunSetup) -> Iterator[Environment]:
    with _twin(setup) as held, closing(requested_partitioner(held.fleet, setup.folder)) as partitioner:
        held.fleet.target.suspend_restarts(setup.scenario.budget.run_ms / 1000)
        yield Environment(held=held, partitioner=partitioner, sources=OWN_PORTS)


@contextmanager
def _twin(setup: RunSetup) -> Iterator[LockedFleet]:
    topology, home = requested_fleet(setup.folder, setup.request)
    progress, waiting = setup.progress, LockWait(wanted=False)
    try:
        with lock_fleet(topology, home, ARGV[0], setup.stop, progress, waiting=waiting) as held:
            deploy_twin(held, ARGV, progress, setup.stop, stock_timers=setup.request.stock_timers)
            yield held
    finally:
        remove_fleet(topology, home, progress, before=lambda held: _keep_logs(held, setup.folder))
        remove_twin_folder(setup.folder)


@contextmanager
def _fleet(setup: RunSetup) -> Iterator[Environment]:
    """Lock the deployed fleet, and repair it on exit. Raises Refused if the fleet has findings."""
    topology, home = requested_fleet(setup.folder, setup.request)
    waiting = LockWait(wanted=False)
    with lock_fleet(topology, home, ARGV[0], setup.stop, setup.progress, waiting=waiting) as held:
        _check_steady(held)
        journal = Journal(home.journal(topology.name), held.fleet.clock)
        journal.begin(ARGV[0], setup.request.argv)
        with closing(requested_partitioner(held.fleet, setup.folder)) as partitioner:
            try:
                held.fleet.target.suspend_restarts(setup.scenario.budget.run_ms / 1000)
                yield Environment(held=held, partitioner=partitioner, sources=OWN_PORTS)
            except BaseException:
                _heal(setup, held, partitioner)
                journal.end("aborted")
                raise
            _heal(setup, held, partitioner)
        journal.end("done")
        _add_to_history(setup, held)


def _heal(setup: RunSetup, held: LockedFleet, partitioner: Partitioner) -> None:
    """Heal and repair the fleet, even after the user has stopped the run."""
    partitioner.heal()
    held.fleet.target.suspend_restarts(0)
    repair(held, setup.progress, StopFlag())


def _add_to_history(setup: RunSetup, held: LockedFleet) -> None:
    """Add the drill to the history in the fleet. Does nothing if the history's shard has no primary."""
    spec = primary_for_key(held.fleet, held.fleet.observe(), HISTORY_KEY)
    if spec is None:
        return
    summary = {
        "kind": "drill",
        "run": setup.folder.id,
        "scenario": setup.scenario.label,
        "by": current_user(),
        "at": held.fleet.clock.now().isoformat(timespec="seconds"),
    }
    add_to_history(held.fleet.connector.link(spec), summary)


def _check_steady(held: LockedFleet) -> None:
    """Raise Refused for a fleet with findings, because a drill would measure the findings and make them worse."""
    # A live drill ends with a deploy, so a deploy must be possible.
    held.fleet.check_deployable()
    observed = held.fleet.observe()
    held.take_key(observed)
    environment = assess(held.fleet.desired(observed), observed)
    if not observed.exists:
        raise Refused("the fleet does not exist", hint="deploy it first, or run the drill without --live on a twin")
    if environment:
        raise Refused(
            f"the fleet is not in a steady state: {environment[0].text}", hint="repair it first with `rlctl deploy`"
        )


def _keep_logs(held: LockedFleet, folder: RunFolder) -> None:
    """Copy the servers' logs to the run's folder before the twin's folders are removed."""
    for name in held.fleet.target.placed():
        text = held.fleet.target.log(name)[-LOG_BYTES:]
        if text:
            folder.write_text(f"{name}.log", text)
