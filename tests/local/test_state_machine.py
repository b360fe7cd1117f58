"""Random walks of faults and commands on a real fleet: each deploy makes it healthy and keeps its counts.

RLCTL_STEPS is the length of a walk. RLCTL_SEED, or the commit, chooses it; a failure shows the seed and the steps.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from rlctl.errors import Exit
from rlctl.execute.session import open_fleet
from rlctl.state.home import Home
from rlctl.topology.load import load_topology
from tests.kills import kill_at_line
from tests.local.counts import Counts, read_counts, write_counts
from tests.local.driver import LocalFleet, Ran, cluster_document, is_gone, sentinel_document, wait_for
from tests.local.rules.files import rule, write
from tests.seed import SEED, chance
from tests.unit.proof import prove

STEPS = int(os.environ.get("RLCTL_STEPS", "10"))
# Exit codes that a command may have on a damaged fleet: it succeeded, or it names the problem.
CLEAN = {
    *(Exit.OK, Exit.NOT_FOUND, Exit.UNREACHABLE, Exit.TIMEOUT, Exit.GUARD, Exit.DECLINED, Exit.PARTIAL),
    *(Exit.CHECK_FAILED, Exit.DEGRADED, Exit.CRITICAL),
}
FIRST_RELEASE = "1.0.0"
# On a damaged fleet a command may wait until its time limit.
BRIEF = "10s"


@dataclass(slots=True)
class Walk:
    """A fleet, and the state that it must have after the next deploy."""

    fleet: LocalFleet
    chance: random.Random
    counts: Counts = field(default_factory=dict)
    # Values of which one must be in force; None if any may be, because a failed command may have changed it.
    limits: set[int] | None = None
    revisions: dict[int, int] = field(default_factory=dict)
    wiped: set[str] = field(default_factory=set)
    fenced: set[str] = field(default_factory=set)
    way: list[str] = field(default_factory=list)

    # --- faults

    def kill(self) -> None:
        name = self._any()
        self._end(name)
        self.way.append(f"kill {name}")

    def wipe(self) -> None:
        """Never all nodes of a kind: without the files of any sentinel, a used fleet looks like a new one."""
        name = self._any()
        if len({one for one in (*self.wiped, name) if one[:4] == name[:4]}) > 1:
            return
        self._end(name)
        shutil.rmtree(self.fleet.node_folder(name))
        self.wiped.add(name)
        self.way.append(f"wipe {name}")

    def pause(self) -> None:
        name = self._any()
        process = self._running()[name]
        process.suspend()
        # The signal takes effect a moment later, and resume() looks for stopped processes.
        wait_for(lambda: process.status() == psutil.STATUS_STOPPED, f"{name} is stopped")
        self.way.append(f"pause {name}")

    def resume(self) -> None:
        paused = {name: one for name, one in self._running().items() if one.status() == psutil.STATUS_STOPPED}
        for name, process in paused.items():
            process.resume()
            self.way.append(f"resume {name}")

    # --- commands

    def fence(self) -> None:
        name = self._any("node")
        if self._try("fence", name, "--confirm", "limiter").code == Exit.OK:
            self.fenced.add(name)

    def unfence(self) -> None:
        for name in sorted(self.fenced):
            if self._try("unfence", name, "--yes").code == Exit.OK:
                self.fenced.discard(name)

    def failover(self) -> None:
        shard = self.chance.randrange(3 if self.fleet.document["kind"] == "cluster" else 1)
        self._try("failover", str(shard), "--yes", "--timeout", BRIEF)

    def killed_deploy(self) -> None:
        """A deploy that has steps. With hung nodes it would only wait for minutes."""
        self.resume()
        self.kill()
        line = self.chance.randint(1, 4)
        code, said = kill_at_line(self.fleet, line, "deploy", "--yes")
        self.way.append(f"deploy, killed at line {line}: {code}")
        assert code in CLEAN | {-signal.SIGKILL}, said

    def resize(self) -> None:
        now = yaml.safe_load(self.fleet.file.read_text(encoding="utf-8"))["memory"]["maxmemory"]
        self._try("resize", f"{int(now.removesuffix('mb')) + 8}mb", "--yes", "--timeout", BRIEF)

    def apply_rules(self) -> None:
        limit = self.chance.randint(1, 10**6)
        write(self.fleet, rule(limit=limit))
        ran = self._try("rules", "apply", "rules.yaml", "--yes")
        if ran.code == Exit.OK:
            self.limits, self.revisions[ran.json()["revision"]] = {limit}, limit
        elif self.limits is not None:
            self.limits.add(limit)

    def roll_rules_back(self) -> None:
        ran = self._try("rules", "rollback", "--yes")
        known = self.revisions.get(ran.json()["revision"]) if ran.code == Exit.OK else None
        self.limits = None if known is None else {known}

    def apply_scripts(self) -> None:
        self._try("scripts", "apply", "--yes")

    def roll_scripts_back(self) -> None:
        self._try("scripts", "rollback", "--to", FIRST_RELEASE, "--yes")

    def deploy(self) -> None:
        """Assert that the fleet is healthy again and has all its counts, unless a loss was agreed to."""
        self.resume()
        self.prove()
        ran = self._try("deploy", "--yes", "--wait")
        if ran.code == Exit.DECLINED:
            assert "--confirm limiter" in ran.error()["hint"], ran.err
            ran = self._try("deploy", "--confirm", "limiter")
            self.counts, self.limits = {}, None
        assert ran.code == Exit.OK, ran.err
        self.wiped.clear()
        self.unfence()
        assert not self.fenced
        self.check()

    def prove(self) -> None:
        """Assert that the planner's rules hold for the observed fleet, too. A plan does not lift fences.

        A plan that is made during an election need not be the last one, so the plan afterwards is checked.
        """
        if not self.fenced:
            wait_for(self._is_proven, "the plan for what is there keeps the planner's rules", timeout_s=60)

    def _is_proven(self) -> bool:
        files = self.fleet
        with open_fleet(load_topology(files.file.read_bytes(), str(files.file)), Home(files.home)) as fleet:
            observed = fleet.observe()
            try:
                prove(fleet.desired(observed), observed)
            except AssertionError:
                self.way.append("(a plan that is not the last one)")
                return False
        return True

    def check(self) -> None:
        fleet = self.fleet
        assert fleet.status()["state"] == "healthy"
        assert fleet.run("deploy", "--dry-run").out == "limiter: no change\n"
        assert len(fleet.processes()) == len(fleet.status()["nodes"])
        assert read_counts(fleet, self.counts) == self.counts
        if self.limits is not None:
            in_force = fleet.run("rules", "status", "-o", "json").json()["rules"][0]["parameters"]["limit"]
            assert in_force in self.limits
        assert list((fleet.home / "bugs").glob("*")) == []
        self.counts = write_counts(fleet, 50)

    # --- what they stand on

    def _any(self, kind: str = "") -> str:
        """A node whose process exists, paused or not."""
        return self.chance.choice(sorted(name for name in self._running() if name.startswith(kind)))

    def _running(self) -> dict[str, psutil.Process]:
        found: dict[str, psutil.Process] = {}
        for process in self.fleet.processes():
            # A process that was killed a moment ago may end between the list and this call.
            with suppress(psutil.Error):
                found[Path(process.cwd()).name] = process
        return found

    def _end(self, name: str) -> None:
        process = self._running()[name]
        process.kill()
        wait_for(lambda: is_gone(process.pid), f"the end of {name}")

    def _try(self, *words: str) -> Ran:
        """A command that succeeds, or reports why not."""
        began = time.monotonic()
        ran = self.fleet.run(*words, "-o", "json", expect=None)
        self.way.append(f"{' '.join(words)}: {ran.code} after {time.monotonic() - began:.1f} s")
        assert ran.code in CLEAN, ran.err
        assert "Traceback" not in ran.err
        return ran


FAULTS = (Walk.kill, Walk.wipe, Walk.pause, Walk.resume)
COMMANDS = (Walk.fence, Walk.unfence, Walk.failover, Walk.killed_deploy, Walk.resize)
CHANGES = (Walk.apply_rules, Walk.roll_rules_back, Walk.apply_scripts, Walk.roll_scripts_back)
ACTIONS: tuple[Callable[[Walk], None], ...] = (*FAULTS, *FAULTS, *COMMANDS, *CHANGES)
# The average number of actions between two deploys.
BETWEEN = 3


@pytest.mark.parametrize("document", [cluster_document, sentinel_document], ids=["cluster", "sentinel"])
def test_a_walk(
    make_fleet: Callable[[dict[str, Any]], LocalFleet],
    document: Callable[..., dict[str, Any]],
    request: pytest.FixtureRequest,
) -> None:
    chosen = chance(request.node.name)
    mode = chosen.choice(["aof", "rdb", "none"])
    walk = Walk(fleet=make_fleet(document(persistence={"mode": mode})), chance=chosen, way=[f"persistence {mode}"])
    try:
        walk.deploy()
        walk.apply_rules()
        for step in range(1, STEPS + 1):
            walk.chance.choice(ACTIONS)(walk)
            if step == STEPS or walk.chance.randrange(BETWEEN) == 0:
                walk.deploy()
    except BaseException as failure:
        failure.add_note("\n".join([f"RLCTL_SEED={SEED} RLCTL_STEPS={STEPS}, after:", *walk.way]))
        raise
