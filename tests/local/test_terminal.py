"""Output: colours and questions at a terminal, plain whole lines in a pipe."""

import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.local.driver import PATIENCE_S, LocalFleet
from tests.local.terminal import ANSI, COLOUR, at_terminal


def test_colours_appear_at_a_terminal(shared_cluster: LocalFleet) -> None:
    with at_terminal(shared_cluster, "status") as terminal:
        code, shown = terminal.finish()
    assert code == 0
    assert COLOUR.search(shown)
    assert "healthy fleet shared" in ANSI.sub("", shown)


@pytest.mark.parametrize("words", [("--no-color", "status"), ("status", "--no-color")], ids=["before", "after"])
def test_no_color_option(shared_cluster: LocalFleet, words: tuple[str, ...]) -> None:
    with at_terminal(shared_cluster, *words) as terminal:
        code, shown = terminal.finish()
    assert code == 0
    assert not COLOUR.search(shown)


def test_no_color_variable(shared_cluster: LocalFleet) -> None:
    with at_terminal(shared_cluster, "status", NO_COLOR="1") as terminal:
        _code, shown = terminal.finish()
    assert not COLOUR.search(shown)


@pytest.mark.parametrize("words", [("status", "-v"), ("doctor", "-v"), ("history",)], ids=lambda words: words[0])
@pytest.mark.parametrize("columns", ["40", "200"])
def test_a_pipe_has_no_codes_and_no_width(shared_cluster: LocalFleet, words: tuple[str, ...], columns: str) -> None:
    ran = shared_cluster.run(*words, expect=None, COLUMNS=columns, TERM="xterm-256color", FORCE_COLOR="")
    assert "\x1b" not in ran.out
    assert "…" not in ran.out
    if words[0] == "status":
        for node in shared_cluster.status()["nodes"]:
            [line] = [line for line in ran.out.splitlines() if line.startswith(f"{node['name']} ")]
            assert {node["id"], f"{node['host']}:{node['port']}", node["version"]} <= set(line.split())


def test_a_narrow_terminal_folds_and_cuts_nothing(shared_cluster: LocalFleet) -> None:
    shown = {}
    for columns in (200, 40, 25):
        with at_terminal(shared_cluster, "history", columns=columns) as terminal:
            shown[columns] = ANSI.sub("", terminal.finish()[1])
        assert max(len(line) for line in shown[columns].splitlines()) <= columns
    whole = Counter("".join(shown[200].split()))
    assert Counter("".join(shown[40].split())) == whole
    assert Counter("".join(shown[25].split())) == whole


def test_the_prompt_lists_the_steps_and_n_declines(shared_cluster: LocalFleet) -> None:
    drifted = shared_cluster.connect("node-0")
    before = drifted.config_get("maxmemory")["maxmemory"]
    drifted.config_set("maxmemory", "50mb")
    try:
        with at_terminal(shared_cluster, "deploy") as terminal:
            asked = terminal.read_until("[y/N]")
            terminal.answer("n")
            code, shown = terminal.finish()
        assert "node-0: set maxmemory to 64mb (was 50mb)" in asked
        assert code == 9
        assert "declined" in shown
        assert drifted.config_get("maxmemory")["maxmemory"] == str(50 * 1024 * 1024)
        with at_terminal(shared_cluster, "deploy") as terminal:
            terminal.read_until("[y/N]")
            terminal.answer("y")
            code, shown = terminal.finish()
        assert code == 0
        assert "healthy after 1 step" in shown
        assert drifted.config_get("maxmemory")["maxmemory"] == before
    finally:
        drifted.config_set("maxmemory", before)
        drifted.close()


