"""Worker process of a rehearsal. All processes and packet rules in its namespaces end with the worker."""

import sys
from contextlib import closing
from pathlib import Path

from rlctl.errors import NotFound, TimedOut, Unreachable
from rlctl.execute.locking import LockWait, lock_fleet
from rlctl.execute.progress import SILENT_PROGRESS, Progress
from rlctl.execute.session import open_fleet
from rlctl.execute.stop import StopFlag
from rlctl.lab.faults import FaultInjector
from rlctl.lab.packet_filter import open_sandbox_partitioner
from rlctl.lab.processes import Processes
from rlctl.lab.roles import assign_roles
from rlctl.lab.run_folder import REQUEST, RESULT, RunFolder, RunJournal
from rlctl.lab.snapshot import Snapshot, differences, take_snapshot
from rlctl.lab.twin_fleet import DEPLOY_S, deploy_twin
from rlctl.lab.worker import end_with_parent, serve
from rlctl.operations.deploy import plan_deploy
from rlctl.plan.finding import Finding
from rlctl.plan.findings import assess
from rlctl.plan.steps import describe
from rlctl.plan.tilt import TILT_S
from rlctl.render.redis_conf import tunables
from rlctl.runbooks.catalog import find
from rlctl.runbooks.faults import inject
from rlctl.runbooks.rehearsal import NAME, REST, RehearsalRequest, RehearsalResult, rehearsal_fleet
from rlctl.runbooks.run import PageRun, RlctlRunner, RunResult, StepOutcome, StepRun
from rlctl.runbooks.variables import fixed_variables
from rlctl.state.home import Home
from rlctl.system.clock import SystemClock, wait_until
from rlctl.system.files import write_private
from rlctl.system.process import GracefulRunner, ProcessRunner
from rlctl.system.sandbox import raise_loopback
from rlctl.targets.server_program import find_any_server
from rlctl.topology.dump import topology_text
from rlctl.topology.load import load_topology
from rlctl.topology.model import Topology

# Time limit for the fleet to become healthy after the last step. It includes the time that sentinels spend in TILT if
# the machine stalled.
REST_S = 15.0 + TILT_S
LOOK_EVERY_S = 0.2
ARGV = ("runbook", "test")
RULES = """\
version: 1
rules:
  - id: api-per-key
    algorithm: fixed_window
    key: "api:{key}"
    limit: 100
    window: 60s
"""


def carry_out(folder: RunFolder, progress: Progress) -> None:
    """Carry out the request in the run's folder, and write the result to the same folder."""
    end_with_parent()
    document = folder.read(REQUEST)
    if document is None:
        raise NotFound(f"{folder.root} has no request", hint="`rlctl runbook test` writes the request")
    folder.write(RESULT, rehearse(RehearsalRequest.from_json(document), folder, progress).to_json())


def rehearse(request: RehearsalRequest, folder: RunFolder, progress: Progress) -> RehearsalResult:
    """Build a fleet, inject the fault, carry the page out, and compare the fleet with its state before the fault."""
    raise_loopback()
    page = find(request.page)
    rehearsal = page.rehearsals[request.rehearsal]
    topology = rehearsal_fleet(request.kind, rehearsal, find_any_server(ProcessRunner()).flavor)
    home, file = Home.from_environment(), folder.twin / "topology.yaml"
    write_private(file, topology_text(topology))
    write_private(folder.twin / "rules.yaml", RULES)
    runner = RlctlRunner(runner=GracefulRunner(is_stopped=lambda: False), file=file)
    _build(topology, home, runner, progress)
    with open_fleet(topology, home) as fleet, closing(open_sandbox_partitioner(NAME)) as partitioner:
        before = take_snapshot(fleet)
        injector = FaultInjector(
            fleet=fleet,
            roles=assign_roles(topology, fleet.observe()),
            processes=Processes(fleet, RunJournal(folder, SystemClock())),
            partitioner=partitioner,
        )
        inject(rehearsal.fault, injector)
        page_run = PageRun(
            page=page,
            kind=request.kind,
            values=fixed_variables(topology, folder.twin),
            runner=runner,
            clock=fleet.clock,
            agree=lambda _step, _command: None,
            report=lambda result: _report(progress, result),
            # In a real incident another team repairs the network, so no step of the page does. The rehearsal repairs
            # the network here.
            before=lambda step: partitioner.heal() if step.id == rehearsal.mended_before else None,
            omitted=frozenset({request.omitted} if request.omitted else ()),
            patience_s=request.patience_s,
        )
        run = page_run.carry_out()
    residue = () if run.failed else _residue(file, home, before, request.patience_s.get(REST, REST_S))
    return _result(run, residue)


def _build(topology: Topology, home: Home, runner: RlctlRunner, progress: Progress) -> None:
    # This flag is never set, because a stop of the rehearsal ends this process at once: see `end_with_parent`.
    stop = StopFlag()
    with lock_fleet(topology, home, ARGV[0], stop, progress, waiting=LockWait(wanted=False)) as held:
        deploy_twin(held, ARGV, progress, stop, stock_timers=False)
    done = runner.run(f"rlctl rules apply {runner.file.parent / 'rules.yaml'} --yes -o json", timeout_s=DEPLOY_S)
    if done.code:
        raise Unreachable(f"the fleet refuses the rules: {done.errors}", hint="try `rlctl rules apply` by hand")


def _residue(file: Path, home: Home, before: Snapshot, rest_s: float) -> tuple[str, ...]:
    """What the run left behind.

    These are the findings; if there are none, the steps that a deploy would carry out and the settings that differ from
    those before the fault.
    """
    # Load the file again: a step may have edited it, as an operator would.
    topology = load_topology(file.read_bytes(), str(file))
    with open_fleet(topology, home) as fleet:
        findings: tuple[Finding, ...] = ()

        def is_at_rest() -> bool:
            nonlocal findings
            observed = fleet.observe()
            findings = assess(fleet.desired(observed), observed)
            return not findings

        try:
            wait_until(is_at_rest, timeout_s=rest_s, clock=fleet.clock, what="the fleet at rest", every_s=LOOK_EVERY_S)
        except TimedOut:
            return tuple(finding.text for finding in findings)
        steps = tuple(describe(step) for step in plan_deploy(fleet, SILENT_PROGRESS).steps)
        return steps + differences(before, take_snapshot(fleet), tunables(topology))


def _report(progress: Progress, result: StepRun) -> None:
    why = f": {result.why}" if result.why else ""
    progress.note(f"{result.step.id}: {result.outcome} {result.elapsed_s:.1f} s{why}")
    if result.outcome is StepOutcome.FAILED:
        for line in result.summary:
            progress.note(f"  {line}")


def _result(run: RunResult, residue: tuple[str, ...]) -> RehearsalResult:
    failed = run.failed
    return RehearsalResult(
        steps=tuple(result.to_json() for result in run.results),
        why=f"{failed.step.id}: {failed.why}" if failed else None,
        recovered_s=run.recovered_s,
        residue=residue,
    )


if __name__ == "__main__":
    sys.exit(serve(carry_out))
