"""Where a run can take place: a twin in namespaces of its own, a twin beside other people, or the deployed fleet."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlctl.drills.faults import Faults, ReplicationFaults, SandboxFaults
from rlctl.drills.leases import guarded
from rlctl.drills.model import Scenario, Side
from rlctl.drills.order import Order
from rlctl.drills.records import RunFolder
from rlctl.drills.settings import SHORT_PERIODS, bare_twin_of, twin_of
from rlctl.errors import Refused
from rlctl.execute.deploy import DeployOptions, run_deploy
from rlctl.execute.destroy import run_destroy
from rlctl.execute.journal import Journal, current_user
from rlctl.execute.locking import HeldFleet, Waiting, hold, keeper
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.plan.findings import assess
from rlctl.scripts.registry import HISTORY_KEY, remember
from rlctl.state.home import Home
from rlctl.system.process import ProcessRunner
from rlctl.system.sandbox import PacketFilter, raise_loopback
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import sentinel_nodes

DEPLOY_S = 60.0
LOG_BYTES = 100_000
ARGV = ("failover-drill",)
# Each side of a cut has its clients at an address of their own, so that a cut cuts them off too.
ADDRESSES = {
    Side.MAJORITY: "127.79.0.1",
    Side.MINORITY: "127.79.0.2",
    Side.OTHERS: "127.79.0.3",
    Side.STALE: "127.79.0.4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """A fleet that is held for a run, and how it can be cut."""

    held: HeldFleet
    faults: Faults
    addresses: dict[Side, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Everything an arena is made from."""

    folder: RunFolder
    order: Order
    scenario: Scenario
    topology: Topology
    progress: Progress
    stop: StopFlag


@contextmanager
def arena(setting: Setting) -> Iterator[Arena]:
    """The arena that was ordered; what was made for it is gone afterwards."""
    if setting.order.live:
        with guarded(setting.folder, setting.scenario.budget.run_ms), _fleet(setting) as found:
            yield found
    elif setting.order.sandbox:
        raise_loopback()
        with _twin(setting, _spread_twin(setting)) as held, _packets(setting.folder) as faults:
            yield Arena(held=held, faults=faults, addresses=ADDRESSES)
    else:
        with guarded(setting.folder, setting.scenario.budget.run_ms), _twin(setting, _bare_twin(setting)) as held:
            yield Arena(held=held, faults=ReplicationFaults(held.fleet), addresses={})


def _spread_twin(setting: Setting) -> Topology:
    order = setting.order
    return twin_of(setting.topology, order.kind, setting.scenario.settings, stock_timers=order.stock_timers)


def _bare_twin(setting: Setting) -> Topology:
    order = setting.order
    return bare_twin_of(
        setting.topology,
        order.kind,
        setting.scenario.settings,
        base_port=order.base_port,
        stock_timers=order.stock_timers,
    )


@contextmanager
def _packets(folder: RunFolder) -> Iterator[Faults]:
    faults = SandboxFaults(PacketFilter(ProcessRunner()), folder.id.replace("-", "_"))
    try:
        yield faults
    finally:
        faults.close()


@contextmanager
def _twin(setting: Setting, topology: Topology) -> Iterator[HeldFleet]:
    home, progress = Home(setting.folder.twin), setting.progress
    waiting = Waiting(wanted=False)
    try:
        with hold(topology, home, ARGV[0], setting.stop, progress, waiting=waiting) as held:
            options = DeployOptions(argv=ARGV, saved=None, timeout_s=DEPLOY_S)
            run_deploy(held, options, progress, setting.stop, lambda _plan: None)
            if topology.kind is Kind.SENTINEL and not setting.order.stock_timers:
                _hurry(held)
            yield held
    finally:
        with hold(topology, home, ARGV[0], StopFlag(), progress, waiting=waiting, removing=True) as held:
            _keep_logs(held, setting.folder)
            run_destroy(held, ARGV, progress)
        shutil.rmtree(home.root)


@contextmanager
def _fleet(setting: Setting) -> Iterator[Arena]:
    """The deployed fleet, locked, in good health before and brought back to it afterwards."""
    home = Home(setting.folder.root.parent.parent)
    waiting = Waiting(wanted=False)
    with hold(setting.topology, home, ARGV[0], setting.stop, setting.progress, waiting=waiting) as held:
        _check_steady(held)
        faults = ReplicationFaults(held.fleet)
        journal = Journal(home.journal(setting.topology.name), held.fleet.clock)
        journal.begin(ARGV[0], setting.order.argv)
        try:
            yield Arena(held=held, faults=faults, addresses={})
        except BaseException:
            _heal(setting, held, faults)
            journal.end("broken off")
            raise
        _heal(setting, held, faults)
        journal.end("done")
        _remember(setting, held)


def _heal(setting: Setting, held: HeldFleet, faults: Faults) -> None:
    """By a flag of its own: the fleet is healed also when the user has asked to stop."""
    faults.mend()
    options = DeployOptions(argv=(*ARGV, "heal"), saved=None, timeout_s=DEPLOY_S)
    run_deploy(held, options, setting.progress, StopFlag(), lambda _plan: None)


def _remember(setting: Setting, held: HeldFleet) -> None:
    """A drill on the fleet is part of the fleet's own history."""
    spec = keeper(held.fleet, held.fleet.observe(), HISTORY_KEY)
    if spec is None:
        return
    summary = {
        "kind": "drill",
        "run": setting.folder.id,
        "scenario": setting.scenario.label,
        "by": current_user(),
        "at": held.fleet.clock.now().isoformat(timespec="seconds"),
    }
    remember(held.fleet.connector.link(spec), summary)


def _check_steady(held: HeldFleet) -> None:
    """A drill on a fleet that is not well measures that, and makes it worse."""
    observed = held.fleet.observe()
    held.take(observed)
    found = assess(held.fleet.desired(observed), observed)
    if not observed.exists:
        raise Refused("the fleet is not there", hint="deploy it first, or run the drill without --live on a twin")
    if found:
        raise Refused(f"the fleet is not in a steady state: {found[0].text}", hint="`rlctl deploy` repairs it first")


def _hurry(held: HeldFleet) -> None:
    """Sentinels look around more often than they would, so that a drill is short; the report says so."""
    words = [word for pair in SHORT_PERIODS.items() for word in map(str, pair)]
    for spec in sentinel_nodes(held.fleet.topology):
        held.fleet.connector.link(spec).call("SENTINEL", "DEBUG", *words)


def _keep_logs(held: HeldFleet, folder: RunFolder) -> None:
    """What the servers said goes with the run: the twin's folders do not stay."""
    for name in held.fleet.target.placed():
        text = held.fleet.target.log(name)[-LOG_BYTES:]
        if text:
            folder.write_text(f"{name}.log", text)
