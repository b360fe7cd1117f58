"""Makes the sentinels of a throw-away fleet look around more often than they would."""

from rlctl.execute.session import FleetSession
from rlctl.lab.twin import SHORT_PERIODS
from rlctl.topology.nodes import sentinel_nodes


def shorten_sentinel_timers(fleet: FleetSession) -> None:
    """A drill is short then; its report says so. A sentinel that is started anew has its own periods again."""
    words = [word for pair in SHORT_PERIODS.items() for word in map(str, pair)]
    for spec in sentinel_nodes(fleet.topology):
        fleet.connector.link(spec).call("SENTINEL", "DEBUG", *words)
