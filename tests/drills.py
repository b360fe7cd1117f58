"""Runs drills as an operator does, and kills them as an accident would."""

import contextlib
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import psutil

from rlctl.drills.schema import runs_schema
from rlctl.errors import Exit
from tests.driver import Fleet, wait_for

# A machine that stalls for a second makes a drill inconclusive, rightly, and one that is too busy to load the fleet
# proves nothing; then it is run again.
TRIES = 3


def drill(fleet: Fleet, scenario: str, *words: str, expect: int = 0) -> dict[str, Any]:
    """One run that must end as expected; without a topology file the twin is a plain one."""
    [run] = drills(fleet, "run", scenario, *words, expect=expect)
    return run


def drills(fleet: Fleet, *words: str, expect: int = 0) -> list[dict[str, Any]]:
    """Runs that must all end as expected."""
    call = fleet.run if fleet.file.exists() else fleet.run_bare
    for _ in range(TRIES):
        ran = call("failover-drill", *words, "-o", "json", expect=None)
        runs = runs_of(ran.out)
        if ran.code == expect or not is_the_machines_fault(ran.code, runs):
            break
    assert ran.code == expect, ([run["reasons"] for run in runs], ran.err)
    return runs


def runs_of(out: str) -> list[dict[str, Any]]:
    """The runs that a command tells of; none where no twin came about."""
    if not out:
        return []
    document = json.loads(out)
    jsonschema.validate(document, runs_schema())
    runs: list[dict[str, Any]] = document["runs"]
    return runs


def is_the_machines_fault(code: int, runs: Sequence[dict[str, Any]]) -> bool:
    """Whether a busy machine can have kept runs from ending as they should."""
    if not runs:
        return code in {Exit.UNREACHABLE, Exit.TIMEOUT, Exit.PARTIAL, Exit.CHECK_FAILED}
    return any(_is_disturbed(run) for run in runs)


def _is_disturbed(run: dict[str, Any]) -> bool:
    """A stall breaks checks too; a load that was too low comes first, and then what was missed by it."""
    reasons = run["reasons"]
    if any("stalled" in reason for reason in reasons) or reasons[0].startswith("the load was too low"):
        return True
    leaves_something = any(reason.startswith(("I8 ", "I11 ")) for reason in reasons)
    is_busy = os.getloadavg()[0] > (os.cpu_count() or 1)
    return run["verdict"] != "pass" and is_busy and not leaves_something


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
