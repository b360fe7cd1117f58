"""Runs drills as an operator does, and kills them as an accident would."""

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import psutil

from rlctl.drills.schema import runs_schema
from tests.driver import Fleet, wait_for

# A machine that stalls for a second makes a drill inconclusive, rightly, and one that is too busy to load the fleet
# proves nothing; then it is run again.
TRIES = 3


def drill(fleet: Fleet, scenario: str, *words: str) -> dict[str, Any]:
    """One run that must pass; without a topology file the twin is a plain one."""
    [run] = drills(fleet, "run", scenario, *words)
    return run


def drills(fleet: Fleet, *words: str) -> list[dict[str, Any]]:
    """Runs that must all pass."""
    call = fleet.run if fleet.file.exists() else fleet.run_bare
    for _ in range(TRIES):
        ran = call("failover-drill", *words, "-o", "json", expect=None)
        assert ran.out, ran.err
        document = ran.json()
        jsonschema.validate(document, runs_schema())
        runs: list[dict[str, Any]] = document["runs"]
        if not any(is_the_machines_fault(run) for run in runs):
            break
    assert ran.code == 0, ([run["reasons"] for run in runs], ran.err)
    return runs


def is_the_machines_fault(run: dict[str, Any]) -> bool:
    """Whether nothing but a busy machine kept a run from passing.

    A load that was too low comes first, and then what was missed by it.
    """
    reasons = run["reasons"]
    if run["verdict"] == "inconclusive":
        return all("stalled" in reason for reason in reasons) or reasons[0].startswith("the load was too low")
    return run["verdict"] == "fail" and os.getloadavg()[0] > (os.cpu_count() or 1)


def processes_of(folder: Path) -> list[str]:
    """Whatever still works for a run: by its command line or by where it works."""
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
    """rlctl and the process that carries the run out, as an out-of-memory killer might; not the watchdog."""
    carriers = _below(started, "rlctl.drills.inside")
    started.kill()
    _kill(carriers)
    started.communicate()


def kill_carriers(started: "subprocess.Popen[str]") -> None:
    """Only the processes that carry the run out: rlctl lives on."""
    _kill(_below(started, "rlctl.drills.inside"))


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        # The first takes the others along.
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
    """Start a drill, and SIGKILL it once its journal tells of the event; its watchdog as well, where that is said."""
    before = run_folder(fleet)
    started = fleet.spawn("failover-drill", "run", *words)
    wait_for(lambda: run_folder(fleet) != before, what="the run's folder")
    folder = run_folder(fleet)
    assert folder is not None
    wait_for(lambda: f'"event": "{event}"' in journal(folder), what=event)
    watchdogs = _below(started, "rlctl.drills.watchdog") if watchdog else []
    for one in watchdogs:
        one.kill()
    kill_all_of_it(started)
    return folder
