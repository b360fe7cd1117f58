"""The process that carries a run out: on a twin in namespaces of its own, on a twin beside others, or on the fleet.

It is told by its folder what to do, and by its standard input, whose end means that rlctl has gone.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rlctl.drills.cast import cast
from rlctl.drills.faults import Faults, SandboxFaults
from rlctl.drills.model import Scenario, Side
from rlctl.drills.order import Order
from rlctl.drills.records import RunFolder, RunJournal
from rlctl.drills.runner import Run
from rlctl.drills.scenario import read_scenario
from rlctl.drills.settings import SHORT_PERIODS, twin_of
from rlctl.drills.stage import Processes, Stage
from rlctl.errors import Exit, RlctlError, Unreachable
from rlctl.execute.deploy import DeployOptions, run_deploy
from rlctl.execute.destroy import run_destroy
from rlctl.execute.locking import HeldFleet, Waiting, hold
from rlctl.execute.stop import StopFlag
from rlctl.state.home import Home
from rlctl.system.clock import SystemClock
from rlctl.system.files import read_damaged
from rlctl.system.process import ProcessRunner
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.system.sandbox import PacketFilter, raise_loopback
from rlctl.topology.load import load_topology
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


class Teller:
    """Tells rlctl, line by line, what goes on; rlctl shows it to the user."""

    def note(self, text: str) -> None:
        """Something worth a line."""
        # rlctl may have gone; then nobody listens, and the run heals and ends.
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.write(json.dumps({"note": text}) + "\n")
            sys.stdout.flush()

    def step(self, number: int, of: int, text: str, outcome: str) -> None:
        """A step's outcome; a twin's steps are nobody's business."""


class HeirStop(StopFlag):
    """Stops when asked by a signal, and when rlctl has gone."""

    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)


def carry_out(folder: RunFolder, order: Order, teller: Teller, stop: StopFlag) -> None:
    """The run that is ordered, from building the twin to removing it."""
    clock = SystemClock()
    journal = RunJournal(folder, clock)
    scenario = _scenario(folder, order)
    topology = _topology(folder)
    twin = twin_of(topology, order.kind, scenario.settings, stock_timers=order.stock_timers)
    journal.write("ordered", scenario=scenario.name)
    raise_loopback()
    with _twin(twin, folder, order, teller, stop) as held, _faults(folder) as faults:
        journal.write("deployed")
        _play(held, faults, scenario, folder, journal, teller, stop)
    journal.write("ended")


def _play(
    held: HeldFleet,
    faults: Faults,
    scenario: Scenario,
    folder: RunFolder,
    journal: RunJournal,
    teller: Teller,
    stop: StopFlag,
) -> None:
    fleet = held.fleet
    parts = cast(fleet.topology, fleet.observe())
    processes = Processes(held)
    processes.look_up(parts.everybody)
    stage = Stage(
        held=held,
        faults=faults,
        cast=parts,
        processes=processes,
        stop=stop,
        progress=teller,
        is_twin=True,
        addresses=ADDRESSES,
    )
    Run(stage=stage, scenario=scenario, folder=folder, journal=journal).carry_out()


@contextmanager
def _twin(topology: Topology, folder: RunFolder, order: Order, teller: Teller, stop: StopFlag) -> Iterator[HeldFleet]:
    home = Home(folder.twin)
    waiting = Waiting(wanted=False)
    try:
        with hold(topology, home, "failover-drill", stop, teller, waiting=waiting) as held:
            run_deploy(held, DeployOptions(argv=ARGV, saved=None, timeout_s=DEPLOY_S), teller, stop, lambda _plan: None)
            if topology.kind is Kind.SENTINEL and not order.stock_timers:
                _hurry(held)
            yield held
    finally:
        with hold(topology, home, "failover-drill", StopFlag(), teller, waiting=waiting, removing=True) as held:
            _keep_logs(held, folder)
            run_destroy(held, ARGV, teller)
        shutil.rmtree(home.root)


def _keep_logs(held: HeldFleet, folder: RunFolder) -> None:
    """What the servers said goes with the run: the twin's folders do not stay."""
    for name in held.fleet.target.placed():
        node = held.fleet.folder.node(name)
        text = "".join(read_damaged(node / log) for log in ("redis.log.1", "redis.log"))[-LOG_BYTES:]
        if text:
            folder.write_text(f"{name}.log", text)


def _hurry(held: HeldFleet) -> None:
    """Sentinels look around more often than they would, so that a drill is short; the report says so."""
    words = [word for pair in SHORT_PERIODS.items() for word in map(str, pair)]
    for spec in sentinel_nodes(held.fleet.topology):
        held.fleet.connector.link(spec).call("SENTINEL", "DEBUG", *words)


@contextmanager
def _faults(folder: RunFolder) -> Iterator[Faults]:
    faults = SandboxFaults(PacketFilter(ProcessRunner()), folder.id.replace("-", "_"))
    try:
        yield faults
    finally:
        faults.close()


def _scenario(folder: RunFolder, order: Order) -> Scenario:
    path = folder.root / "scenario.yaml"
    return read_scenario(path.read_bytes(), str(path)).one(order.kind, order.variant)


def _topology(folder: RunFolder) -> Topology:
    path = folder.root / "topology.yaml"
    return load_topology(path.read_bytes(), str(path))


def main() -> int:
    """Carry out the run in the folder that is named."""
    # Ledgers and histories are nobody else's business.
    os.umask(0o077)
    folder = RunFolder(Path(sys.argv[1]))
    teller = Teller()
    stop = HeirStop()
    document = folder.read("order.json")
    assert document is not None, "the order is written before its process is started"
    try:
        with stop.armed():
            carry_out(folder, Order.from_json(document), teller, stop)
    except (LinkFailure, CommandFailed) as failure:
        return _failed(
            folder, Unreachable(f"a node did not do as told: {failure}", hint="its log is in the run's folder")
        )
    except RlctlError as failure:
        return _failed(folder, failure)
    return Exit.OK


def _failed(folder: RunFolder, failure: RlctlError) -> int:
    journal = RunJournal(folder, SystemClock())
    journal.write("failed", code=failure.code, message=failure.message, hint=failure.hint)
    return failure.exit_code


if __name__ == "__main__":
    sys.exit(main())