def test_quiet_hides_nothing_of_what_is_asked(shared_cluster: LocalFleet) -> None:
    with at_terminal(shared_cluster, "-q", "failover", "0", "--force") as terminal:
        asked = terminal.read_until("type the fleet's name (shared)")
        terminal.answer("")
        assert terminal.finish()[0] == 9
    assert "LOSS: " in asked


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_question_at_once(shared_cluster: LocalFleet, number: signal.Signals, code: int) -> None:
    with at_terminal(shared_cluster, "failover", "0") as terminal:
        terminal.read_until("[y/N]")
        terminal.process.send_signal(number)
        ended, shown = terminal.finish()
    assert ended == code
    assert "stopped at a question" in shown


def test_a_question_ends_with_its_terminal(shared_cluster: LocalFleet) -> None:
    with at_terminal(shared_cluster, "failover", "0") as terminal:
        terminal.read_until("[y/N]")
        terminal.hang_up()
        assert terminal.process.wait(timeout=PATIENCE_S) == 129


def test_the_end_of_the_input_declines(shared_cluster: LocalFleet) -> None:
    with at_terminal(shared_cluster, "failover", "0") as terminal:
        terminal.read_until("[y/N]")
        terminal.press(b"\x04")
        code, shown = terminal.finish()
    assert code == 9
    assert "not answered" in shown


def test_destroy_wants_the_name_typed(shared_cluster: LocalFleet) -> None:
    with at_terminal(shared_cluster, "destroy") as terminal:
        terminal.read_until("type the fleet's name (shared)")
        terminal.answer("limiter")
        code, shown = terminal.finish()
    assert code == 9
    assert "'limiter' is not the fleet's name" in shown
    assert shared_cluster.status()["state"] == "healthy"


def test_unlock_asks_at_a_terminal(shared_cluster: LocalFleet) -> None:
    with at_terminal(shared_cluster, "unlock") as terminal:
        code, shown = terminal.finish()
    assert code == 0
    assert "not locked" in shown


@pytest.mark.parametrize("words", [("--watch",), ("--watch", "-o", "json")], ids=["table", "json"])
def test_watch_shows_readings_until_ctrl_c(shared_cluster: LocalFleet, words: tuple[str, ...]) -> None:
    process = shared_cluster.spawn("status", *words)
    try:
        assert process.stdout is not None
        readings = 0
        while readings < 3:
            line = process.stdout.readline()
            assert line, "status --watch ended by itself"
            readings += "healthy fleet" in line or '"state": "healthy"' in line
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert err == ""


def test_quiet_leaves_results_and_errors_only(shared_cluster: LocalFleet) -> None:
    drifted = shared_cluster.connect("node-1")
    for words, told in ((("deploy", "--yes"), True), (("-q", "deploy", "--yes"), False)):
        drifted.config_set("maxmemory", "50mb")
        ran = shared_cluster.run(*words)
        assert "healthy" in ran.out
        assert ("set maxmemory" in ran.err) is told
        assert "set maxmemory" not in ran.out
    drifted.close()
    assert "rlctl:" in shared_cluster.run("-q", "-f", "nowhere.yaml", "status", expect=5).err


@pytest.mark.parametrize("shards", [3, 40], ids=["at the last flush", "in the middle"])
def test_a_reader_that_goes_away_is_no_failure(cluster: LocalFleet, shards: int) -> None:
    """The output for forty shards exceeds the buffer of a pipe, so rlctl still writes when the reader exits."""
    cluster.document["cluster"]["shards"] = shards
    cluster.write()
    process = cluster.spawn("render", "config")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


def test_who_stops_reading_the_progress_stops_nothing(shared_cluster: LocalFleet) -> None:
    drifted = shared_cluster.connect("node-1")
    drifted.config_set("maxmemory", "50mb")
    process = shared_cluster.spawn("deploy", "--yes", "-v")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stderr.close()
    assert "healthy" in process.stdout.read()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert drifted.config_get("maxmemory")["maxmemory"] == str(64 * 1024 * 1024)
    drifted.close()


def test_a_full_disk_under_stdout_is_no_bug(shared_cluster: LocalFleet) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            shared_cluster.argv("status"),
            env=shared_cluster.env(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 6
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
