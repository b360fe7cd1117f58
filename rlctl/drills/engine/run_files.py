"""Reads what a run was told back from its folder: the order, the scenario, the fleet."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from rlctl.drills.engine.run_request import Order
from rlctl.drills.scenario.library import ORDER, shipped
from rlctl.drills.scenario.load import read_scenario
from rlctl.drills.scenario.model import Scenario
from rlctl.errors import NotFound
from rlctl.execute.session import FleetSession
from rlctl.lab.faults import Faults
from rlctl.lab.packet_filter import open_faults
from rlctl.lab.run_folder import RunFolder
from rlctl.lab.twin import bare_twin_of, placed_twin_of, twin_of
from rlctl.state.home import Home
from rlctl.topology.load import load_topology
from rlctl.topology.model import TargetName, Topology

# A run that is over its budget is ended by its watchdog; what is cut heals even when that is gone as well.
LEASE_GRACE_S = 30.0


def read_order(folder: RunFolder) -> Order:
    """What the run was told; NotFound where the folder is none of a run."""
    document = folder.read("order.json")
    if document is None:
        raise NotFound(
            f"there is no run {folder.id}", hint="`rlctl failover-drill list` names the runs of this machine"
        )
    return Order.from_json(document)


def ordered_scenario(folder: RunFolder, order: Order) -> Scenario:
    """The scenario as it was when the run was ordered."""
    path = _scenario_file(folder)
    return read_scenario(path.read_bytes(), str(path)).one(order.kind, order.variant)


def rerun(folder: RunFolder, order: Order) -> str:
    """The command that makes the same run again; a scenario that did not come with rlctl is in the folder."""
    path = _scenario_file(folder)
    is_shipped = order.scenario in ORDER and shipped(order.scenario).text == path.read_bytes()
    words = ["rlctl", "failover-drill", "run", order.scenario if is_shipped else str(path), "--kind", order.kind.value]
    words += ["--variant", order.variant] if order.variant else []
    words += ["--stock-timers"] if order.stock_timers else []
    words += ["--live"] if order.live else []
    return shlex.join(words)


def ordered_topology(folder: RunFolder) -> Topology:
    """The topology that the twin is like, or that the run is on."""
    path = folder.root / "topology.yaml"
    return load_topology(path.read_bytes(), str(path))


def ordered_fleet(folder: RunFolder, order: Order) -> tuple[Topology, Home]:
    """The fleet that the run is on, and where its state is kept: the deployed one, or the twin that was made for it."""
    topology = ordered_topology(folder)
    beside = Path(order.beside) if order.beside else None
    if order.live:
        return topology, Home(folder.root.parent.parent, beside)
    return _twin(topology, order, ordered_scenario(folder, order).settings), Home(folder.twin, beside)


def ordered_faults(fleet: FleetSession, folder: RunFolder) -> Faults:
    """What the run may cut of a fleet that has no namespace of its own."""
    budget = ordered_scenario(folder, read_order(folder)).budget
    return open_faults(fleet, folder.table, budget.run_ms / 1000 + LEASE_GRACE_S)


def _twin(topology: Topology, order: Order, settings: Mapping[str, str]) -> Topology:
    kind, stock_timers = order.kind, order.stock_timers
    if order.sandbox:
        return twin_of(topology, kind, settings, stock_timers=stock_timers)
    if topology.target is TargetName.LOCAL:
        return bare_twin_of(topology, kind, settings, base_port=order.base_port, stock_timers=stock_timers)
    return placed_twin_of(
        topology, kind, settings, name=order.twin, base_port=order.base_port, stock_timers=stock_timers
    )


def _scenario_file(folder: RunFolder) -> Path:
    return folder.root / "scenario.yaml"
