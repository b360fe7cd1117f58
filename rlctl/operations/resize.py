"""Resize: set more memory for every data node in the topology file and deploy it, as one operation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rlctl.doctor.resource_checks import machines_without_memory
from rlctl.errors import Refused, RlctlError, UsageFault
from rlctl.execute.locking import LockedFleet
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession, open_fleet
from rlctl.execute.stop import StopFlag
from rlctl.files.units import format_size
from rlctl.operations.deploy import DeployOptions, DeployReport, plan_deploy, run_deploy
from rlctl.plan.planner import Plan
from rlctl.plan.steps import Configure, PreparePlace, describe
from rlctl.state.home import Home
from rlctl.system.files import check_unchanged, replace_text
from rlctl.system.host import read_host_facts
from rlctl.system.host_facts import HostFacts
from rlctl.targets.base import NO_PROGRESS_LISTENER, ProgressListener
from rlctl.topology.checks import check
from rlctl.topology.load import load_topology
from rlctl.topology.model import TargetName, Topology
from rlctl.topology.rewrite import rewrite

_SETTING = "maxmemory"
_FIRST = "`rlctl deploy` first, then the same command again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """A change of `maxmemory`: text and topology of the file, before and after."""

    file: Path
    text: str
    changed: str
    before: Topology
    after: Topology

    @property
    def was(self) -> str:
        return format_size(self.before.memory.maxmemory_bytes)

    @property
    def now(self) -> str:
        return format_size(self.after.memory.maxmemory_bytes)

    def to_json(self) -> dict[str, object]:
        """Return the fields that all JSON documents of `resize -o json` contain."""
        return {
            "schema": "rlctl.resize/1",
            "name": self.before.name,
            "was_bytes": self.before.memory.maxmemory_bytes,
            "maxmemory_bytes": self.after.memory.maxmemory_bytes,
            "file": str(self.file),
        }


def make_resize(file: Path, source: bytes, size_bytes: int | None) -> Resize:
    """Plan a change of `maxmemory` to `size_bytes`, or if that is None, to twice the present value; write nothing."""
    before = load_topology(source, str(file))
    was = before.memory.maxmemory_bytes
    after = replace(
        before, memory=replace(before.memory, maxmemory_bytes=was * 2 if size_bytes is None else size_bytes)
    )
    for problem in check(after):
        raise UsageFault(problem.text, hint=f"{file} says {format_size(was)}; choose another size")
    if after.memory.maxmemory_bytes < was:
        raise Refused(
            f"{format_size(after.memory.maxmemory_bytes)} is less than the {format_size(was)} that {file} says",
            hint="less memory can evict keys or refuse writes; to use less, edit the file and run `rlctl deploy`",
        )
    text = source.decode("utf-8")
    change = {("memory", _SETTING): format_size(after.memory.maxmemory_bytes)}
    changed = text if after == before else rewrite(text, str(file), change, after)
    return Resize(file=file, text=text, changed=changed, before=before, after=after)


def plan_resize(resize: Resize, home: Home, progress: Progress) -> Plan:
    """Plan the resize; raises Refused if it cannot be carried out."""
    with open_fleet(resize.after, home) as fleet:
        _check_ready(resize, fleet, progress, NO_PROGRESS_LISTENER)
        plan = plan_deploy(fleet, progress)
    _check_own(plan)
    return plan


def run_resize(
    locked: LockedFleet,
    resize: Resize,
    options: DeployOptions,
    progress: Progress,
    stop: StopFlag,
    agree: Callable[[Plan], None],
) -> DeployReport:
    """Write the file and deploy it; `agree` is called before the file is written."""
    fleet = locked.fleet
    fleet.check_deployable()
    locked.take_key(fleet.observe())
    # Compare the file again: the previous holder of the lock may have changed it.
    check_unchanged(resize.file, resize.text)
    _check_ready(resize, fleet, progress, ProgressListener(note=progress.note, check_stop=stop.check))
    is_written = False

    def write(plan: Plan) -> None:
        nonlocal is_written
        _check_own(plan)
        agree(plan)
        replace_text(resize.file, resize.text, resize.changed)
        is_written = True

    try:
        return run_deploy(locked, options, progress, stop, write)
    except RlctlError as failure:
        if not is_written:
            raise
        raise type(failure)(
            f"{failure.message}; {resize.file} now says {_SETTING} {resize.now}",
            hint=f"`rlctl deploy` continues{f'; {failure.hint}' if failure.hint else ''}",
        ) from failure


def _check_ready(resize: Resize, fleet: FleetSession, progress: Progress, listener: ProgressListener) -> None:
    """Raise Refused if a machine lacks the memory, or if the fleet differs from its topology file."""
    if faults := tuple(machines_without_memory(resize.before, resize.after, _machines(fleet))):
        raise Refused(
            f"no room for {resize.now} a node: {'; '.join(faults)}",
            hint="choose a smaller size, end other processes on those machines, or use larger machines",
        )
    with open_fleet(resize.before, fleet.home, listener=listener) as present:
        steps = plan_deploy(present, progress).steps
    if steps:
        more = f" (+{len(steps) - 1} more)" if len(steps) > 1 else ""
        raise Refused(
            f"the fleet differs from {resize.file}; steps of a deploy: {describe(steps[0])}{more}", hint=_FIRST
        )


def _machines(fleet: FleetSession) -> Mapping[str | None, HostFacts]:
    """Return the facts of the machines that run the nodes; raises the error of a host that cannot be read."""
    if fleet.topology.target is not TargetName.HOSTS:
        return {None: read_host_facts(fleet.home.root)}
    found: dict[str | None, HostFacts] = {}
    for host, facts in fleet.target.machines().items():
        if isinstance(facts, RlctlError):
            raise facts
        found[host] = facts
    return found


def _check_own(plan: Plan) -> None:
    """Raise Refused if the plan has steps that are not part of the resize."""
    for step in plan.steps:
        if not (isinstance(step, PreparePlace) or (isinstance(step, Configure) and step.setting == _SETTING)):
            raise Refused(f"the fleet has changed meanwhile; step of a deploy: {describe(step)}", hint=_FIRST)
