"""Runs scenarios one after another, each in its own folder and process, and judges their records."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rlctl.drills.engine.preview import preview
from rlctl.drills.engine.run_files import read_run_request, requested_scenario, rerun
from rlctl.drills.engine.run_request import RunRequest
from rlctl.drills.judge.result import run_json, series
from rlctl.drills.judge.verdict import Judged, judge
from rlctl.drills.record.load import read_evidence
from rlctl.drills.record.runs import clean_up_all, clean_up_failed
from rlctl.drills.scenario.load import ScenarioFile
from rlctl.drills.scenario.model import Cut, LoadMode, Scenario
from rlctl.errors import Exit, Refused, Unreachable, UsageFault
from rlctl.execute.progress import Progress
from rlctl.execute.session import open_fleet
from rlctl.execute.stop import StopFlag
from rlctl.lab.launch import WorkerExit, WorkerProgram, recorded_failure
from rlctl.lab.partition import Flow
from rlctl.lab.roles import Roles, assign_roles, planned_roles
from rlctl.lab.run_folder import REQUEST, RESULT, RunFolder, journal_lines
from rlctl.lab.throw_away import note_cleaned_up
from rlctl.lab.twin import SHORT_PERIODS, TWIN_NAME, hosts_base_port, twin_beside_fleet, twin_of
from rlctl.observe.model import Role
from rlctl.state.home import Home
from rlctl.system.clock import Clock
from rlctl.system.ports import free_base_port
from rlctl.system.process import ProcessRunner
from rlctl.system.sandbox import why_unavailable
from rlctl.topology.load import load_topology
from rlctl.topology.model import Kind, TargetName, Topology
from rlctl.topology.nodes import all_nodes

WORKER = "rlctl.drills.engine.worker"
_NO_SANDBOX = "scenarios that do not cut the network still run; `rlctl failover-drill show NAME` shows the requirements"
# Extra ports of a twin, since a scenario may add a second replica to every shard.
MORE_NODES = 32


@dataclass(frozen=True, kw_only=True)
class DrillLauncher:
    """Runs scenarios on the fleet of a topology, or on twins of this fleet."""

    home: Home
    clock: Clock
    topology: str
    kind: Kind
    live: bool
    stock_timers: bool
    argv: tuple[str, ...]
    variant: str | None = None

    def run(self, files: Sequence[ScenarioFile], progress: Progress, stop: StopFlag) -> list[dict[str, object]]:
        """Run every scenario and variant, and return their results. A failed verdict does not stop later runs."""
        self.home.open_for_writing()
        note_cleaned_up(clean_up_all(self.home, progress), progress)
        results = []
        for file in files:
            for scenario in self.scenarios(file):
                stop.check()
                results.append(self._one(file, scenario, progress, stop))
        return results

    def check(self, files: Sequence[ScenarioFile]) -> None:
        """Raise Refused for a scenario that cannot run on this fleet or machine."""
        for scenario in [scenario for file in files for scenario in self.scenarios(file)]:
            self._check_possible(scenario)

    def scenarios(self, file: ScenarioFile) -> tuple[Scenario, ...]:
        """The variants of a scenario to run. Raises UsageFault if the scenario has no variant `self.variant`."""
        every = file.for_kind(self.kind)
        found = tuple(one for one in every if self.variant in {None, one.variant})
        if not found:
            known = ", ".join(one.variant for one in every if one.variant) or "none"
            raise UsageFault(f"{file.name} has no variant {self.variant!r}", hint=f"its variants: {known}")
        return found

    def preview(self, files: Sequence[ScenarioFile]) -> list[dict[str, object]]:
        """Describe each run: its faults, the affected nodes and the expected loss."""
        scenarios = [scenario for file in files for scenario in self.scenarios(file)]
        return [preview(scenario, self._roles(scenario)) for scenario in scenarios]

    def _roles(self, scenario: Scenario) -> Roles:
        if not self.live:
            return planned_roles(self._planned_twin(scenario))
        with open_fleet(self._fleet_topology, self.home) as fleet:
            observed = fleet.observe()
            if not any(node.role is Role.PRIMARY for node in observed.up):
                raise Unreachable("no primary of the fleet answers", hint="rlctl status")
            return assign_roles(fleet.topology, observed)

    def _planned_twin(self, scenario: Scenario) -> Topology:
        settings, stock_timers = scenario.settings, self.stock_timers
        if self._fleet_topology.target is TargetName.LOCAL:
            return twin_of(self._fleet_topology, self.kind, settings, stock_timers=stock_timers)
        port = self._base_port()
        return twin_beside_fleet(
            self._fleet_topology, self.kind, settings, name=TWIN_NAME, base_port=port, stock_timers=stock_timers
        )

    def _one(self, file: ScenarioFile, scenario: Scenario, progress: Progress, stop: StopFlag) -> dict[str, object]:
        folder = self._open(file, scenario)
        where = "on the live fleet" if self.live else "on a twin"
        progress.note(f"{scenario.label} {where}, {self.kind}: run {folder.id}")
        program = WorkerProgram(module=WORKER, in_sandbox=read_run_request(folder).sandbox, owns_folder=True)
        ended = program.run(folder, lambda text: progress.note(f"  {text}"), stop)
        if ended.code in {Exit.HUNG_UP, Exit.INTERRUPTED, Exit.TERMINATED}:
            raise stop.kind(
                f"run {folder.id} was stopped; everything that it broke is healed",
                hint=f"`rlctl failover-drill report {folder.id}` shows how far it came",
            )
        if ended.code == Exit.OK:
            return conclude(folder)
        try:
            _check_begun(folder, ended)
            return conclude(folder)
        finally:
            clean_up_failed(folder, progress)

    def _check_possible(self, scenario: Scenario) -> None:
        cuts = [action for action in scenario.actions if isinstance(action, Cut) and action.flow is Flow.EVERYTHING]
        if not cuts:
            pass
        elif self.live and self._fleet_topology.target is TargetName.LOCAL:
            raise Refused(
                f"{scenario.name} cuts nodes off, and the nodes of a live local fleet share one address",
                hint="run it without --live, on a twin, where every node has an address of its own",
            )
        elif self._why_no_sandbox is not None:
            reason = self._why_no_sandbox
            raise Refused(f"{scenario.name} cuts nodes off, which is not possible here: {reason}", hint=_NO_SANDBOX)
        if self.live and (scenario.settings or scenario.load.mode is LoadMode.LIBRARY):
            raise Refused(
                f"{scenario.name} needs its own settings or users, but --live keeps those of the fleet",
                hint="run it without --live, on a twin",
            )

        if not self.live and self._fleet_topology.target is TargetName.HOSTS and not self._fleet_topology.drills.allow:
            raise Refused(
                "a twin on the fleet's own hosts takes memory and ports there, and the topology does not allow drills",
                hint="set `drills: {allow: true}` in the topology, or use a copy of it with `target: local`",
            )

    @cached_property
    def _fleet_topology(self) -> Topology:
        """The topology of the live fleet, from which rlctl derives the twins."""
        return load_topology(self.topology.encode(), "topology.yaml")

    @property
    def _wants_sandbox(self) -> bool:
        return not self.live and self._fleet_topology.target is TargetName.LOCAL

    @cached_property
    def _why_no_sandbox(self) -> str | None:
        return why_unavailable(ProcessRunner()) if self._wants_sandbox else None

    def _open(self, file: ScenarioFile, scenario: Scenario) -> RunFolder:
        now = self.clock.now()
        name = f"{now:%Y%m%d-%H%M%S}-{scenario.name}-{secrets.token_hex(2)}"
        folder = RunFolder(self.home.drills / name)
        folder.open()
        folder.write_text("scenario.yaml", file.text.decode())
        folder.write_text("topology.yaml", self.topology)
        sandbox = self._wants_sandbox and self._why_no_sandbox is None
        request = RunRequest(
            scenario=scenario.name,
            variant=scenario.variant,
            kind=self.kind,
            live=self.live,
            stock_timers=self.stock_timers,
            sandbox=sandbox,
            base_port=0 if sandbox or self.live else self._base_port(),
            why_no_sandbox=self._why_no_sandbox or "",
            argv=self.argv,
            started=now.isoformat(timespec="seconds"),
            twin=f"{TWIN_NAME}-{name[-4:]}",
            beside=str(self.home.topology_folder or ""),
        )
        folder.write(REQUEST, request.to_json())
        return folder

    def _base_port(self) -> int:
        """First port of the twin: the start of a free range on this machine, or on hosts a port above the fleet's."""
        if self._fleet_topology.target is TargetName.HOSTS:
            return hosts_base_port(self._fleet_topology)
        return free_base_port(len(all_nodes(self._fleet_topology)) + MORE_NODES)


