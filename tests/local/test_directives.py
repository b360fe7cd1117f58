"""Deploy tries the section `redis` on the server before it changes anything; failed starts report the reason."""

import importlib.util
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlctl.assets import asset_folder
from rlctl.render.trial_conf import trial_conf
from rlctl.system.server_log import ConfigError, config_error, is_ready
from rlctl.targets.docker.image import START
from tests.conftest import skip_or_fail
from tests.local.driver import LocalFleet, cluster_document, is_gone, servers_below, wait_for
from tests.local.failures import assert_fails
from tests.local.servers import script, wrapper
from tests.local.trees import run_ids, settled_files

MakeFleet = Callable[[dict[str, Any]], LocalFleet]
UNKNOWN = "Bad directive or wrong number of arguments"
NO_NUMBER = "argument couldn't be parsed into an integer"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """A deployed cluster. A test that changes its file must restore it."""
    document = small(hz="12") | {"name": "tried"}
    fleet = LocalFleet(folder=tmp_path_factory.mktemp("tried"), document=document)
    fleet.write()
    try:
        fleet.deploy()
        yield fleet
    finally:
        fleet.end_all()


@pytest.fixture
def edited(running: LocalFleet) -> Iterator[LocalFleet]:
    document = running.document
    running.document = dict(document)
    yield running
    running.document = document
    running.write()


def small(**directives: str) -> dict[str, Any]:
    """A cluster of three nodes."""
    return cluster_document(cluster={"shards": 3, "replicas": 0, "node_timeout": "1s"}, redis=directives)


def edit(fleet: LocalFleet, **directives: str) -> None:
    fleet.document["redis"] = {name.replace("_", "-"): value for name, value in directives.items()}
    fleet.write()


def line_of(fleet: LocalFleet, directive: str) -> str:
    lines = fleet.file.read_text(encoding="utf-8").splitlines()
    number = next(number for number, line in enumerate(lines, 1) if line.strip().startswith(f"{directive}:"))
    return f"{fleet.file}:{number}: redis.{directive}: "


def counting(folder: Path, *, before: str = "") -> Path:
    """The real server, with a log of each start except those for its version."""
    note = f'[ "$1" = --version ] || echo "$*" >>{folder}/starts'
    return wrapper(folder / "server", f"{note}\n{before}")


def trials(folder: Path) -> int:
    """The number of trial starts."""
    starts = folder / "starts"
    return starts.read_text(encoding="utf-8").splitlines().count("trial.conf") if starts.exists() else 0


# --- refused before anything is changed -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("directive", "value", "error"),
    [
        pytest.param("no-such-thing", "1", UNKNOWN, id="an unknown name"),
        pytest.param("hz", "fast", NO_NUMBER, id="a wrong value that is applied live"),
        pytest.param("databases", "many", NO_NUMBER, id="a wrong value that only a restart would apply"),
        pytest.param("client-output-buffer-limit", "normal 0", "Wrong number of arguments", id="a word too few"),
    ],
)
def test_a_running_fleet_is_left_as_it_is(edited: LocalFleet, directive: str, value: str, error: str) -> None:
    before = run_ids(edited), settled_files(edited), edited.home.joinpath("accepted.json").read_bytes()
    edit(edited, **{directive: value})
    said = edited.run("deploy", "--yes", "-o", "json", expect=3).error()["message"]
    assert said.startswith(line_of(edited, directive))
    assert f"`{directive} {value}`: {error}" in said
    assert (run_ids(edited), settled_files(edited), edited.home.joinpath("accepted.json").read_bytes()) == before


def test_a_dry_run_and_doctor_name_it_too(edited: LocalFleet) -> None:
    edit(edited, hz="fast")
    assert_fails(edited, "deploy", "--dry-run", code=3, name="invalid-file", says=line_of(edited, "hz"))
    checks = edited.run("doctor", "-o", "json", expect=12).json()["checks"]
    [check] = [one for one in checks if one["name"] == "directives"]
    assert (check["severity"], NO_NUMBER in check["evidence"]) == ("critical", True)


