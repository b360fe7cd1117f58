"""Resize: more memory for every data node, written into the topology file and deployed as one operation."""

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
    """One changed setting: the file's text before and after, and what each says."""

    file: Path
    text: str
    changed: str
    before: Topology
    after: Topology

    @property
    def was(self) -> str:
        """The memory of each data node until now."""
        return format_size(self.before.memory.maxmemory_bytes)

    @property
    def now(self) -> str:
        """The memory of each data node from now on."""
        return format_size(self.after.memory.maxmemory_bytes)

    def to_json(self) -> dict[str, object]:
        """What every `resize -o json` starts with."""
        return {
            "schema": "rlctl.resize/1",
            "name": self.before.name,
            "was_bytes": self.before.memory.maxmemory_bytes,
            "maxmemory_bytes": self.after.memory.maxmemory_bytes,
            "file": str(self.file),
        }


def make_resize(file: Path, source: bytes, size_bytes: int | None) -> Resize:
    """The change of a topology file to this memory, or to twice what it says; nothing is written yet."""
    before = load_topology(source, str(file))
    was = before.memory.maxmemory_bytes
    after = replace(
        before, memory=replace(before.memory, maxmemory_bytes=was * 2 if size_bytes is None else size_bytes)
    )
    for problem in check(after):
        raise UsageFault(problem.text, hint=f"{file} says {format_size(was)}; give a size that is possible")
    if after.memory.maxmemory_bytes < was:
        raise Refused(
            f"{format_size(after.memory.maxmemory_bytes)} is less than the {format_size(was)} that {file} says",
            hint="shrinking can evict or refuse writes: edit the file and deploy, if it is meant",
        )
    text = source.decode("utf-8")
    change = {("memory", _SETTING): format_size(after.memory.maxmemory_bytes)}
    changed = text if after == before else rewrite(text, str(file), change, after)
    return Resize(file=file, text=text, changed=changed, before=before, after=after)


def plan_resize(resize: Resize, home: Home, progress: Progress) -> Plan:
    """What it would do now; Refused where it would not."""
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
    """Write the file and deploy what it then says; `agree` is asked before the file is touched."""
    fleet = locked.fleet
    fleet.check_deployable()
    locked.take_key(fleet.observe())
    # Whoever held the lock until now may have written the file.
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
            hint=f"`rlctl deploy` carries on{f'; {failure.hint}' if failure.hint else ''}",
        ) from failure


def _check_ready(resize: Resize, fleet: FleetSession, progress: Progress, listener: ProgressListener) -> None:
    """Only where there is memory, asked first for it is told at once, and only a fleet that is as its topology says."""
    if faults := tuple(machines_without_memory(resize.before, resize.after, _machines(fleet))):
        raise Refused(
            f"no room for {resize.now} a node: {'; '.join(faults)}",
            hint="ask for less, end what else takes memory there, or use larger machines",
        )
    with open_fleet(resize.before, fleet.home, listener=listener) as present:
        steps = plan_deploy(present, progress).steps
    if steps:
        more = f" (+{len(steps) - 1} more)" if len(steps) > 1 else ""
        raise Refused(f"the fleet is not as {resize.file} says; to do is: {describe(steps[0])}{more}", hint=_FIRST)


def _machines(fleet: FleetSession) -> Mapping[str | None, HostFacts]:
    """The machines that the nodes run on; one that nobody could look at has no room either."""
    if fleet.topology.target is not TargetName.HOSTS:
        return {None: read_host_facts(fleet.home.root)}
    found: dict[str | None, HostFacts] = {}
    for host, facts in fleet.target.machines().items():
        if isinstance(facts, RlctlError):
            raise facts
        found[host] = facts
    return found


def _check_own(plan: Plan) -> None:
    """Nothing but the new setting is carried out under this name."""
    for step in plan.steps:
        if not (isinstance(step, PreparePlace) or (isinstance(step, Configure) and step.setting == _SETTING)):
            raise Refused(f"the fleet has changed meanwhile; to do is: {describe(step)}", hint=_FIRST)
