"""Runbooks on a deployed fleet, and rehearsals that must fail: a useless step, a missing one, a residue."""

import signal
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlctl.assets import asset_folder
from rlctl.system.process import ProcessRunner
from rlctl.system.sandbox import why_unavailable
from tests.conftest import skip_or_fail
from tests.local.driver import SERVERS, LocalFleet, cluster_document, wait_for
from tests.local.terminal import ANSI, at_terminal

# Do not wait for trials, which would take minutes.
STOPPED_S = 30.0
LOAD = """\
**`load`** (mutate)
```sh id=load risk=mutate timeout=60s
rlctl scripts apply --yes -o json
```
"""
WAIT = """\
**`load`** (read)
```sh id=load risk=read timeout=5m
rlctl status --wait --timeout 5m -o json
```
"""
DEAD = """
**`dead`** (mutate)
```sh id=dead risk=mutate timeout=60s
rlctl rules apply $RL_DIR/rules.yaml --yes -o json
```
"""
FENCE = """
A replica refuses what nobody writes to it:

**`fence`** (danger)
```sh id=fence risk=danger timeout=60s
rlctl fence node-3 --confirm $RL_FLEET -o json
```
"""


@pytest.fixture
def fleet(make_fleet: Callable[[dict[str, Any]], LocalFleet]) -> LocalFleet:
    found = make_fleet(cluster_document())
    found.deploy()
    return found


@pytest.fixture
def _sandbox() -> None:
    reason = why_unavailable(ProcessRunner())
    if reason is not None:
        skip_or_fail("local", reason)


def flush(fleet: LocalFleet) -> None:
    for node in fleet.status()["nodes"]:
        fleet.connect(node["name"]).script_flush()


def transcripts(fleet: LocalFleet) -> list[Path]:
    return sorted((fleet.home / "runbooks").glob("*.md"))


def test_a_page_is_carried_out(fleet: LocalFleet) -> None:
    flush(fleet)
    ran = fleet.run("runbook", "run", "RB-09", "--yes", "-o", "json")

    found = ran.json()
    assert found["schema"] == "rlctl.runbook-run/1"
    assert (found["runbook"], found["fleet"], found["outcome"]) == ("RB-09", fleet.name, "recovered")
    assert [step["outcome"] for step in found["steps"]] == ["done"] * 6
    assert found["recovered_s"] > 0
    assert fleet.status()["state"] == "healthy"
    [transcript] = transcripts(fleet)
    assert str(transcript) == found["transcript"]
    assert stat.S_IMODE(transcript.stat().st_mode) == 0o600
    text = transcript.read_text()
    assert "rlctl scripts apply --yes" in text
    assert "every check passed within" in text
    assert not any(secret in text for secret in passwords(fleet))


def passwords(fleet: LocalFleet) -> list[str]:
    return [fleet.access(who)["password"] for who in ("limiter", "admin", "monitor")]


def test_a_dry_run_lists_the_steps_of_this_kind(shared_cluster: LocalFleet) -> None:
    before = transcripts(shared_cluster)
    planned = shared_cluster.run("runbook", "run", "RB-02", "--dry-run", "-o", "json", expect=10).json()
    commands = {step["id"]: step["command"] for step in planned["steps"]}
    assert commands["look"] == "rlctl status -o json"
    assert "fence" not in commands, "that step is for Sentinel"
    shown = shared_cluster.run("runbook", "run", "RB-01", "--dry-run", expect=10).out
    assert f"--confirm {shared_cluster.name}" in shown
    assert transcripts(shared_cluster) == before


def test_without_leave_nothing_is_changed(fleet: LocalFleet) -> None:
    flush(fleet)
    ran = fleet.run("runbook", "run", "RB-09", expect=9)

    assert "stopped before step load" in ran.err
    assert "--yes agrees in advance" in ran.err
    assert f"RB-09 NOSCRIPT storm, on {fleet.name} (cluster); transcript: " in ran.err
    assert "load" not in ran.out
    assert fleet.run("scripts", "status", "-o", "json", expect=10).json()["drift"]
    [transcript] = transcripts(fleet)
    assert "Declined: `rlctl scripts apply --yes -o json`" in transcript.read_text()


