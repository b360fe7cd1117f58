"""Run drills through the command line, and kill their processes."""

import contextlib
import json
import subprocess
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import jsonschema
import psutil

from rlctl.drills.scenario.schema import runs_schema
from tests.driver import Fleet, Ran, wait_for
from tests.reruns import until_undisturbed

# Errors after a missed deadline, because of a busy machine or a bug: no twin was ready, nothing was measured.
DEADLINE_MISSED = ": timed out after "


def drill(fleet: Fleet, scenario: str, *words: str, expect: int = 0) -> dict[str, Any]:
    """The one run of a command that must end as expected. Without a topology file, the twin is a default one."""
    [run] = drills(fleet, "run", scenario, *words, expect=expect)
    return run


def drills(fleet: Fleet, *words: str, expect: int = 0) -> list[dict[str, Any]]:
    """The runs of a command that must all end as expected."""
    call = fleet.run if fleet.file.exists() else fleet.run_bare
    return made(lambda: call("failover-drill", *words, "-o", "json", expect=None), " ".join(words), expect=expect)


def made(attempt: Callable[[], Ran], what: str, expect: int = 0) -> list[dict[str, Any]]:
    """The runs of a command that must end as expected, repeated while a run reports that the machine disturbed it."""
    ran = until_undisturbed(attempt, what, lambda ran: None if ran.code == expect else disturbance(ran))
    runs = runs_of(ran.out)
    assert ran.code == expect, ([run["reasons"] for run in runs], ran.err)
    return runs


def runs_of(out: str) -> list[dict[str, Any]]:
    """The runs that a command reports; none if no twin was deployed."""
    if not out:
        return []
    document = json.loads(out)
    jsonschema.validate(document, runs_schema())
    runs: list[dict[str, Any]] = document["runs"]
    return runs


def disturbance(ran: Ran) -> str | None:
    """The reported disturbance of a run; None if any run failed, because a busy machine is no excuse for that."""
    runs = runs_of(ran.out)
    if not runs:
        return ran.err.strip().splitlines()[-1] if DEADLINE_MISSED in ran.err else None
    named = [_disturbances(run) for run in runs if run["verdict"] != "pass"]
    return "; ".join(chain(*named)) if named and all(named) else None


def _disturbances(run: dict[str, Any]) -> list[str]:
    """Look for a stall first, because it breaks checks too; then for a load that was too low."""
    if run["verdict"] != "inconclusive":
        return []
    low = [reason for reason in run["reasons"][:1] if reason.startswith("the load was too low")]
    return low + [reason for reason in run["reasons"] if reason.startswith("the machine stalled")]


def processes_of(folder: Path) -> list[str]:
    """The processes of a run, found by their command line or working folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd", "status"]):
        words = " ".join(process.info["cmdline"] or [])
        if process.info["status"] != psutil.STATUS_ZOMBIE and (str(folder) in words + (process.info["cwd"] or "")):
            found.append(f"{process.pid} {words}")
    return found


def run_folder(fleet: Fleet) -> Path | None:
    drills = fleet.home / "drills"
    return max(drills.iterdir(), default=None) if drills.is_dir() else None


def journal(folder: Path | None) -> str:
    path = folder / "journal.jsonl" if folder else None
    return path.read_text(encoding="utf-8") if path and path.exists() else ""


def kill_all_of_it(started: "subprocess.Popen[str]") -> None:
    """Kill rlctl and the process of the run, as the out-of-memory killer might, but not the watchdog."""
    carriers = _below(started, "rlctl.drills.engine.worker")
    started.kill()
    _kill(carriers)
    started.communicate()


def kill_carriers(started: "subprocess.Popen[str]") -> None:
    """Kill only the processes of the run, not rlctl."""
    _kill(_below(started, "rlctl.drills.engine.worker"))


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        # The first process may end the others.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _below(started: "subprocess.Popen[str]", program: str) -> list[psutil.Process]:
    return [child for child in psutil.Process(started.pid).children(recursive=True) if program in _words(child)]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def kill_at(fleet: Fleet, event: str, *words: str, watchdog: bool = False) -> Path:
    """Start a drill, and SIGKILL it once its journal has the event, on request with its watchdog."""
    before = run_folder(fleet)
    started = fleet.spawn("failover-drill", "run", *words)
    wait_for(lambda: run_folder(fleet) != before, what="the run's folder")
    folder = run_folder(fleet)
    assert folder is not None
    wait_for(lambda: f'"event": "{event}"' in journal(folder), what=event)
    watchdogs = _below(started, "rlctl.drills.engine.watchdog") if watchdog else []
    for one in watchdogs:
        one.kill()
    kill_all_of_it(started)
    return folder
