"""Reads a run's request, scenario and fleet back from its folder."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from rlctl.drills.engine.run_request import RunRequest
from rlctl.drills.scenario.library import ORDER, shipped
from rlctl.drills.scenario.load import read_scenario
from rlctl.drills.scenario.model import Scenario
from rlctl.errors import NotFound
from rlctl.execute.session import FleetSession
from rlctl.lab.packet_filter import open_partitioner
from rlctl.lab.partitioner import Partitioner
from rlctl.lab.run_folder import REQUEST, RunFolder
from rlctl.lab.twin import twin_beside_fleet, twin_of, twin_on_free_ports
from rlctl.state.home import Home
from rlctl.topology.load import load_topology
from rlctl.topology.model import TargetName, Topology

# A timer removes packet rules this long after the end of the budget, even if the run and its watchdog were killed.
LEASE_GRACE_S = 30.0


def read_run_request(folder: RunFolder) -> RunRequest:
    """Read a run's request. Raises NotFound if the folder has none."""
    document = folder.read(REQUEST)
    if document is None:
        raise NotFound(
            f"there is no run {folder.id}", hint="`rlctl failover-drill list` lists the runs of this machine"
        )
    return RunRequest.from_json(document)


def requested_scenario(folder: RunFolder, request: RunRequest) -> Scenario:
    """The scenario as it was when the run was requested."""
    path = _scenario_file(folder)
    return read_scenario(path.read_bytes(), str(path)).one(request.kind, request.variant)


def rerun(folder: RunFolder, request: RunRequest) -> str:
    """The command that repeats the run. For a user's scenario file, it uses the copy in the run's folder."""
    path = _scenario_file(folder)
    is_shipped = request.scenario in ORDER and shipped(request.scenario).text == path.read_bytes()
    words = [
        "rlctl",
        "failover-drill",
        "run",
        request.scenario if is_shipped else str(path),
        "--kind",
        request.kind.value,
    ]
    words += ["--variant", request.variant] if request.variant else []
    words += ["--stock-timers"] if request.stock_timers else []
    words += ["--live"] if request.live else []
    return shlex.join(words)


def requested_topology(folder: RunFolder) -> Topology:
    """The topology of the live fleet, from which rlctl derives the twin."""
    path = folder.root / "topology.yaml"
    return load_topology(path.read_bytes(), str(path))


def requested_fleet(folder: RunFolder, request: RunRequest) -> tuple[Topology, Home]:
    """The topology and the state folder of the fleet that the run breaks: the live fleet or its twin."""
    topology = requested_topology(folder)
    beside = Path(request.beside) if request.beside else None
    if request.live:
        return topology, Home(folder.root.parent.parent, beside)
    return _twin(topology, request, requested_scenario(folder, request).settings), Home(folder.twin, beside)


def requested_partitioner(fleet: FleetSession, folder: RunFolder) -> Partitioner:
    """Partitioner for a fleet that does not run in the run's own namespaces."""
    budget = requested_scenario(folder, read_run_request(folder)).budget
    return open_partitioner(fleet, folder.table, budget.run_ms / 1000 + LEASE_GRACE_S)


def _twin(topology: Topology, request: RunRequest, settings: Mapping[str, str]) -> Topology:
    kind, stock_timers = request.kind, request.stock_timers
    if request.sandbox:
        return twin_of(topology, kind, settings, stock_timers=stock_timers)
    if topology.target is TargetName.LOCAL:
        return twin_on_free_ports(topology, kind, settings, base_port=request.base_port, stock_timers=stock_timers)
    return twin_beside_fleet(
        topology, kind, settings, name=request.twin, base_port=request.base_port, stock_timers=stock_timers
    )


def _scenario_file(folder: RunFolder) -> Path:
    return folder.root / "scenario.yaml"
