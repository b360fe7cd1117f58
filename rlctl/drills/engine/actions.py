"""Carries out the steps of a scenario on a stage, and writes down when each took effect."""

from collections.abc import Callable
from typing import assert_never

from rlctl.drills.engine.client_processes import Crew
from rlctl.drills.engine.context import Stage
from rlctl.drills.engine.fixtures import Estate
from rlctl.drills.engine.watch import Watch
from rlctl.drills.scenario.model import (
    Action,
    Await,
    Burst,
    Cut,
    Failover,
    Hold,
    Kill,
    LoadScripts,
    Manual,
    Mend,
    Pause,
    Restart,
    Resume,
)
from rlctl.errors import Refused, Unreachable
from rlctl.lab.faults import Stamp
from rlctl.lab.partition import Flow, isolation, replication_cut
from rlctl.lab.roles import Who
from rlctl.lab.run_folder import RunJournal
from rlctl.system.clock import wait_until
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeSpec

ANSWER_S = 30.0


class Actor:
    """Performs actions; `before_mend` is called while a cut is still in force, to save what will be discarded."""

    def __init__(
        self,
        stage: Stage,
        estate: Estate,
        crew: Crew,
        watch: Watch,
        journal: RunJournal,
        before_mend: Callable[[], None],
    ) -> None:
        self._stage = stage
        self._estate = estate
        self._crew = crew
        self._watch = watch
        self._journal = journal
        self._before_mend = before_mend

    def perform(self, action: Action) -> None:  # noqa: C901  one case for each member of the union
        """One step of the scenario."""
        match action:
            case Hold(ms=ms):
                self._watch.hold(ms)
            case Await(condition=condition, within_ms=within_ms):
                self._watch.wait_for(condition, within_ms)
            case Burst():
                self._journal.write("burst")
                self._crew.burst()
            case Cut():
                self._cut(action)
            case Mend():
                self._mend()
            case Kill(who=who):
                self._process("kill", who)
            case Pause(who=who):
                self._process("pause", who)
            case Resume(who=who):
                self._process("resume", who)
            case Restart(who=who):
                self._restart(who)
            case Failover(how=how):
                self._fail_over(how)
            case LoadScripts():
                self._estate.set_up(self._alive(self._stage.cast.shard))
                self._journal.write("load_scripts")
            case _:
                assert_never(action)

    def _cut(self, action: Cut) -> None:
        cast, nodes = self._stage.cast, self._nodes(action.who)
        if action.flow is Flow.REPLICATION:
            grudge = replication_cut(cast.victim, nodes)
        else:
            grudge = isolation(cast.cut_off(action.who) or nodes, cast.everybody, self._stage.shut_out)
        if action.flow not in self._stage.faults.abilities:
            raise Refused(
                f"this machine cannot cut {grudge.describe()} here: {self._stage.faults.method} cannot do that",
                hint="run it on a twin where namespaces are allowed; `rlctl failover-drill show` says what it needs",
            )
        self._stage.progress.note(f"cut {grudge.describe()}")
        stamp = self._stamped(lambda: self._stage.faults.cut(grudge))
        self._tell("cut", stamp, flow=action.flow, text=grudge.describe(), nodes=_names(nodes))

    def _mend(self) -> None:
        self._before_mend()
        self._stage.progress.note("mend the cut")
        self._tell("mend", self._stamped(self._stage.faults.mend))

    def _process(self, verb: str, who: Who) -> None:
        nodes = self._nodes(who)
        processes = self._stage.processes
        send = {"kill": processes.kill, "pause": processes.pause, "resume": processes.resume}[verb]
        stamp = send(nodes)
        self._tell(verb, stamp, nodes=_names(nodes))
        self._stage.progress.note(f"{verb} {', '.join(_names(nodes))}")

    def _restart(self, who: Who) -> None:
        for spec in self._nodes(who):
            stamp = self._stamped(lambda spec=spec: self._stage.processes.start(spec))  # type: ignore[misc]
            self._tell("restart", stamp, nodes=[spec.name])
            self._stage.progress.note(f"restart {spec.name}")
            if not spec.is_sentinel:
                self._estate_on(spec)

    def _estate_on(self, spec: NodeSpec) -> None:
        """A node that came back lacks the drill's user and script, as it would lack a release's."""

        def is_ready() -> bool:
            try:
                self._estate.set_up([spec])
                self._estate.load_release(spec)
            except (LinkFailure, CommandFailed, Unreachable):
                return False
            return True

        wait_until(is_ready, timeout_s=ANSWER_S, clock=self._stage.clock, what=f"{spec.name} answering")

    def _fail_over(self, how: Manual) -> None:
        cast, fleet = self._stage.cast, self._stage.held.fleet
        if fleet.topology.kind is Kind.CLUSTER:
            spec = cast.replicas[0]
            option = {Manual.FORCE: ["FORCE"], Manual.TAKEOVER: ["TAKEOVER"]}.get(how, [])
            words = ["CLUSTER", "FAILOVER", *option]
        elif how is Manual.COORDINATED:
            spec, to = cast.victim, cast.replicas[0]
            words = ["FAILOVER", "TO", to.address, str(to.port), "TIMEOUT", "5000"]
        else:
            spec = cast.sentinels[0]
            words = ["SENTINEL", "FAILOVER", fleet.topology.name]
        self._stage.progress.note(f"{' '.join(words)} on {spec.name}")
        link = fleet.connector.separate_link(spec)
        stamp = self._stamped(lambda: link.call(*words))
        link.close()
        self._tell("failover", stamp, how=how, nodes=[spec.name], text=" ".join(words))

    def _nodes(self, who: Who) -> tuple[NodeSpec, ...]:
        if who is Who.PROMOTED:
            promoted = self._watch.promoted()
            return () if promoted is None else (promoted,)
        return self._stage.cast.of(who)

    def _alive(self, nodes: tuple[NodeSpec, ...]) -> list[NodeSpec]:
        return [spec for spec in nodes if self._watch.is_alive(spec)]

    def _stamped(self, do: Callable[[], object]) -> Stamp:
        before_s = self._stage.clock.monotonic()
        do()
        return Stamp(before_s=before_s, after_s=self._stage.clock.monotonic())

    def _tell(self, event: str, stamp: Stamp, **details: object) -> None:
        self._journal.write_at(stamp.before_s, event, until=stamp.after_s, **details)


def _names(nodes: tuple[NodeSpec, ...]) -> list[str]:
    return [spec.name for spec in nodes]
