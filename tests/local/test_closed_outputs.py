"""Outputs that cannot be written: full, closed, or without a reader. The command still makes its changes."""

import json
import os
import pty
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.driver import PATIENCE_S, LocalFleet, Ran, cluster_document

# A pipe that no process reads from the first byte on; `wait` ensures that.
READER_GONE = 'mkfifo gone && { true <gone & } && exec 9>gone && wait && rm gone && exec "$@" '
STDERR = {"full": "2>/dev/full", "closed": "2>&-", "without a reader": "2>&9"}
STREAMS = ("<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-")
RULES = "version: 1\nrules:\n  - {id: api, algorithm: fixed_window, key: 'api:{key}', limit: %d, window: 60s}\n"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """A deployed cluster that these tests change."""
    fleet = LocalFleet(folder=tmp_path_factory.mktemp("outputs"), document=cluster_document(name="outputs"))
    fleet.write()
    try:
        fleet.deploy()
        yield fleet
    finally:
        fleet.end_all()


def redirected(fleet: LocalFleet, redirections: str, *words: str) -> Ran:
    """Run a command in a shell with these redirections; pipe 9 has no reader."""
    script = f"{READER_GONE}{redirections}" if "9" in redirections else f'exec "$@" {redirections}'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *fleet.argv(*words)],
        cwd=fleet.folder,
        env=fleet.env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert not (fleet.home / "bugs").exists(), [one.read_text() for one in (fleet.home / "bugs").iterdir()]
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


def last_operation(fleet: LocalFleet) -> tuple[str, str]:
    last = fleet.run("history", "-o", "json").json()["operations"][-1]
    return last["command"], last["outcome"]


def drift(fleet: LocalFleet) -> None:
    fleet.connect("node-1").config_set("maxmemory", "50mb")


def is_repaired(fleet: LocalFleet) -> bool:
    return fleet.connect("node-1").config_get("maxmemory")["maxmemory"] == str(64 * 2**20)


@pytest.mark.parametrize("redirections", STDERR.values(), ids=STDERR)
def test_a_repair_goes_on_when_progress_cannot_be_written(fleet: LocalFleet, redirections: str) -> None:
    fleet.kill("node-4")
    ran = redirected(fleet, redirections, "deploy", "--yes", "-o", "json")

    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["changed"]
    assert last_operation(fleet) == ("deploy", "done")
    assert fleet.status()["state"] == "healthy"


@pytest.mark.parametrize("redirections", STDERR.values(), ids=STDERR)
def test_other_changes_go_on_when_progress_cannot_be_written(fleet: LocalFleet, redirections: str) -> None:
    (fleet.folder / "rules.yaml").write_text(RULES % (10 + list(STDERR.values()).index(redirections)))
    changes = {
        "rules apply": ("rules", "apply", "rules.yaml", "--yes", "--confirm", "outputs"),
        "scripts apply": ("scripts", "apply", "--yes"),
        "fence": ("fence", "node-3", "--confirm", "outputs"),
        "unfence": ("unfence", "node-3", "--yes"),
        "resize": ("resize", "64mb", "--yes"),
    }
    for words in changes.values():
        ran = redirected(fleet, redirections, *words)
        assert (ran.code, ran.err) == (0, ""), words
    assert fleet.status()["state"] == "healthy"


@pytest.mark.parametrize(("redirections", "says"), [(">/dev/full", "No space left"), (">&-", "Bad file descriptor")])
@pytest.mark.parametrize("output", ["table", "json"])
def test_a_lost_result_is_an_error_and_the_change_is_made(
    fleet: LocalFleet, redirections: str, says: str, output: str
) -> None:
    drift(fleet)
    ran = redirected(fleet, redirections, "-o", output, "deploy", "--yes")

    assert ran.code == 6
    said = ran.error()["message"] if output == "json" else ran.err
    assert f"cannot write the result to stdout: {says}" in said
    assert last_operation(fleet) == ("deploy", "done")
    assert is_repaired(fleet)


