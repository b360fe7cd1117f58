"""The process that carries a trial out: in namespaces of its own, in which everything ends with it.

It is told by a file what to do, and by its standard input, whose end means that rlctl has gone.
"""

import json
import os
import sys
from contextlib import closing
from pathlib import Path

from rlctl.errors import Exit, RlctlError, TimedOut, Unreachable
from rlctl.execute.locking import LockWait, lock_fleet
from rlctl.execute.progress import SILENT_PROGRESS
from rlctl.execute.session import open_fleet
from rlctl.execute.stop import StopFlag
from rlctl.lab.partitioner import SandboxPartitioner
from rlctl.lab.roles import assign_roles
from rlctl.lab.sentinel_timers import shorten_sentinel_timers
from rlctl.lab.worker import JsonProgress, end_with_parent
from rlctl.operations.deploy import DeployOptions, plan_deploy, run_deploy
from rlctl.plan.finding import Finding
from rlctl.plan.findings import assess
from rlctl.plan.steps import describe
from rlctl.plan.tilt import TILT_S
from rlctl.runbooks.catalog import find
from rlctl.runbooks.faults import FaultContext, bring_about
from rlctl.runbooks.rehearsal import (
    FAILURE,
    NAME,
    ORDER,
    REST,
    RESULT,
    RehearsalRequest,
    RehearsalResult,
    rehearsal_fleet,
)
from rlctl.runbooks.residue import Snapshot, differences, snapshot
from rlctl.runbooks.run import PageRun, RlctlRunner, RunResult, StepOutcome, StepRun
from rlctl.runbooks.variables import fixed_variables
from rlctl.state.home import Home
from rlctl.system.clock import wait_until
from rlctl.system.files import write_private
from rlctl.system.process import GracefulRunner, ProcessRunner
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.system.sandbox import own_packet_filter, raise_loopback
from rlctl.targets.server_program import find_any_server
from rlctl.topology.dump import topology_text
from rlctl.topology.load import load_topology
from rlctl.topology.model import Topology

DEPLOY_S = 60.0
# How long a fleet may take to come to rest after the last step, also where a stall put sentinels in TILT.
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


def carry_out(order: RehearsalRequest, folder: Path, progress: JsonProgress) -> RehearsalResult:
    """Build a fleet, break it, follow the page, and look at what is left."""
    raise_loopback()
    page = find(order.page)
    rehearsal = page.rehearsals[order.rehearsal]
    topology = rehearsal_fleet(order.kind, rehearsal, find_any_server(ProcessRunner()).flavor)
    home, file = Home.from_environment(), folder / "topology.yaml"
    write_private(file, topology_text(topology))
    write_private(folder / "rules.yaml", RULES)
    runner = RlctlRunner(runner=GracefulRunner(is_stopped=lambda: False), file=file)
    _build(topology, home, runner, progress)
    with open_fleet(topology, home) as fleet:
        before = snapshot(fleet)
        with closing(SandboxPartitioner(own_packet_filter(ProcessRunner()), NAME)) as cuts:
            context = FaultContext(fleet=fleet, roles=assign_roles(topology, fleet.observe()), cuts=cuts)
            bring_about(rehearsal.fault, context)
            page_run = PageRun(
                page=page,
                kind=order.kind,
                values=fixed_variables(topology, folder),
                runner=runner,
                clock=fleet.clock,
                agree=lambda _step, _command: None,
                tell=lambda result: _tell(progress, result),
                before=lambda step: context.heal() if step.id == rehearsal.mended_before else None,
                omitted=frozenset({order.omitted} if order.omitted else ()),
                patience_s=order.patience_s,
            )
            run = page_run.carry_out()
    residue = () if run.failed else _residue(file, home, before, order.patience_s.get(REST, REST_S))
    return _result(run, residue)


def _build(topology: Topology, home: Home, runner: RlctlRunner, progress: JsonProgress) -> None:
    # Who stops us ends us: there is no safe point to wait for.
    stop = StopFlag()
    with lock_fleet(topology, home, ARGV[0], stop, progress, waiting=LockWait(wanted=False)) as held:
        options = DeployOptions(argv=ARGV, saved=None, timeout_s=DEPLOY_S)
        run_deploy(held, options, progress, stop, lambda _plan: None)
        shorten_sentinel_timers(held.fleet)
    done = runner.run(f"rlctl rules apply {runner.file.parent / 'rules.yaml'} --yes -o json", timeout_s=DEPLOY_S)
    if done.code:
        raise Unreachable(f"the fleet takes no rules: {done.errors}", hint="try `rlctl rules apply` by hand")


def _residue(file: Path, home: Home, before: Snapshot, rest_s: float) -> tuple[str, ...]:
    """Read by the file as it is now: a step may have changed it, as an operator would."""
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
        return steps + differences(before, snapshot(fleet), fleet)


def _tell(progress: JsonProgress, result: StepRun) -> None:
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


def main() -> int:
    """Carry out the trial in the folder that is named; the last line says what came of it."""
    os.umask(0o077)
    folder = Path(sys.argv[1])
    order = RehearsalRequest.from_json(json.loads((folder / ORDER).read_text(encoding="utf-8")))
    end_with_parent()
    try:
        result = carry_out(order, folder, JsonProgress())
    except (LinkFailure, CommandFailed) as failure:
        return _failed(folder, f"a node did not do as told: {failure}", Exit.UNREACHABLE)
    except RlctlError as failure:
        return _failed(folder, failure.message, failure.exit_code)
    write_private(folder / RESULT, json.dumps(result.to_json()))
    return Exit.OK


def _failed(folder: Path, message: str, code: int) -> int:
    write_private(folder / FAILURE, message)
    return code


if __name__ == "__main__":
    sys.exit(main())
