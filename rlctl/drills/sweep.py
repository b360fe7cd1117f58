"""Undoes what a run left that was killed: on the fleet by its journal, of a twin by removing it."""

import shutil
import signal
from contextlib import AbstractContextManager

from rlctl.drills.estate import Estate
from rlctl.drills.faults import ReplicationFaults
from rlctl.drills.ledger import Keys
from rlctl.drills.order import Order
from rlctl.drills.ordered import ordered_scenario, ordered_topology
from rlctl.drills.records import RunFolder, RunJournal, journal_lines
from rlctl.drills.settings import bare_twin_of
from rlctl.execute.deploy import DeployOptions, run_deploy
from rlctl.execute.destroy import run_destroy
from rlctl.execute.locking import HeldFleet, Waiting, hold
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.plan.steps import describe
from rlctl.state.home import Home
from rlctl.system.clock import SystemClock
from rlctl.system.process import ProcessId
from rlctl.topology.model import Topology

WAIT_S = 60.0
HEAL_S = 120.0
ARGV = ("failover-drill", "heal")


def sweep(folder: RunFolder, progress: Progress) -> tuple[str, ...]:
    """What was undone; right at any time, and twice."""
    document = folder.read("order.json")
    if document is None or folder.is_owned():
        return ()
    order = Order.from_json(document)
    resumed = _resume(folder)
    done = [f"resumed {process.pid}" for process in resumed]
    if order.live and not _is_over(folder):
        done += _heal_fleet(folder, ordered_topology(folder), progress)
    elif folder.twin.exists():
        if not order.sandbox:
            _remove_twin(folder, order, progress)
        shutil.rmtree(folder.twin, ignore_errors=True)
        done.append("removed the twin")
    if done:
        RunJournal(folder, SystemClock()).write("swept", done=done)
    return tuple(done)


def _is_over(folder: RunFolder) -> bool:
    """Whether the run itself had cleaned up and healed, or somebody swept it since."""
    events = {line["event"] for line in journal_lines(folder)}
    return "swept" in events or "ended" in events


def _resume(folder: RunFolder) -> list[ProcessId]:
    """Processes that the run had stopped and did not let go on."""
    stopped: dict[int, ProcessId] = {}
    for line in journal_lines(folder):
        if line["event"] == "stopping_processes":
            stopped |= {one["pid"]: ProcessId(**one) for one in line["processes"]}
    waiting = [process for process in stopped.values() if process.is_stopped()]
    for process in waiting:
        process.send(signal.SIGCONT)
    return waiting


def _heal_fleet(folder: RunFolder, topology: Topology, progress: Progress) -> list[str]:
    home = Home(folder.root.parent.parent)
    with _held(topology, home, progress) as held:
        if not held.fleet.observe().exists:
            # Destroyed since the drill was killed: a deploy would make it anew.
            return ["nothing: the fleet is gone"]
        ReplicationFaults(held.fleet).mend()
        done = _forget(held, folder)
        options = DeployOptions(argv=ARGV, saved=None, timeout_s=HEAL_S)
        report = run_deploy(held, options, progress, StopFlag(), lambda _plan: None)
        # Where the primary was dead, its shard's keys came to light only with the one that took its place.
        done += _forget(held, folder)
        return [*done, "mended all cuts", *(describe(result.step) for result in report.results)]


def _forget(held: HeldFleet, folder: RunFolder) -> list[str]:
    """The run's user and keys; a run that never began has none."""
    begin = next((line for line in journal_lines(folder) if line["event"] == "begin"), None)
    if begin is None:
        return []
    keys = {client: Keys(run=folder.id, tag=tag) for client, tag in begin["tags"].items()}
    estate = Estate.plan(held.fleet, keys)
    found = [f"removed {what}" for what in estate.residue()]
    estate.take_down()
    return found


def _remove_twin(folder: RunFolder, order: Order, progress: Progress) -> None:
    scenario = ordered_scenario(folder, order)
    twin = bare_twin_of(
        ordered_topology(folder),
        order.kind,
        scenario.settings,
        base_port=order.base_port,
        stock_timers=order.stock_timers,
    )
    waiting = Waiting(wanted=True, at_most_s=WAIT_S)
    with hold(twin, Home(folder.twin), ARGV[0], StopFlag(), progress, waiting=waiting, removing=True) as held:
        run_destroy(held, ARGV, progress)


def _held(topology: Topology, home: Home, progress: Progress) -> AbstractContextManager[HeldFleet]:
    waiting = Waiting(wanted=True, at_most_s=WAIT_S)
    return hold(topology, home, ARGV[0], StopFlag(), progress, waiting=waiting)
