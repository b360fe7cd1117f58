"""Finds the runs of this machine, and cleans up after killed runs."""

from collections.abc import Iterator

from rlctl.drills.engine.cleanup import clean_up
from rlctl.drills.engine.run_files import read_run_request
from rlctl.errors import NotFound, RlctlError
from rlctl.execute.progress import Progress
from rlctl.lab.run_folder import REQUEST, RESULT, RunFolder
from rlctl.lab.throw_away import clean_up_throw_away
from rlctl.state.home import Home
from rlctl.system.redis import CommandFailed, LinkFailure


def all_runs(home: Home) -> tuple[RunFolder, ...]:
    """The folders of all runs, the oldest first. A folder without a request is left out."""
    if not home.drills.is_dir():
        return ()
    folders = (RunFolder(path) for path in sorted(home.drills.iterdir()) if path.is_dir())
    return tuple(folder for folder in folders if folder.read(REQUEST) is not None)


def find_run(home: Home, wanted: str | None) -> RunFolder:
    """The run with id `wanted`, or the latest run for None. Raises NotFound."""
    runs = all_runs(home)
    if wanted is None:
        if not runs:
            raise NotFound("no drill was run here yet", hint="`rlctl failover-drill` runs two scenarios on a twin")
        return runs[-1]
    found = next((run for run in runs if run.id == wanted), None)
    if found is None:
        raise NotFound(f"there is no run {wanted!r}", hint="`rlctl failover-drill list` lists the runs of this machine")
    return found


def describe_runs(home: Home) -> Iterator[dict[str, object]]:
    """The runs as JSON objects for `failover-drill list`."""
    for folder in all_runs(home):
        request = read_run_request(folder)
        result = folder.read(RESULT) or {}
        yield {
            "id": folder.id,
            "scenario": request.scenario,
            "variant": request.variant or None,
            "kind": request.kind,
            "started": request.started,
            "state": folder.state,
            "verdict": result.get("verdict"),
        }


def clean_up_all(home: Home, progress: Progress) -> list[dict[str, object]]:
    """Clean up after killed drills, demos and rehearsals, and return what was undone. Active runs are not changed."""
    done = clean_up_throw_away(home, progress)
    for folder in all_runs(home):
        undone = clean_up(folder, progress)
        if undone:
            done.append({"id": folder.id, "undone": list(undone)})
    return done


def clean_up_failed(folder: RunFolder, progress: Progress) -> None:
    """Clean up after a failed run. Reports an error instead of raising it, so that the run is still judged."""
    try:
        clean_up(folder, progress)
    except (RlctlError, LinkFailure, CommandFailed) as failure:
        progress.note(f"run {folder.id} is not cleaned up: {failure}")
        progress.note("`rlctl failover-drill heal` or the next run cleans up")
