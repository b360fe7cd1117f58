"""Variables that every page may use, filled in from the topology. Pure."""

from pathlib import PurePath

from rlctl.files.units import format_duration
from rlctl.runbooks.page.blocks import ELECTION, FLEET, FOLDER
from rlctl.topology.model import Kind, Topology

LEAST_MS = 10_000
# A cluster marks a primary as failed after at most two node timeouts, and repeats a lost vote after four more.
NODE_TIMEOUTS = 6
# Sentinel repeats a failed failover after twice its failover-timeout.
FAILOVER_TIMEOUTS = 2


def fixed_variables(topology: Topology, folder: PurePath) -> dict[str, str]:
    """The fleet's name, the folder of its topology file, and how long an election may take in the fleet."""
    return {
        FLEET: topology.name,
        FOLDER: str(folder),
        ELECTION: format_duration(max(LEAST_MS, _election_ms(topology))),
    }


def _election_ms(topology: Topology) -> int:
    """Time within which a second election ends if the first one fails."""
    if topology.kind is Kind.CLUSTER:
        return NODE_TIMEOUTS * topology.cluster.node_timeout_ms
    return topology.sentinel.down_after_ms + FAILOVER_TIMEOUTS * topology.sentinel.failover_timeout_ms
