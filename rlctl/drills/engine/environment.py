"""Where a run can take place: a twin in namespaces of its own, a twin beside other people, or the deployed fleet."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace

from rlctl.drills.engine.run_files import ordered_faults, ordered_fleet
from rlctl.drills.engine.run_request import Order
from rlctl.drills.engine.watchdog_client import guarded
from rlctl.drills.scenario.model import Scenario, Side
from rlctl.errors import Refused
from rlctl.execute.fleet_records import HISTORY_KEY, add_to_history
from rlctl.execute.journal import Journal, current_user
from rlctl.execute.locking import LockedFleet, LockWait, lock_fleet, primary_for_key
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.lab.faults import Faults, SandboxFaults
from rlctl.lab.partition import Source
from rlctl.lab.run_folder import RunFolder
from rlctl.lab.sentinel_timers import hurry
from rlctl.operations.deploy import DeployOptions, run_deploy
from rlctl.operations.destroy import run_destroy
from rlctl.plan.findings import assess
from rlctl.system.process import ProcessRunner
from rlctl.system.sandbox import own_packet_filter, raise_loopback
from rlctl.topology.model import Kind

DEPLOY_S = 60.0
LOG_BYTES = 100_000
ARGV = ("failover-drill",)
# Each side of a cut has its clients at a place of its own, so that a cut cuts them off too: in a network of the
# drill's own an address, elsewhere a range of ports, below those that a system hands out by itself.
OWN_ADDRESSES = {
    side: Source(address=address)
    for side, address in {
        Side.MAJORITY: "127.79.0.1",
        Side.MINORITY: "127.79.0.2",
        Side.OTHERS: "127.79.0.3",
        Side.STALE: "127.79.0.4",
    }.items()
}
OWN_PORTS = {
    Side.MAJORITY: Source(ports=(24_000, 24_999)),
    Side.MINORITY: Source(ports=(25_000, 25_999)),
    Side.OTHERS: Source(ports=(26_000, 26_999)),
    Side.STALE: Source(ports=(27_000, 27_999)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """A fleet that is held for a run, how it can be cut, where clients stand, and who watches while it is broken."""

    held: LockedFleet
    faults: Faults
    sources: dict[Side, Source]
    breaking: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Everything an arena is made from."""

    folder: RunFolder
    order: Order
    scenario: Scenario
    progress: Progress
    stop: StopFlag


@contextmanager
def arena(setting: Setting) -> Iterator[Arena]:
    """The arena that was ordered; what was made for it is gone afterwards."""
    if setting.order.sandbox:
        raise_loopback()
        with _twin(setting) as held, closing(_packets(setting.folder)) as faults:
            yield Arena(held=held, faults=faults, sources=OWN_ADDRESSES)
        return
    with guarded(setting.folder, setting.scenario.budget.run_ms) as guard:
        place = _fleet if setting.order.live else _twin_beside
        with place(setting) as found:
            yield replace(found, breaking=guard.breaking)


def _packets(folder: RunFolder) -> Faults:
    return SandboxFaults(own_packet_filter(ProcessRunner()), folder.table)


@contextmanager
def _twin_beside(setting: Setting) -> Iterator[Arena]:
    with _twin(setting) as held, closing(ordered_faults(held.fleet, setting.folder)) as faults:
        held.fleet.target.suspend_restarts(setting.scenario.budget.run_ms / 1000)
        yield Arena(held=held, faults=faults, sources=OWN_PORTS)


@contextmanager
def _twin(setting: Setting) -> Iterator[LockedFleet]:
    topology, home = ordered_fleet(setting.folder, setting.order)
    progress, waiting = setting.progress, LockWait(wanted=False)
    try:
        with lock_fleet(topology, home, ARGV[0], setting.stop, progress, waiting=waiting) as held:
            options = DeployOptions(argv=ARGV, saved=None, timeout_s=DEPLOY_S)
            run_deploy(held, options, progress, setting.stop, lambda _plan: None)
            if topology.kind is Kind.SENTINEL and not setting.order.stock_timers:
                hurry(held.fleet)
            yield held
    finally:
        with lock_fleet(topology, home, ARGV[0], StopFlag(), progress, waiting=waiting, removing=True) as held:
            _keep_logs(held, setting.folder)
            run_destroy(held, ARGV, progress)
        shutil.rmtree(home.root)


@contextmanager
def _fleet(setting: Setting) -> Iterator[Arena]:
    """The deployed fleet, locked, in good health before and brought back to it afterwards."""
    topology, home = ordered_fleet(setting.folder, setting.order)
    waiting = LockWait(wanted=False)
    with lock_fleet(topology, home, ARGV[0], setting.stop, setting.progress, waiting=waiting) as held:
        _check_steady(held)
        journal = Journal(home.journal(topology.name), held.fleet.clock)
        journal.begin(ARGV[0], setting.order.argv)
        with closing(ordered_faults(held.fleet, setting.folder)) as faults:
            try:
                held.fleet.target.suspend_restarts(setting.scenario.budget.run_ms / 1000)
                yield Arena(held=held, faults=faults, sources=OWN_PORTS)
            except BaseException:
                _heal(setting, held, faults)
                journal.end("broken off")
                raise
            _heal(setting, held, faults)
        journal.end("done")
        _remember(setting, held)


def _heal(setting: Setting, held: LockedFleet, faults: Faults) -> None:
    """By a flag of its own: the fleet is healed also when the user has asked to stop."""
    faults.mend()
    held.fleet.target.suspend_restarts(0)
    options = DeployOptions(argv=(*ARGV, "heal"), saved=None, timeout_s=DEPLOY_S)
    run_deploy(held, options, setting.progress, StopFlag(), lambda _plan: None)


def _remember(setting: Setting, held: LockedFleet) -> None:
    """A drill on the fleet is part of the fleet's own history."""
    spec = primary_for_key(held.fleet, held.fleet.observe(), HISTORY_KEY)
    if spec is None:
        return
    summary = {
        "kind": "drill",
        "run": setting.folder.id,
        "scenario": setting.scenario.label,
        "by": current_user(),
        "at": held.fleet.clock.now().isoformat(timespec="seconds"),
    }
    add_to_history(held.fleet.connector.link(spec), summary)


def _check_steady(held: LockedFleet) -> None:
    """A drill on a fleet that is not well measures that, and makes it worse."""
    # A live drill ends with a deploy.
    held.fleet.check_deployable()
    observed = held.fleet.observe()
    held.take_key(observed)
    found = assess(held.fleet.desired(observed), observed)
    if not observed.exists:
        raise Refused("the fleet is not there", hint="deploy it first, or run the drill without --live on a twin")
    if found:
        raise Refused(f"the fleet is not in a steady state: {found[0].text}", hint="`rlctl deploy` repairs it first")


def _keep_logs(held: LockedFleet, folder: RunFolder) -> None:
    """What the servers said goes with the run: the twin's folders do not stay."""
    for name in held.fleet.target.placed():
        text = held.fleet.target.log(name)[-LOG_BYTES:]
        if text:
            folder.write_text(f"{name}.log", text)
