"""Results and series of real drills, as input for reports."""

import copy
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "drills"
NAMES = ("control-cluster", "write-loss-cluster", "split-brain-cluster", "write-loss-sentinel", "split-brain-sentinel")


def recorded(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    document = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return document["run"], document["series"]


def sweep() -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads((FOLDER / "lag-sweep-cluster.json").read_text(encoding="utf-8"))["runs"]
    return runs


def changed(document: dict[str, Any], **changes: object) -> dict[str, Any]:
    """A copy with some values changed; `ops__acked=1` sets `acked` in `ops`."""
    found = copy.deepcopy(document)
    for path, value in changes.items():
        *parents, key = path.split("__")
        part = found
        for parent in parents:
            part = part[parent]
        part[key] = value
    return found


def killed() -> tuple[dict[str, Any], dict[str, Any]]:
    """A run that was killed before the first measurement."""
    run, series = recorded("write-loss-cluster")
    nothing = changed(
        run,
        verdict="inconclusive",
        reasons=["the run was killed after `ordered`"],
        ops=dict.fromkeys(run["ops"], 0),
        lost=None,
        survived=None,
        lost_local=None,
        survived_local=None,
        duplicated=None,
        loss_bound=None,
        admission=None,
        times_ms=dict.fromkeys(run["times_ms"]),
        clients=[],
        fault={"method": "", "verified": None, "cut_ms": None},
        heal={"ok": False, "residue": None},
        metrics=dict.fromkeys(run["metrics"]),
        doomed={"count": 0, "head": [], "copied_from_victim": 0},
        configuration={},
        failure="the server did not start",
    )
    empty = {**series, "end_ms": 0.0, "events": [], "instants": dict.fromkeys(series["instants"])}
    return nothing, {**empty, "rates": {}, "lost": [0], "latency": {}, "nodes": {}}
