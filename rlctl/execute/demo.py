"""The demo: the main job in one go, on a fleet that is thrown away."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from redis.cluster import RedisCluster

from rlctl.execute.connection import As, connection
from rlctl.execute.deploy import DeployOptions, DeployReport, run_deploy
from rlctl.execute.destroy import run_destroy
from rlctl.execute.fleet import Fleet, open_fleet
from rlctl.execute.locking import Waiting, hold
from rlctl.execute.progress import Progress
from rlctl.execute.status import FleetStatus, read_status
from rlctl.execute.stop import StopFlag
from rlctl.state.home import Home
from rlctl.system.ports import free_base_port
from rlctl.topology.model import MIB, Kind, LocalPlace, Memory, TargetName, Topology

NAME = "demo"
NODES = 6
ARGV = ("demo",)
USERS = ("ada", "bob", "eve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """One key that the demo counted up, and the slot that held it."""

    key: str
    value: int
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """What the demo saw."""

    deployed: DeployReport
    status: FleetStatus
    counters: tuple[Counter, ...]

    def to_json(self) -> dict[str, object]:
        """As `demo -o json` shows it."""
        return {
            "schema": "rlctl.demo/1",
            "deploy": self.deployed.to_json(),
            "status": self.status.to_json(),
            "counters": [{"key": one.key, "value": one.value, "slot": one.slot} for one in self.counters],
        }


def run_demo(progress: Progress, stop: StopFlag, timeout_s: float) -> DemoReport:
    """Deploy, look, count, remove; the fleet is removed whatever happens in between."""
    topology = Topology(
        name=NAME,
        kind=Kind.CLUSTER,
        target=TargetName.LOCAL,
        memory=Memory(maxmemory_bytes=64 * MIB),
        local=LocalPlace(base_port=free_base_port(NODES)),
    )
    with _throw_away(topology, progress) as home:
        progress.note(f"deploying 3 primaries and 3 replicas from port {topology.local.base_port} on")
        options = DeployOptions(argv=ARGV, saved=None, timeout_s=timeout_s)
        with hold(topology, home, "demo", stop, progress, waiting=Waiting(wanted=False)) as held:
            deployed = run_deploy(held, options, progress, stop, lambda _plan: None)
        with open_fleet(topology, home) as fleet:
            return DemoReport(deployed=deployed, status=read_status(fleet), counters=_count(fleet))


@contextmanager
def _throw_away(topology: Topology, progress: Progress) -> Iterator[Home]:
    with tempfile.TemporaryDirectory(prefix="rlctl-demo-") as folder:
        home = Home(Path(folder) / "home")
        try:
            yield home
        finally:
            # A flag of its own: the fleet goes also when the user has asked to stop.
            waiting = Waiting(wanted=True)
            with hold(topology, home, "demo", StopFlag(), progress, waiting=waiting, removing=True) as held:
                run_destroy(held, ARGV, progress)


def _count(fleet: Fleet) -> tuple[Counter, ...]:
    """A few writes as any program would do them: a stock client with the credentials that `env` prints."""
    access = connection(fleet, As.LIMITER)
    password = access.password.reveal() if access.password else None
    client = RedisCluster(host=access.host, port=access.port, username=access.username, password=password)
    # The library's methods carry no usable annotations.
    increment: Callable[[str, int], int] = client.incrby
    slot_of: Callable[[str], int] = client.keyslot
    with client:
        keys = [f"rl:{{user={user}}}:demo" for user in USERS]
        return tuple(Counter(key=key, value=increment(key, 7), slot=slot_of(key)) for key in keys)