@pytest.mark.parametrize("words", [("status",), ("history",), ("env",), ("doctor",), ("--help",), ("deploy", "--help")])
@pytest.mark.parametrize("output", ["table", "json"])
def test_a_result_that_cannot_be_written_is_exit_6(fleet: LocalFleet, words: tuple[str, ...], output: str) -> None:
    for redirections in (">/dev/full", ">&-"):
        ran = redirected(fleet, redirections, "-o", output, *words)
        assert ran.code == 6
        assert "cannot write the result to stdout" in ran.err
        assert redirected(fleet, f"{redirections} 2>/dev/full", "-o", output, *words).code == 6


@pytest.mark.parametrize(
    "words", [("status",), ("history",), ("env",), ("doctor",), ("--help",), ("deploy", "--help"), ("--version",)]
)
@pytest.mark.parametrize("output", ["table", "json"])
def test_a_reader_that_went_away_ends_the_command_quietly(
    fleet: LocalFleet, words: tuple[str, ...], output: str
) -> None:
    """Exit 0 although `head` closes the pipe early, because the reader has what it needs."""
    ran = redirected(fleet, ">&9", "-o", output, *words)
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_change_whose_reader_went_away_is_made(fleet: LocalFleet, output: str) -> None:
    drift(fleet)
    ran = redirected(fleet, ">&9 2>&1", "-o", output, "deploy", "--yes")
    assert ran.code == 0
    assert last_operation(fleet) == ("deploy", "done")
    assert is_repaired(fleet)


def test_status_watch_ends_with_its_reader(fleet: LocalFleet) -> None:
    for output in ("table", "json"):
        command = shlex.join(fleet.argv("-o", output, "status", "--watch"))
        done = subprocess.run(
            ["bash", "-c", f"{command} | head -1; exit ${{PIPESTATUS[0]}}"],
            env=fleet.env(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("redirections", STREAMS)
def test_closed_streams_stop_no_repair(fleet: LocalFleet, redirections: str) -> None:
    lost = 6 if ">&-" in redirections.replace("2>&-", "") else 0
    drift(fleet)
    ran = redirected(fleet, redirections, "deploy", "--yes")

    assert ran.code == lost
    assert ("cannot write the result" in ran.err) == (lost == 6 and "2>&-" not in redirections)
    assert last_operation(fleet) == ("deploy", "done")
    assert is_repaired(fleet)
    for words in (("status",), ("history",), ("env",), ("status", "-o", "json")):
        assert redirected(fleet, redirections, *words).code == lost


def test_no_file_of_a_command_takes_the_place_of_a_closed_stream(fleet: LocalFleet) -> None:
    """With stderr closed, the next opened file would become descriptor 2 and get the messages: lock file or journal."""
    drift(fleet)
    redirected(fleet, "<&- >&- 2>&-", "deploy", "--yes")
    assert (fleet.home / "locks" / "outputs.lock").read_text() == ""
    for line in (fleet.home / "journal" / "outputs.jsonl").read_text().splitlines():
        json.loads(line)


def test_a_closed_input_is_nobody_to_ask(fleet: LocalFleet) -> None:
    drift(fleet)
    ran = redirected(fleet, "<&-", "deploy")
    assert ran.code == 9
    assert "no terminal to ask on" in ran.err
    fleet.deploy()


def test_a_question_that_cannot_be_shown_is_declined(fleet: LocalFleet) -> None:
    drift(fleet)
    mine, theirs = pty.openpty()
    try:
        with Path("/dev/full").open("w", encoding="utf-8") as full:
            done = subprocess.run(
                fleet.argv("deploy"),
                env=fleet.env(),
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=full,
                timeout=PATIENCE_S,
                check=False,
            )
    finally:
        os.close(mine)
        os.close(theirs)
    assert done.returncode == 9
    assert not is_repaired(fleet)
    fleet.deploy()