def test_danger_is_not_covered_by_yes(make_fleet: Callable[[dict[str, Any]], LocalFleet]) -> None:
    fleet = make_fleet(cluster_document(persistence={"mode": "none"}))
    fleet.deploy()
    fleet.kill("node-0", "node-1")
    wait_for(lambda: fleet.run("status", "--views", expect=None).code == 12, what="the majority missed")
    ran = fleet.run("runbook", "run", "RB-04", "--yes", expect=9)

    assert f"--confirm {fleet.name} agrees in advance; --yes does not" in ran.err
    assert f"takeover: rlctl deploy --confirm {fleet.name}" in ran.err
    assert "LOSS: Promote the replica of every dead shard without an election," in ran.err
    assert f"had not received are lost: `rlctl deploy --confirm {fleet.name}" in ran.err


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["int", "term", "hup"]
)
def test_a_passage_that_is_stopped_stops_its_step(fleet: LocalFleet, number: signal.Signals, code: int) -> None:
    flush(fleet)
    page = fleet.folder / "RB-09-noscript-storm.md"
    text = (asset_folder("runbooks") / page.name).read_text(encoding="utf-8")
    page.write_text(text.replace(LOAD, WAIT).replace("risk: mutate", "risk: read"))
    command = fleet.spawn("runbook", "run", str(page), "--yes")
    try:
        wait_for(lambda: steps_below(command.pid, "--wait"), "the step that waits in vain")
        steps = steps_below(command.pid, "--wait")
        command.send_signal(number)
        _out, said = command.communicate(timeout=STOPPED_S)
    finally:
        command.kill()
        command.communicate()
    assert command.returncode == code
    assert not any(step.is_running() for step in steps)
    [transcript] = transcripts(fleet)
    assert f"transcript: {transcript}" in said
    ending = "Interrupted: stopped at a safe point; completed steps are not undone."
    assert transcript.read_text().rstrip().endswith(ending)


def steps_below(pid: int, word: str) -> list[psutil.Process]:
    """The processes of the step that is running, found by a word of their command."""
    return [child for child, (_name, words) in processes_below(pid).items() if word in words]


def test_the_wrong_page_says_so(shared_cluster: LocalFleet) -> None:
    ran = shared_cluster.run("runbook", "run", "RB-09", "--yes", expect=13)

    assert "at step look: exit 0, expected 10" in ran.out
    assert "nothing was changed: the fleet has no fault that RB-09 is for" in ran.out
    assert "To the owner of the fleet" not in ran.out, "nobody is called for a fault that is not there"
    assert (
        "RB-12 is for sentinel, this fleet is of kind cluster"
        in shared_cluster.run("runbook", "run", "RB-12", expect=5).err
    )
    assert "there is no runbook 'RB-99'" in shared_cluster.run("runbook", "run", "RB-99", expect=5).err


def test_findings_and_decisions_name_their_page(fleet: LocalFleet) -> None:
    fleet.kill("node-3")
    findings = {one["code"]: one for one in fleet.status(expect=None)["findings"]}
    assert findings["node-down"]["runbook"] == "RB-01"
    assert "(RB-01)" in fleet.run("status", expect=None).out
    assert "(RB-01)" in fleet.run("doctor", expect=None).out
    checks = {one["name"]: one for one in fleet.run("doctor", "-o", "json", expect=None).json()["checks"]}
    assert checks["node-down"]["runbook"] == "RB-01"
    assert checks["file-modes"]["runbook"] is None
    fleet.deploy()

    for node in fleet.status()["nodes"]:
        fleet.connect(node["name"]).execute_command("ACL", "SETUSER", "limiter", "off")
    words = ("limit", "--algorithm", "fixed_window", "--peek", "--on-failure", "open", "ada")
    assert "Redis did not decide: auth; `rlctl runbook show RB-17`" in fleet.run(*words).err
    fleet.deploy()


def test_pages_are_shown(shared_cluster: LocalFleet) -> None:
    listed = shared_cluster.run("runbook", "list", "-o", "json").json()["runbooks"]
    assert len(listed) >= 12
    shown = shared_cluster.run("runbook", "show", "RB-04")
    assert f"rlctl deploy --confirm {shared_cluster.name}" in shown.out
    assert "As expected: exit 0 (well, or done); its JSON satisfies `state=='healthy'`; within 90s." in shown.out
    steps = {one["id"]: one for one in shared_cluster.run("runbook", "show", "RB-04", "-o", "json").json()["steps"]}
    assert next(iter(steps)) == "look"
    assert steps["takeover"]["when"]["step"] == "plan"
    assert (steps["healthy"]["expect"], steps["healthy"]["timeout"]) == ("state=='healthy'", "90s")


def test_a_forgotten_fence_is_found_and_lifted(fleet: LocalFleet) -> None:
    """Run the page that status names. The page for dead primaries does not change a live one."""
    fleet.run("fence", "node-0", "--confirm", fleet.name)
    [finding] = fleet.status(expect=11)["findings"]
    assert finding["runbook"] == "RB-02"
    wrong = fleet.run("runbook", "run", "RB-01", "--yes", "--confirm", fleet.name, expect=13)
    assert "at step look" in wrong.out

    found = fleet.run("runbook", "run", finding["runbook"], "--yes", "-o", "json").json()
    assert {one["id"]: one["outcome"] for one in found["steps"]}["lift"] == "done"
    assert fleet.status()["state"] == "healthy"


def test_a_terminal_shows_the_names_that_decide_speaks_of(shared_cluster: LocalFleet) -> None:
    with at_terminal(shared_cluster, "runbook", "show", "RB-01") as terminal:
        _, shown = terminal.finish()
    assert "recheck (read, only cluster, $RL_SHARD from views, $RL_SHARD from wait)" in ANSI.sub("", shown)
    assert "As expected: exit 8 (refused, nothing was changed) or 10 (there is something to do)" in ANSI.sub("", shown)


