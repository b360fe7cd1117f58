"""Runs the demo: deploy, status, decisions and destroy on a throw-away fleet, then two drills."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlctl.drills.engine.launch import DrillLauncher
from rlctl.drills.scenario.library import flagships
from rlctl.errors import Refused
from rlctl.execute.locking import LockWait, lock_fleet
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession, open_fleet
from rlctl.execute.stop import StopFlag
from rlctl.lab.throw_away import clean_up_throw_away, note_cleaned_up, throw_away
from rlctl.limiter import Decision, Limiter, SlidingCounter
from rlctl.operations.deploy import DeployOptions, DeployReport, run_deploy
from rlctl.operations.destroy import run_destroy
from rlctl.operations.env import EnvUser, connection
from rlctl.operations.status import FleetStatus, read_status
from rlctl.plan.planner import Plan
from rlctl.state.home import Home
from rlctl.system.clock import SystemClock
from rlctl.system.ports import free_base_port
from rlctl.topology.model import MIB, Kind, LocalPlace, Memory, TargetName, Topology

NAME = "demo"
NODES = 6
ARGV = ("demo",)
USERS = ("ada", "bob")
LIMIT = 3
# Longer than the budget of a service: the first decisions open connections, which takes long on a busy machine.
BUDGET_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoDecision:
    """A decision that the demo made for one identity."""

    identity: str
    decision: Decision

    def to_json(self) -> dict[str, object]:
        one = self.decision
        return {
            "identity": self.identity,
            "allowed": one.allowed,
            "remaining": one.remaining,
            "retry_after_ms": one.retry_after_ms,
            "source": one.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """Results of a demo."""

    deployed: DeployReport
    status: FleetStatus
    decisions: tuple[DemoDecision, ...]
    drills: tuple[dict[str, object], ...]

    def to_json(self) -> dict[str, object]:
        return {
            "schema": "rlctl.demo/1",
            "deploy": self.deployed.to_json(),
            "status": self.status.to_json(),
            "decisions": [one.to_json() for one in self.decisions],
            "drills": list(self.drills),
        }


def run_demo(user_home: Home, progress: Progress, stop: StopFlag, timeout_s: float) -> DemoReport:
    """Run the demo. It leaves only the records of its drills, under `user_home`."""
    topology = Topology(
        name=NAME,
        kind=Kind.CLUSTER,
        target=TargetName.LOCAL,
        memory=Memory(maxmemory_bytes=64 * MIB),
        local=LocalPlace(base_port=free_base_port(NODES)),
    )
    note_cleaned_up(clean_up_throw_away(user_home, progress), progress)
    with _throw_away(topology, user_home, progress) as home:
        progress.note(f"deploying 3 primaries and 3 replicas from port {topology.local.base_port} on")
        options = DeployOptions(argv=ARGV, saved=None, timeout_s=timeout_s)
        with lock_fleet(topology, home, "demo", stop, progress, waiting=LockWait(wanted=False)) as locked:
            deployed = run_deploy(locked, options, progress, stop, _agree)
        with open_fleet(topology, home) as fleet:
            status, decisions = read_status(fleet), _decide(fleet)
    drills = _drill(user_home, progress, stop)
    return DemoReport(deployed=deployed, status=status, decisions=decisions, drills=drills)


def _agree(_plan: Plan) -> None:
    """Agree to every plan, because the demo created the fleet."""


@contextmanager
def _throw_away(topology: Topology, user_home: Home, progress: Progress) -> Iterator[Home]:
    with throw_away(user_home, ARGV[0], topology) as folder:
        home = Home(folder.twin)
        try:
            yield home
        finally:
            # A new stop flag, because the demo removes its fleet even after the user asked to stop.
            waiting = LockWait(wanted=True)
            with lock_fleet(topology, home, "demo", StopFlag(), progress, waiting=waiting, removing=True) as locked:
                run_destroy(locked, ARGV, progress)


def _drill(home: Home, progress: Progress, stop: StopFlag) -> tuple[dict[str, object], ...]:
    """Run the two default scenarios. Skips a scenario that this machine cannot run, and prints why."""
    kind = Kind.CLUSTER
    launcher = DrillLauncher(
        home=home,
        clock=SystemClock(),
        topology=f"version: 1\nname: {NAME}\nkind: {kind}\ntarget: local\n",
        kind=kind,
        live=False,
        stock_timers=False,
        argv=ARGV,
    )
    runs: list[dict[str, object]] = []
    for file in flagships(kind):
        try:
            runs += launcher.run([file], progress, stop)
        except Refused as failure:
            progress.note(f"{failure.message}; {failure.hint}")
    return tuple(runs)


def _decide(fleet: FleetSession) -> tuple[DemoDecision, ...]:
    """Make LIMIT + 1 calls for each user, with the credentials that `rlctl env` prints."""
    rule = SlidingCounter(limit=LIMIT, window_ms=60_000)
    settings = connection(fleet, EnvUser.LIMITER).to_json()
    with Limiter.connect(settings, policy="closed", budget_ms=BUDGET_MS, release=fleet.release) as limiter:
        answers = [(user, limiter.decide(rule, user, rule_id="demo")) for user in USERS for _ in range(LIMIT + 1)]
    return tuple(DemoDecision(identity=user, decision=decision) for user, decision in answers)
