"""Carries out the steps of a scenario, and records when each step took effect."""

from collections.abc import Callable
from contextlib import closing
from typing import assert_never

from rlctl.drills.engine.client_processes import ClientProcesses
from rlctl.drills.engine.context import RunContext
from rlctl.drills.engine.fixtures import Fixtures
from rlctl.drills.engine.monitor import RunMonitor
from rlctl.drills.scenario.model import (
    Action,
    Await,
    Burst,
    Cut,
    Failover,
    FailoverKind,
    Heal,
    Hold,
    Kill,
    LoadDrillScript,
    Pause,
    Restart,
    Resume,
)
from rlctl.errors import Refused, Unreachable
from rlctl.lab.processes import Interval, timed
from rlctl.lab.roles import LabRole
from rlctl.lab.run_folder import RunJournal
from rlctl.plan.failover import FailoverMode, failover_command
from rlctl.system.clock import wait_until
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeSpec

ANSWER_S = 30.0
_MODES = {FailoverKind.FORCE: FailoverMode.FORCE, FailoverKind.TAKEOVER: FailoverMode.TAKEOVER}


class ActionExecutor:
    """Carries out steps. Before it heals a cut, it calls `before_heal` to copy the data that the heal discards."""

    def __init__(
        self,
        context: RunContext,
        fixtures: Fixtures,
        clients: ClientProcesses,
        monitor: RunMonitor,
        journal: RunJournal,
        before_heal: Callable[[], None],
    ) -> None:
        self._context = context
        self._fixtures = fixtures
        self._clients = clients
        self._monitor = monitor
        self._journal = journal
        self._before_heal = before_heal

    def carry_out(self, action: Action) -> None:  # noqa: C901  one case for each member of the union
        """Carry out one step of the scenario."""
        match action:
            case Hold(ms=ms):
                self._monitor.hold(ms)
            case Await(condition=condition, within_ms=within_ms):
                self._monitor.wait_for(condition, within_ms)
            case Burst():
                self._journal.write("burst")
                self._clients.burst()
            case Cut():
                self._cut(action)
            case Heal():
                self._heal_partition()
            case Kill(role=role):
                self._process("kill", role)
            case Pause(role=role):
                self._process("pause", role)
            case Resume(role=role):
                self._process("resume", role)
            case Restart(role=role):
                self._restart(role)
            case Failover(how=how):
                self._fail_over(how)
            case LoadDrillScript():
                self._fixtures.set_up(self._alive(self._context.roles.shard))
                self._journal.write("load_scripts")
            case _:
                assert_never(action)

    def _cut(self, action: Cut) -> None:
        injector, nodes = self._context.injector, self._nodes(action.role)
        partition = injector.planned_partition(action.flow, action.role, nodes)
        if action.flow not in injector.partitioner.flows:
            raise Refused(
                f"cannot cut {partition.describe()}; only replication can be cut here: {injector.partitioner.method}",
                hint="run the drill on a twin where namespaces are allowed; see `rlctl failover-drill show NAME`",
            )
        self._context.progress.note(f"cut {partition.describe()}")
        interval = injector.cut(partition)
        self._record("cut", interval, flow=action.flow, text=partition.describe(), nodes=_names(nodes))

    def _heal_partition(self) -> None:
        self._before_heal()
        self._context.progress.note("heal the cut")
        self._record("mend", self._context.injector.heal())

    def _process(self, verb: str, role: LabRole) -> None:
        nodes = self._nodes(role)
        processes = self._context.injector.processes
        send = {"kill": processes.kill, "pause": processes.pause, "resume": processes.resume}[verb]
        interval = send(nodes)
        self._record(verb, interval, nodes=_names(nodes))
        self._context.progress.note(f"{verb} {', '.join(_names(nodes))}")

    def _restart(self, role: LabRole) -> None:
        for spec in self._nodes(role):
            interval = timed(self._context.clock, lambda spec=spec: self._context.injector.processes.start(spec))  # type: ignore[misc]
            self._record("restart", interval, nodes=[spec.name])
            self._context.progress.note(f"restart {spec.name}")
            if not spec.is_sentinel:
                self._set_up_on(spec)

    def _set_up_on(self, spec: NodeSpec) -> None:
        """Restore the drill's user and script, and the release's scripts, on a restarted node."""

        def is_ready() -> bool:
            try:
                self._fixtures.set_up([spec])
                self._fixtures.load_release(spec)
            except (LinkFailure, CommandFailed, Unreachable):
                return False
            return True

        wait_until(is_ready, timeout_s=ANSWER_S, clock=self._context.clock, what=f"{spec.name} answering")

    def _fail_over(self, how: FailoverKind) -> None:
        # A drill measures the loss that the server's own failover command causes, and therefore sends this command
        # itself. With Sentinel, `rlctl failover` would pause writes to avoid the loss, and would return much later.
        roles, topology = self._context.roles, self._context.held.fleet.topology
        mode = _MODES.get(how, FailoverMode.PLANNED)
        if topology.kind is Kind.CLUSTER:
            spec, command = roles.replicas[0], failover_command(topology, mode)
        elif how is FailoverKind.COORDINATED:
            # FAILOVER TO is Redis' own planned failover. Only drills send this command, because Redis does not inform
            # Sentinel of the failover.
            spec, to = roles.victim, roles.replicas[0]
            command = ("FAILOVER", "TO", to.address, str(to.port), "TIMEOUT", "5000")
        else:
            spec, command = roles.sentinels[0], failover_command(topology, mode)
        self._context.progress.note(f"{' '.join(command)} on {spec.name}")
        with closing(self._context.injector.link(spec)) as link:
            interval = timed(self._context.clock, lambda: link.call(*command))
        self._record("failover", interval, how=how, nodes=[spec.name], text=" ".join(command))

    def _nodes(self, role: LabRole) -> tuple[NodeSpec, ...]:
        if role is LabRole.PROMOTED:
            promoted = self._monitor.promoted()
            return () if promoted is None else (promoted,)
        return self._context.roles.of(role)

    def _alive(self, nodes: tuple[NodeSpec, ...]) -> list[NodeSpec]:
        return [spec for spec in nodes if self._monitor.is_alive(spec)]

    def _record(self, event: str, interval: Interval, **details: object) -> None:
        self._journal.write_at(interval.before_s, event, until=interval.after_s, **details)


def _names(nodes: tuple[NodeSpec, ...]) -> list[str]:
    return [spec.name for spec in nodes]
