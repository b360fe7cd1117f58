"""How often drills have the expected result: each main scenario N times on both kinds, with its duration."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

KINDS = ("cluster", "sentinel")
LOST_SPAN_MS = 50
TWICE = 1.9
# Seconds from the command to the verdict on two idle cores.
GOALS_S = {
    ("write-loss", "cluster"): 10,
    ("split-brain", "cluster"): 12,
    ("write-loss", "sentinel"): 9,
    ("split-brain", "sentinel"): 13,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The result of a run and its duration."""

    run: dict[str, Any]
    seconds: float


def kept(name: str, run: dict[str, Any]) -> bool:
    """Whether a run has the expected result and left nothing behind."""
    promises = {
        "control": run["lost"] == run["admission"]["over"] == run["ops"]["indeterminate"] == 0,
        "write-loss": bool(run["lost"]) and (run["metrics"]["lost_span_off_ms"] or 0) <= LOST_SPAN_MS,
        "write-loss-wait": run["lost"] == 0,
        "split-brain": run["admission"]["ratio"] >= TWICE,
    }
    is_clean = run["heal"] == {"ok": True, "residue": []} and run["verdict"] == "pass"
    return is_clean and bool(promises[name])


def tried(name: str, kind: str, home: str) -> Tried:
    """Run a scenario through the command line."""
    argv = [sys.executable, "-m", "rlctl", "failover-drill", "run", name, "--kind", kind, "-o", "json", "-q"]
    started = time.monotonic()
    done = subprocess.run(
        argv, env={**os.environ, "RLCTL_HOME": home}, cwd=home, capture_output=True, text=True, timeout=300, check=False
    )
    seconds = time.monotonic() - started
    if not done.stdout:
        raise SystemExit(f"{name} on {kind} ended with {done.returncode}: {done.stderr}")
    return Tried(run=json.loads(done.stdout)["runs"][0], seconds=seconds)


def rows(times: int, home: str) -> Iterator[str]:
    """Yield a line for each scenario and kind."""
    for kind in KINDS:
        for name in ("control", "write-loss", "write-loss-wait", "split-brain"):
            runs = [tried(name, kind, home) for _ in range(times)]
            good = sum(kept(name, one.run) for one in runs)
            median = statistics.median(one.seconds for one in runs)
            goal = GOALS_S.get((name, kind))
            rate = min(client["acked_per_s"] for one in runs for client in one.run["clients"])
            lost = [one.run["lost"] for one in runs]
            yield (
                f"{name:16} {kind:9} kept {good} of {times}  median {median:5.1f} s"
                f"{f' (goal {goal})' if goal else '':10}  lost {min(lost)} to {max(lost)}  slowest side {rate:,.0f}/s"
            )
            for one in runs:
                if not kept(name, one.run):
                    yield f"    {one.run['id']}: {one.run['verdict']}: {'; '.join(one.run['reasons'])}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=20, help="runs of each [20]")
    times = parser.parse_args().n
    with tempfile.TemporaryDirectory(prefix="rlctl-drills-") as home:
        for row in rows(times, home):
            print(row, flush=True)


if __name__ == "__main__":
    main()
