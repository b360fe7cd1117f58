"""Carries out the steps of a scenario on a stage, and writes down when each took effect."""

from collections.abc import Callable
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
from rlctl.lab.partition import Flow, isolation, replication_cut
from rlctl.lab.partitioner import Interval
from rlctl.lab.roles import LabRole
from rlctl.lab.run_folder import RunJournal
from rlctl.system.clock import wait_until
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeSpec

ANSWER_S = 30.0


class ActionExecutor:
    """Performs actions; `before_mend` is called while a cut is still in force, to save what will be discarded."""

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

    def perform(self, action: Action) -> None:  # noqa: C901  one case for each member of the union
        """One step of the scenario."""
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
        roles, nodes = self._context.roles, self._nodes(action.role)
        if action.flow is Flow.REPLICATION:
            partition = replication_cut(roles.victim, nodes)
        else:
            partition = isolation(roles.cut_off(action.role) or nodes, roles.all_nodes, self._context.shut_out)
        if action.flow not in self._context.partitioner.flows:
            raise Refused(
                f"{self._context.partitioner.method}: cannot cut {partition.describe()}",
                hint="run it on a twin where namespaces are allowed; `rlctl failover-drill show` says what it needs",
            )
        self._context.progress.note(f"cut {partition.describe()}")
        interval = self._timed(lambda: self._context.partitioner.cut(partition))
        self._tell("cut", interval, flow=action.flow, text=partition.describe(), nodes=_names(nodes))

    def _heal_partition(self) -> None:
        self._before_heal()
        self._context.progress.note("mend the cut")
        self._tell("mend", self._timed(self._context.partitioner.heal))

    def _process(self, verb: str, role: LabRole) -> None:
        nodes = self._nodes(role)
        processes = self._context.processes
        send = {"kill": processes.kill, "pause": processes.pause, "resume": processes.resume}[verb]
        interval = send(nodes)
        self._tell(verb, interval, nodes=_names(nodes))
        self._context.progress.note(f"{verb} {', '.join(_names(nodes))}")

    def _restart(self, role: LabRole) -> None:
        for spec in self._nodes(role):
            interval = self._timed(lambda spec=spec: self._context.processes.start(spec))  # type: ignore[misc]
            self._tell("restart", interval, nodes=[spec.name])
            self._context.progress.note(f"restart {spec.name}")
            if not spec.is_sentinel:
                self._set_up_on(spec)

    def _set_up_on(self, spec: NodeSpec) -> None:
        """A node that came back lacks the drill's user and script, as it would lack a release's."""

        def is_ready() -> bool:
            try:
                self._fixtures.set_up([spec])
                self._fixtures.load_release(spec)
            except (LinkFailure, CommandFailed, Unreachable):
                return False
            return True

        wait_until(is_ready, timeout_s=ANSWER_S, clock=self._context.clock, what=f"{spec.name} answering")

    def _fail_over(self, how: FailoverKind) -> None:
        roles, fleet = self._context.roles, self._context.held.fleet
        if fleet.topology.kind is Kind.CLUSTER:
            spec = roles.replicas[0]
            option = {FailoverKind.FORCE: ["FORCE"], FailoverKind.TAKEOVER: ["TAKEOVER"]}.get(how, [])
            words = ["CLUSTER", "FAILOVER", *option]
        elif how is FailoverKind.COORDINATED:
            spec, to = roles.victim, roles.replicas[0]
            words = ["FAILOVER", "TO", to.address, str(to.port), "TIMEOUT", "5000"]
        else:
            spec = roles.sentinels[0]
            words = ["SENTINEL", "FAILOVER", fleet.topology.name]
        self._context.progress.note(f"{' '.join(words)} on {spec.name}")
        link = fleet.connector.separate_link(spec)
        interval = self._timed(lambda: link.call(*words))
        link.close()
        self._tell("failover", interval, how=how, nodes=[spec.name], text=" ".join(words))

    def _nodes(self, role: LabRole) -> tuple[NodeSpec, ...]:
        if role is LabRole.PROMOTED:
            promoted = self._monitor.promoted()
            return () if promoted is None else (promoted,)
        return self._context.roles.of(role)

    def _alive(self, nodes: tuple[NodeSpec, ...]) -> list[NodeSpec]:
        return [spec for spec in nodes if self._monitor.is_alive(spec)]

    def _timed(self, do: Callable[[], object]) -> Interval:
        before_s = self._context.clock.monotonic()
        do()
        return Interval(before_s=before_s, after_s=self._context.clock.monotonic())

    def _tell(self, event: str, interval: Interval, **details: object) -> None:
        self._journal.write_at(interval.before_s, event, until=interval.after_s, **details)


def _names(nodes: tuple[NodeSpec, ...]) -> list[str]:
    return [spec.name for spec in nodes]
