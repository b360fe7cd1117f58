"""Cleans up after a killed run: removes its twin, or heals the live fleet according to the run's journal."""

from contextlib import closing
from signal import Signals

from rlctl.drills.engine.fixtures import Fixtures
from rlctl.drills.engine.recover import repair
from rlctl.drills.engine.run_files import requested_fleet, requested_partitioner
from rlctl.drills.engine.run_request import RunRequest
from rlctl.drills.record.ledger import Keys
from rlctl.execute.locking import LockedFleet, lock_fleet
from rlctl.execute.progress import Progress
from rlctl.execute.session import open_fleet
from rlctl.execute.stop import StopFlag
from rlctl.lab.cleanup import ARGV, WAITING, remove_fleet, remove_twin_folder
from rlctl.lab.processes import PAUSING
from rlctl.lab.run_folder import REQUEST, RunFolder, RunJournal, journal_lines
from rlctl.plan.steps import describe
from rlctl.system.clock import SystemClock
from rlctl.topology.nodes import all_nodes


def clean_up(folder: RunFolder, progress: Progress) -> tuple[str, ...]:
    """Clean up after a killed run, and describe each change that was undone. Idempotent.

    Does nothing while the run's process is alive.
    """
    document = folder.read(REQUEST)
    if document is None or folder.is_owned():
        return ()
    request = RunRequest.from_json(document)
    done = []
    if request.live and not _is_cleaned_up(folder):
        done = [*_resume_nodes(folder, request), *_heal_fleet(folder, request, progress)]
    elif not request.live and folder.twin.exists():
        if not request.sandbox:
            done = _resume_nodes(folder, request)
            _remove_twin(folder, request, progress)
        remove_twin_folder(folder)
        done.append("removed the twin")
    if done:
        RunJournal(folder, SystemClock()).write("swept", done=done)
    return tuple(done)


def _is_cleaned_up(folder: RunFolder) -> bool:
    """Whether the run itself, or an earlier clean-up, has healed the fleet."""
    events = {line["event"] for line in journal_lines(folder)}
    return "swept" in events or "ended" in events


def _resume_nodes(folder: RunFolder, request: RunRequest) -> list[str]:
    """Resume the nodes that the run paused. Call this before locking the fleet, since a paused node delays the lock."""
    stopped = {name for line in journal_lines(folder) if line["event"] == PAUSING for name in line["nodes"]}
    if not stopped:
        return []
    topology, home = requested_fleet(folder, request)
    with open_fleet(topology, home) as fleet:
        specs = [spec for spec in all_nodes(fleet.topology) if spec.name in stopped]
        fleet.target.signal(specs, Signals.SIGCONT)
    return [f"resumed {spec.name}" for spec in specs]


def _heal_fleet(folder: RunFolder, request: RunRequest, progress: Progress) -> list[str]:
    topology, home = requested_fleet(folder, request)
    with lock_fleet(topology, home, ARGV[0], StopFlag(), progress, waiting=WAITING) as held:
        if not held.fleet.observe().exists:
            # The fleet was destroyed after the drill was killed. Do not repair it: the repair is a deploy, which would
            # create the fleet again.
            return ["nothing: the fleet is gone"]
        _heal_partition(held, folder)
        held.fleet.target.suspend_restarts(0)
        done = _remove_fixtures(held, folder)
        report = repair(held, progress, StopFlag())
        # The first call cannot remove the keys of a shard without a primary. The repair has restored the primary, so
        # this call removes these keys.
        done += _remove_fixtures(held, folder)
        return [*done, "healed all cuts", *(describe(result.step) for result in report.results)]


def _heal_partition(held: LockedFleet, folder: RunFolder) -> None:
    with closing(requested_partitioner(held.fleet, folder)) as partitioner:
        partitioner.heal()


def _remove_fixtures(held: LockedFleet, folder: RunFolder) -> list[str]:
    """Remove the run's user and keys. A run without a `begin` event has created neither."""
    begin = next((line for line in journal_lines(folder) if line["event"] == "begin"), None)
    if begin is None:
        return []
    keys = {client: Keys(run=folder.id, tag=tag) for client, tag in begin["tags"].items()}
    fixtures = Fixtures.plan(held.fleet, keys)
    found = [f"removed {what}" for what in fixtures.residue()]
    fixtures.take_down()
    return found


def _remove_twin(folder: RunFolder, request: RunRequest, progress: Progress) -> None:
    twin, home = requested_fleet(folder, request)
    remove_fleet(twin, home, progress, before=lambda held: _heal_partition(held, folder))
