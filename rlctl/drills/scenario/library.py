"""Finds scenarios by name: the scenarios that rlctl ships, and a user's scenario files."""

from functools import cache
from pathlib import Path

from rlctl.drills.scenario.load import ScenarioFile, read_scenario
from rlctl.errors import NotFound
from rlctl.system.files import read_text
from rlctl.topology.model import Kind

FLAGSHIPS = ("write-loss", "split-brain")
FOLDER = Path(__file__).parents[1] / "scenarios"
# The shipped scenarios in the order in which users should learn them: the method, loss, split brain, restarts, operator
# actions, clients.
ORDER = (
    *("control", "crash", "write-loss", "write-loss-wait", "write-loss-min-replicas", "lag-sweep"),
    *("split-brain", "split-brain-min-replicas", "short-partition", "replica-isolated"),
    *("restart-empty", "restart-aof", "pause"),
    *("planned-failover", "takeover", "rolling-restart", "quorum-lost", "two-primaries-down", "no-replica-shard"),
    *("noscript-after-failover", "fail-open", "clock-skew", "stale-map", "matrix"),
)


@cache
def shipped(name: str) -> ScenarioFile:
    path = FOLDER / f"{name}.yaml"
    return read_scenario(path.read_bytes(), f"{name}.yaml")


def find(name: str) -> ScenarioFile:
    """The shipped scenario with this name, or the scenario in this file. Raises NotFound."""
    if name in ORDER:
        return shipped(name)
    if not name.endswith((".yaml", ".yml")):
        raise NotFound(
            f"there is no scenario {name!r}", hint="see `rlctl failover-drill list`; a scenario file ends in .yaml"
        )
    text = read_text(Path(name))
    if text is None:
        raise NotFound(f"{name}: no such file", hint="give a scenario file, or a name from `rlctl failover-drill list`")
    return read_scenario(text.encode(), name)


def all_shipped() -> tuple[ScenarioFile, ...]:
    return tuple(map(shipped, ORDER))


def flagships(kind: Kind) -> tuple[ScenarioFile, ...]:
    """The scenarios that run by default: write loss and split brain."""
    return tuple(one for one in map(shipped, FLAGSHIPS) if kind in one.kinds)