def test_it_asks_with_the_step_and_the_fleet(fleet: LocalFleet) -> None:
    flush(fleet)
    with at_terminal(fleet, "runbook", "run", "RB-09") as terminal:
        asked = ANSI.sub("", terminal.read_until("run it?"))
        terminal.answer("n")
        code, shown = terminal.finish()
    assert f"load: rlctl scripts apply --yes -o json\n  this changes fleet {fleet.name};" in asked
    assert code == 9
    assert "stopped before step load" in shown
    assert "--dry-run" not in shown, "no such option here"


def test_a_page_is_shown_without_a_fleet(tmp_path: Path, cluster: LocalFleet) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("version: 9\n")
    ran = cluster.run_bare("-f", str(broken), "runbook", "show", "RB-04")
    assert "rlctl deploy --confirm $RL_FLEET" in ran.out
    assert "the page shows variables instead of names" in ran.err


@pytest.mark.usefixtures("_sandbox")
class TestTheTest:
    """`runbook test` on pages with deliberate mistakes."""

    def proof(self, fleet: LocalFleet, text: str, expect: int) -> dict[str, Any]:
        page = fleet.folder / "RB-09-noscript-storm.md"
        page.write_text(text)
        words = ("runbook", "test", str(page), "--kind", "cluster", "-o", "json")
        return fleet.run_bare(*words, expect=expect).json()

    @pytest.fixture
    def text(self) -> str:
        return (asset_folder("runbooks") / "RB-09-noscript-storm.md").read_text(encoding="utf-8")

    @pytest.fixture
    def nothing_deployed(self, cluster: LocalFleet) -> LocalFleet:
        return cluster

    def test_a_page_that_is_well(self, nothing_deployed: LocalFleet, text: str) -> None:
        found = self.proof(nothing_deployed, text, expect=0)
        assert found["verdict"] == "pass"
        assert found["passages"][0]["recovered_s"] > 0
        assert [one["step"] for one in found["omissions"]] == ["load"]

    def test_a_missing_step(self, nothing_deployed: LocalFleet, text: str) -> None:
        spoiled = text.replace(LOAD, "Nothing.\n").replace("`load`", "`plan`").replace("risk: mutate", "risk: read")
        found = self.proof(nothing_deployed, spoiled, expect=14)
        assert found["verdict"] == "fail"
        assert "complete: exit 10" in found["passages"][0]["reason"]

    def test_a_dead_step(self, nothing_deployed: LocalFleet, text: str) -> None:
        found = self.proof(nothing_deployed, text.replace(LOAD, LOAD + DEAD), expect=14)
        assert found["passages"][0]["verdict"] == "pass"
        assert {one["step"]: one["noticed"] is None for one in found["omissions"]} == {"load": False, "dead": True}

    def test_a_step_that_no_fault_calls_for(self, nothing_deployed: LocalFleet, text: str) -> None:
        never = DEAD.replace("risk=mutate", "risk=mutate when=\"look: release=='none'\"")
        spoiled = text.replace(LOAD, LOAD + never).replace(
            "| another release is registered | RB-10 |", "| so | `dead` |"
        )
        found = self.proof(nothing_deployed, spoiled, expect=14)
        assert [one["step"] for one in found["unused"]] == ["dead"]

    def test_a_residue(self, nothing_deployed: LocalFleet, text: str) -> None:
        spoiled = text.replace(LOAD, LOAD + FENCE).replace("risk: mutate", "risk: danger")
        found = self.proof(nothing_deployed, spoiled, expect=14)
        assert "fenced" in found["passages"][0]["reason"]

    @pytest.mark.parametrize(
        ("number", "code"),
        [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)],
        ids=["int", "term", "hup", "kill"],
    )
    def test_it_can_be_stopped(
        self, nothing_deployed: LocalFleet, text: str, number: signal.Signals, code: int
    ) -> None:
        page = nothing_deployed.folder / "RB-09-noscript-storm.md"
        page.write_text(text.replace(LOAD, WAIT).replace("risk: mutate", "risk: read"))
        command = nothing_deployed.spawn("runbook", "test", str(page), "--kind", "cluster", "-v")
        try:
            assert command.stderr is not None
            assert any("history: done" in line for line in command.stderr), "the next step waits in vain"
            found = processes_below(command.pid)
            assert any(name in SERVERS for name, _words in found.values())
            command.send_signal(number)
            command.communicate(timeout=STOPPED_S)
        finally:
            command.kill()
            command.communicate()
        assert command.returncode == code
        wait_for(lambda: not any(child.is_running() for child in found), what="every process of the trials gone")
        folders = {Path(word) for _name, words in found.values() for word in words if "/throw-away/" in word}
        assert folders
        assert any(folder.exists() for folder in folders) == (number == signal.SIGKILL)
        nothing_deployed.run("failover-drill", "heal")
        assert not any(folder.exists() for folder in folders)


def processes_below(pid: int) -> dict[psutil.Process, tuple[str, list[str]]]:
    """All child processes, with names and command lines, except those that end meanwhile."""
    found = {}
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):
            found[child] = (child.name(), child.cmdline())
    return found
