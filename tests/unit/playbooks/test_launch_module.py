"""Starting nodes together: their tokens, how long is waited, and what is told of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.playbooks.calling import Answer, Called, load, run

LAUNCH = load("rlctl_launch")
UNIT = "rlctl-limiter@%i.service"
DOWN, UP, STARTING = (
    ("inactive", "dead", "success"),
    ("active", "running", "success"),
    ("activating", "start", "success"),
)
CRASHED, RESTARTING = ("failed", "failed", "exit-code"), ("activating", "auto-restart", "exit-code")
State = tuple[str, str, str]


@dataclass
class Host:
    """A systemd: each node is in its first state until the start, then goes through the others, one at each look."""

    folder: Path
    states: dict[str, list[State]]
    jobs: list[str] = field(default_factory=list)
    journal: str = ""
    complaint: str = ""
    tokens: dict[str, str] = field(default_factory=dict)
    is_started: bool = False
    now_s: float = 1000.0

    def __call__(self, argv: list[str]) -> Answer:
        match argv[:2]:
            case ["systemctl", "show"]:
                return 0, "\n\n".join(self._shown(unit) for unit in argv if unit.endswith(".service")) + "\n", ""
            case ["systemctl", "start"]:
                self.is_started = True
                self.states = {node: line[1:] or line for node, line in self.states.items()}
                self.tokens = {path.name: path.read_text() for path in (self.folder / "run/rlctl/limiter").iterdir()}
                return 0, "", self.complaint
            case ["systemctl", "list-jobs"]:
                return 0, self.jobs.pop(0) if self.jobs else "", ""
            case ["journalctl", _] if "--show-cursor" in argv:
                return 0, "-- cursor: s=1\n", ""
            case ["journalctl", _]:
                assert argv[argv.index("--after-cursor") + 1] == "s=1"
                return 0, self.journal, ""
            case _:
                return 0, "", ""

    def _shown(self, unit: str) -> str:
        states = self.states[unit.partition("@")[2].removesuffix(".service")]
        state = states.pop(0) if self.is_started and len(states) > 1 else states[0]
        return "\n".join(f"{name}={value}" for name, value in zip(LAUNCH._STATES, state, strict=True))

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Starts nodes on a host below the test's folder, on a clock that only waiting moves."""

    def start(
        states: Mapping[str, list[State]],
        follow: Mapping[str, object] | None = None,
        *,
        check: bool = False,
        timeout: int = 120,
        **told: Any,
    ) -> tuple[dict[str, Any], Host, list[list[str]]]:
        host = Host(folder=tmp_path, states={node: list(line) for node, line in states.items()}, **told)
        clock = SimpleNamespace(monotonic=lambda: host.now_s, time=lambda: host.now_s, sleep=host.sleep)
        monkeypatch.setattr(LAUNCH, "time", clock)
        monkeypatch.setattr(LAUNCH, "Path", lambda text: tmp_path / text.lstrip("/"))
        launches = {node: {"follow": (follow or {}).get(node)} for node in states}
        given = {"fleet": "limiter", "launches": launches, "unit": UNIT, "timeout": timeout}
        result, called = run(LAUNCH, monkeypatch, host, check=check, **given)
        return result, host, [argv for argv in called.ran if argv[:2] == ["systemctl", "start"]]

    return start


OK, CHANGED = {"status": "ok", "message": ""}, {"status": "changed", "message": ""}


def test_only_what_is_down_is_started(launch: Any) -> None:
    result, host, starts = launch({"node-0": [UP], "node-1": [DOWN, UP]})
    assert result == {"changed": True, "nodes": {"node-0": OK, "node-1": CHANGED}}
    assert starts == [["systemctl", "start", "--no-block", "rlctl-limiter@node-1.service"]]
    assert set(host.tokens) == {"node-1.go", "node-1.env"}


def test_where_all_is_up_nothing_is_started(launch: Any) -> None:
    assert launch({"node-0": [UP]})[::2] == ({"changed": False, "nodes": {"node-0": OK}}, [])


def test_check_mode_tells_what_is_down_and_starts_nothing(launch: Any) -> None:
    result, _, starts = launch({"node-0": [UP], "node-1": [DOWN]}, check=True)
    assert (result, starts) == ({"changed": True, "nodes": {"node-0": OK, "node-1": CHANGED}}, [])
    assert launch({"node-0": [UP]}, check=True)[0]["changed"] is False


def test_a_start_has_its_token_and_whom_to_follow_and_neither_stays(launch: Any, tmp_path: Path) -> None:
    primary = {"address": "10.0.0.9", "port": 7000}
    _, host, _ = launch({"node-0": [DOWN, UP], "node-1": [DOWN, CRASHED]}, {"node-1": primary})
    assert host.tokens == {
        "node-0.env": 'RLCTL_FOLLOW=""\n',
        "node-0.go": "",
        "node-1.env": 'RLCTL_FOLLOW="--replicaof 10.0.0.9 7000"\n',
        "node-1.go": "",
    }
    assert list((tmp_path / "run/rlctl/limiter").iterdir()) == []


