"""Reads what a run was told back from its folder: the order, the scenario, the topology."""

from rlctl.drills.model import Scenario
from rlctl.drills.order import Order
from rlctl.drills.records import RunFolder
from rlctl.drills.scenario import read_scenario
from rlctl.errors import NotFound
from rlctl.topology.load import load_topology
from rlctl.topology.model import Topology


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
    path = folder.root / "scenario.yaml"
    return read_scenario(path.read_bytes(), str(path)).one(order.kind, order.variant)


def ordered_topology(folder: RunFolder) -> Topology:
    """The topology that the twin is like, or that the run is on."""
    path = folder.root / "topology.yaml"
    return load_topology(path.read_bytes(), str(path))