def test_a_new_fleet_is_not_begun(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(small(**{"hz": "fast", "no-such-thing": "1", "maxclients": "2000"}))
    failed = fleet.run("deploy", "--yes", "-o", "json", expect=3).error()
    # rlctl reports all mistakes together, in the order of the file.
    assert [text.partition(": /")[0] for text in failed["message"].splitlines()] == [
        line_of(fleet, "hz").rstrip(": "),
        line_of(fleet, "no-such-thing").rstrip(": "),
    ]
    assert "nothing was changed" in failed["hint"]
    assert fleet.processes() == []
    assert list((fleet.home / "fleets").iterdir()) == []
    assert not fleet.home.joinpath("accepted.json").exists()
    edit(fleet, hz="50", maxclients="2000")
    fleet.deploy()
    assert fleet.status()["state"] == "healthy"


def test_a_dry_run_on_an_empty_machine_leaves_nothing(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(small(hz="50"))
    fleet.run("deploy", "--dry-run", expect=10)
    assert not fleet.home.exists()


def test_a_good_value_that_needs_a_restart_is_refused_as_before(edited: LocalFleet) -> None:
    edit(edited, hz="12", databases="4")
    assert_fails(edited, "deploy", "--yes", code=8, name="refused", says="databases is 16, the topology says 4")


def test_a_good_value_is_applied(edited: LocalFleet) -> None:
    edit(edited, hz="13")
    assert {step["kind"] for step in edited.deploy().json()["steps"]} == {"configure"}
    edit(edited, hz="12")
    edited.deploy()


def test_a_value_that_takes_all_memory_is_refused(edited: LocalFleet) -> None:
    """The server accepts the line and dies of it later; a memory limit protects the machine."""
    edit(edited, hz="12", databases="2147483647")
    said = edited.run("deploy", "--yes", "-o", "json", expect=3).error()["message"]
    assert said.startswith(line_of(edited, "databases"))
    assert "Out Of Memory" in said
    assert "redis.hz" not in said


# --- once for a version and a set -------------------------------------------------------------------------------


def test_a_server_is_tried_once_for_each_set_and_binary(make_fleet: MakeFleet, tmp_path: Path) -> None:
    fleet = make_fleet(small())
    fleet.extra_env["RLCTL_REDIS_SERVER"] = str(counting(tmp_path))
    fleet.deploy()
    assert trials(tmp_path) == 0, "no directives, no trial"
    edit(fleet, hz="50")
    fleet.deploy()
    assert trials(tmp_path) == 1
    fleet.deploy()
    fleet.run("deploy", "--dry-run")
    fleet.run("doctor", expect=None)
    assert trials(tmp_path) == 1, "remembered"
    edit(fleet, hz="51")
    fleet.run("deploy", "--dry-run", expect=10)
    assert trials(tmp_path) == 2
    counting(tmp_path, before=": another build")
    fleet.run("deploy", "--dry-run", expect=10)
    assert trials(tmp_path) == 3


def test_what_another_version_takes_is_asked_of_that_version(make_fleet: MakeFleet, tmp_path: Path) -> None:
    """A newer server accepts the directive and this one refuses it. Acceptance is recorded for each server."""
    newer = wrapper(
        tmp_path / "newer-server",
        '[ "$1" = --version ] && echo "Redis server v=99.0.0 sha=0" && exit 0\n'
        'for conf in trial.conf "$4"; do\n'
        '  [ -f "$conf" ] && sed -i "/^directive-of-tomorrow /d" "$conf"\n'
        "done",
    )
    fleet = make_fleet(small(**{"directive-of-tomorrow": "yes"}))
    fleet.home.mkdir()
    fleet.run("deploy", "--dry-run", expect=10, RLCTL_REDIS_SERVER=str(newer))
    assert fleet.home.joinpath("accepted.json").exists()
    said = fleet.run("deploy", "--dry-run", "-o", "json", expect=3).error()["message"]
    assert said.startswith(line_of(fleet, "directive-of-tomorrow"))


# --- the trial itself -------------------------------------------------------------------------------------------


def test_a_server_that_starts_with_nothing_is_not_the_files_fault(make_fleet: MakeFleet, tmp_path: Path) -> None:
    broken = script(
        tmp_path / "server",
        '[ "$1" = --version ] && echo "Redis server v=7.0.15 sha=0" && exit 0\necho "error: no libssl"; exit 127',
    )
    fleet = make_fleet(small(hz="50"))
    failed = fleet.run("deploy", "--yes", "-o", "json", expect=6, RLCTL_REDIS_SERVER=str(broken)).error()
    assert "error: no libssl" in failed["message"]


def test_a_trial_ends_with_rlctl(make_fleet: MakeFleet, tmp_path: Path) -> None:
    hung = script(
        tmp_path / "server",
        '[ "$1" = --version ] && echo "Redis server v=7.0.15 sha=0" && exit 0\n'
        f"echo $$ >{tmp_path}/new && mv {tmp_path}/new {tmp_path}/pid; exec sleep 3600",
    )
    fleet = make_fleet(small(hz="50"))
    rlctl = subprocess.Popen(
        fleet.argv("deploy", "--dry-run"),
        env=fleet.env() | {"RLCTL_REDIS_SERVER": str(hung)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for((tmp_path / "pid").exists, "the start of the trial")
    pid = int((tmp_path / "pid").read_text(encoding="ascii"))
    rlctl.send_signal(signal.SIGKILL)
    rlctl.wait()
    wait_for(lambda: is_gone(pid), "the end of the trial")


def test_a_trial_is_closed_and_holds_no_secret(make_fleet: MakeFleet, tmp_path: Path) -> None:
    """A fake server records its configuration, its command line and the mode of its folder."""
    seen = tmp_path / "seen"
    server = wrapper(
        tmp_path / "server",
        f'if [ "$1" = trial.conf ]; then mkdir {seen}; cp trial.conf {seen}/conf; stat -c %a . >{seen}/mode; '
        f"tr '\\0' ' ' </proc/$$/cmdline >{seen}/argv; fi",
    )
    fleet = make_fleet(small(hz="50"))
    fleet.extra_env["RLCTL_REDIS_SERVER"] = str(server)
    fleet.deploy()
    noted = {name: (seen / name).read_text(encoding="utf-8") for name in ("conf", "mode", "argv")}
    assert noted["mode"].strip() == "700"
    assert noted["conf"].startswith("hz 50\nport 0\n")
    vault = (fleet.home / "fleets" / fleet.name / "secrets.json").read_text(encoding="utf-8")
    words = {word for text in noted.values() for word in text.split()}
    assert not [word for word in words if len(word) > 15 and word in vault]


# --- the trials of other targets, on this machine's server ------------------------------------------------------


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_shell_of_a_container_ends_the_server_once_it_is_ready(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        skip_or_fail("local", f"no {shell} on PATH")
    said = in_shell(tmp_path, shell, ("client-query-buffer-limit", "1gb"), ("loglevel", "warning"))
    assert is_ready(said)
    wait_for(lambda: all(is_gone(process.pid) for process in servers_below(tmp_path)), "the end of the trial")
    error = config_error(in_shell(tmp_path, shell, ("hz", "50"), ("no-such-thing", "100%d '$HOME'")))
    assert error == ConfigError(directive="no-such-thing", reason=UNKNOWN)


def in_shell(folder: Path, shell: str, *directives: tuple[str, str]) -> str:
    """The output of the container's command, with a folder of the test in place of the container's."""
    (folder / "trial").mkdir(exist_ok=True)
    script = START.replace("/trial", str(folder / "trial")).replace("sleep 40", "sleep 0.5")
    server = shutil.which("redis-server") or shutil.which("valkey-server") or ""
    argv = [shell, "-c", script, server, trial_conf(directives)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    return f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    ("directives", "refused"),
    [
        pytest.param(["hz 50", "loglevel warning"], {}, id="good"),
        pytest.param(["hz fast", "no-such-thing 1", "hz 50"], {"hz": NO_NUMBER, "no-such-thing": UNKNOWN}, id="all"),
    ],
)
def test_the_module_of_hosts_names_all_that_is_refused(directives: list[str], refused: dict[str, str]) -> None:
    path = asset_folder("playbooks") / "library" / "rlctl_directives.py"
    spec = importlib.util.spec_from_file_location("rlctl_directives", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = shutil.which("redis-server") or shutil.which("valkey-server")
    assert module.Trial(SimpleNamespace(params={"server": server})).refused(directives) == refused


# --- a start that fails -----------------------------------------------------------------------------------------


def test_a_failed_start_shows_its_own_error_whole_and_nothing_older(make_fleet: MakeFleet, tmp_path: Path) -> None:
    real = shutil.which("redis-server") or shutil.which("valkey-server")
    fleet = make_fleet(small())
    # A line that another program adds to static.conf before the start.
    refusing = script(
        tmp_path / "refusing",
        f'[ -f static.conf ] && echo "no-such-thing 1" >>static.conf\nexec {real} "$@"',
    )
    failed = fleet.run("deploy", "--yes", "-o", "json", expect=13, RLCTL_REDIS_SERVER=str(refusing)).error()["message"]
    assert "FATAL CONFIG FILE ERROR" in failed
    assert "Reading the configuration file, at line" in failed
    assert f">>> 'no-such-thing 1' / {UNKNOWN}" in failed
    for log in ("redis.log", "output.log"):
        with (fleet.node_folder("node-0") / log).open("a", encoding="utf-8") as file:
            file.write("1:M 01 Jan 2026 00:00:00.000 # Fatal error: of an earlier start\n")
    dying = script(
        tmp_path / "dying",
        '[ "$1" = --version ] && echo "Redis server v=7.0.15 sha=0" && exit 0\necho "no luck today"; exit 1',
    )
    failed = fleet.run("deploy", "--yes", "-o", "json", expect=13, RLCTL_REDIS_SERVER=str(dying)).error()["message"]
    assert "node-0: start: failed: the server ended at once: no luck today" in failed
    assert "FATAL" not in failed
    assert "earlier" not in failed
    fleet.deploy()
    assert fleet.status()["state"] == "healthy"


def test_a_failed_start_does_not_show_a_password(make_fleet: MakeFleet, tmp_path: Path) -> None:
    real = shutil.which("redis-server") or shutil.which("valkey-server")
    fleet = make_fleet(small())
    server = script(
        tmp_path / "server",
        f'[ -f static.conf ] && sed -i "s/^masterauth .*/& and more/" static.conf\nexec {real} "$@"',
    )
    failed = fleet.run("deploy", "--yes", expect=13, RLCTL_REDIS_SERVER=str(server)).err
    assert ">>> 'masterauth (value not shown)' / wrong number of arguments" in failed
    conf = (fleet.node_folder("node-0") / "static.conf").read_text(encoding="utf-8").splitlines()
    [password] = [line.split()[1] for line in conf if line.startswith("masterauth ")]
    assert password not in failed