def conclude(folder: RunFolder) -> dict[str, object]:
    """Judge a run, write the result into its folder, and return the result."""
    judged = judge_folder(folder)
    document = run_json(judged, about(folder, read_run_request(folder), judged))
    folder.write("series.json", series(judged))
    folder.write(RESULT, document)
    return document


def judge_folder(folder: RunFolder) -> Judged:
    """Read and judge the record of a run."""
    return judge(read_evidence(folder, requested_scenario(folder, read_run_request(folder))))


def about(folder: RunFolder, request: RunRequest, judged: Judged) -> dict[str, object]:
    """The fields of a run's result that come from its request, folder and journal."""
    failure = judged.evidence.last("failed")
    return {
        "id": folder.id,
        "started": request.started,
        "live": request.live,
        "elapsed_s": _elapsed_s(judged),
        "timers": "stock" if request.stock_timers else "short",
        "periods": None if request.stock_timers or request.kind is Kind.CLUSTER else SHORT_PERIODS,
        "why_no_sandbox": request.why_no_sandbox or None,
        "configuration": _configuration(judged),
        "failure": str(failure.details.get("message")) if failure else None,
        "rerun": rerun(folder, request),
        "folder": str(folder.root),
        "report": str(folder.report) if folder.report.exists() else None,
    }


def _elapsed_s(judged: Judged) -> float | None:
    """Time from the request to the last event of the journal."""
    events = judged.evidence.events
    return round(events[-1].until_s - events[0].at_s, 3) if events else None


def _configuration(judged: Judged) -> Mapping[str, object]:
    begin = judged.evidence.first("begin")
    found = begin.details.get("configuration") if begin else None
    return found if isinstance(found, dict) else {}


def _check_begun(folder: RunFolder, ended: WorkerExit) -> None:
    """Raise the error of a run that crashed or never began. Other failed runs are judged."""
    if ended.code not in set(Exit) or ended.code == Exit.BUG:
        raise Unreachable(f"run {folder.id} ended with {ended.code}: {ended.last_errors}", hint=f"see {folder.root}")
    if any(line["event"] == "begin" for line in journal_lines(folder)):
        return
    failure = recorded_failure(folder)
    if failure is None:
        raise Unreachable(f"run {folder.id} ended with {ended.code} before it began", hint=f"see {folder.root}")
    raise failure