@pytest.mark.parametrize(
    ("line", "jobs", "waited_s"),
    [
        pytest.param([UP], [], 0, id="up at once"),
        pytest.param([STARTING, STARTING, UP], [], 0.2, id="it takes its time"),
        pytest.param([RESTARTING, CRASHED], [], 0.1, id="its automatic restart is waited for"),
        pytest.param([UP], ["7 rlctl-limiter@node-0.service start waiting\n"], 0.1, id="its job waits"),
        pytest.param([UP], ["7 rlctl-limiter@node-9.service start waiting\n"], 0, id="a job of another"),
        pytest.param([STARTING], [], 2.0, id="it never comes"),
    ],
)
def test_how_long_a_start_is_waited_for(launch: Any, line: list[State], jobs: list[str], waited_s: float) -> None:
    _, host, _ = launch({"node-0": [DOWN, *line]}, jobs=jobs, timeout=2)
    assert host.now_s == pytest.approx(1000 + waited_s, abs=0.001)


def entry(text: str) -> str:
    return f'{{"SYSLOG_IDENTIFIER": "redis-server", "MESSAGE": "{text}"}}\n'


def test_a_node_that_does_not_come_up_fails_alone_in_its_own_words(launch: Any) -> None:
    said = "".join(entry(f"line {number}") for number in (1, 2, 2, 3, 4, 5, 6))
    result, _, _ = launch({"node-0": [DOWN, UP], "node-1": [DOWN, CRASHED]}, journal=said)
    assert result["changed"] is True
    assert result["nodes"]["node-0"] == CHANGED
    assert result["nodes"]["node-1"] == {
        "status": "failed",
        "message": "node-1 did not come up, rlctl-limiter@node-1.service is failed (failed, exit-code): "
        "line 2 / line 3 / line 4 / line 5 / line 6. See `journalctl -u rlctl-limiter@node-1.service`",
    }


def test_where_the_journal_is_silent_systemd_is_quoted(launch: Any) -> None:
    result, _, _ = launch({"node-0": [DOWN, CRASHED]}, complaint="Unit is masked.\n")
    assert "(failed, exit-code): Unit is masked.. See" in result["nodes"]["node-0"]["message"]
    assert result["changed"] is False


@pytest.mark.parametrize(
    ("said", "has_hint"), [("Failed at step USER spawning", True), ("status=217/USER", True), ("no space left", False)]
)
def test_a_host_without_user_namespaces_is_told_what_to_set(launch: Any, said: str, *, has_hint: bool) -> None:
    message = launch({"node-0": [DOWN, CRASHED]}, journal=entry(said))[0]["nodes"]["node-0"]["message"]
    assert ("redis_host_private_users" in message) is has_hint


def test_a_token_that_cannot_be_written_starts_nothing(launch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_launcher: object, node: str) -> None:
        raise OSError(28, "No space left on device", f"/run/{node}.go")

    monkeypatch.setattr(LAUNCH.Launcher, "write_token", refuse)
    result, _, starts = launch({"node-0": [DOWN], "node-1": [UP]})
    why = "node-0 was not started: /run/node-0.go: No space left on device; fix the cause and run again"
    assert result == {"changed": False, "nodes": {"node-0": {"status": "failed", "message": why}, "node-1": OK}}
    assert starts == []


@pytest.mark.parametrize(("shown", "since"), [("-- cursor: s=1\n", "--after-cursor s=1"), ("", "--since @1000")])
def test_the_journal_of_earlier_starts_is_left_out(monkeypatch: pytest.MonkeyPatch, shown: str, since: str) -> None:
    monkeypatch.setattr(LAUNCH, "time", SimpleNamespace(time=lambda: 1000.7))
    module = Called(
        params={"launches": {"node-0": {}}, "unit": UNIT, "fleet": "limiter"},
        answer=lambda argv: (0, shown if "--show-cursor" in argv else "", ""),
    )
    assert LAUNCH.Launcher(module).failure_reason("node-0") == ""
    assert since in " ".join(module.ran[-1])


def test_a_node_that_is_still_starting_at_the_end_has_failed(launch: Any) -> None:
    result, _, _ = launch({"node-0": [DOWN, STARTING]}, timeout=1)
    assert result["changed"] is False
    assert "rlctl-limiter@node-0.service is activating (start, success)" in result["nodes"]["node-0"]["message"]


def test_what_the_guard_says_of_the_restart_is_no_reason() -> None:
    said = [
        ("redis-server", "no space"),
        ("systemd", "Main process exited, code=exited, status=1/FAILURE"),
        ("systemd", "Scheduled restart job, restart counter is at 1."),
        ("start-guard", "node-0 has no token"),
    ]
    assert list(LAUNCH.failure_lines(said)) == ["no space"]
