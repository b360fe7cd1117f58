"""Deploys a throw-away fleet, with timers short enough for a drill."""

from rlctl.execute.locking import LockedFleet
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession
from rlctl.execute.stop import StopFlag
from rlctl.lab.twin import SHORT_PERIODS
from rlctl.operations.deploy import DeployOptions, run_deploy
from rlctl.topology.nodes import sentinel_nodes

DEPLOY_S = 60.0


def deploy_twin(
    held: LockedFleet, argv: tuple[str, ...], progress: Progress, stop: StopFlag, *, stock_timers: bool
) -> None:
    """Deploy the fleet, and shorten the periods of its sentinels unless `stock_timers` is set."""
    options = DeployOptions(argv=argv, saved=None, timeout_s=DEPLOY_S)
    run_deploy(held, options, progress, stop, lambda _plan: None)
    if not stock_timers:
        shorten_sentinel_timers(held.fleet)


def shorten_sentinel_timers(fleet: FleetSession) -> None:
    """Shorten the periods of all sentinels. A sentinel that restarts uses its usual periods again."""
    words = [word for pair in SHORT_PERIODS.items() for word in map(str, pair)]
    for spec in sentinel_nodes(fleet.topology):
        fleet.connector.link(spec).call("SENTINEL", "DEBUG", *words)
