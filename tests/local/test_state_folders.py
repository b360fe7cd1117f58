"""RLCTL_HOME on a hostile, full or misconfigured machine: folders of other users, links, full disks, low limits."""

import os
import shlex
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rlctl.errors import Unreachable
from rlctl.system.ports import answers
from rlctl.system.redis import Credentials, NodeLink
from tests.driver import COMMAND_S, OPERATORS
from tests.limits import no_file_left
from tests.local.driver import LocalFleet
from tests.local.failures import assert_fails
from tests.local.servers import script

NO_PROGRESS_LISTENER = 65_534
OPERATOR = 4_711
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away and mounts")
ALL_VERBS = [
    ("deploy", "--yes"),
    ("deploy", "--dry-run"),
    ("status",),
    ("doctor",),
    ("history",),
    ("env",),
    ("rules", "status"),
    ("fence", "node-0"),
    ("unlock",),
    ("failover-drill", "list"),
    ("secrets", "export", "out.json"),
    ("destroy", "--confirm", "limiter"),
]


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of this user that no command may change."""
    path = tmp_path / "victim.txt"
    path.write_text("precious\n", encoding="utf-8")
    return path


def prepared(fleet: LocalFleet, *folders: str) -> Path:
    """An RLCTL_HOME as rlctl creates it, before the first deploy."""
    for folder in ("", "fleets", "journal", "locks", "drills", *folders):
        (fleet.home / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    return fleet.home


def give_away(path: Path) -> None:
    os.chown(path, NO_PROGRESS_LISTENER, NO_PROGRESS_LISTENER, follow_symlinks=False)


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def started(
    fleet: LocalFleet, shell: str, *words: str, argv: Sequence[str] = (), **env: str | None
) -> "subprocess.CompletedProcess[str]":
    """Run rlctl in a shell that first runs another command."""
    known = {name: value for name, value in os.environ.items() if name not in OPERATORS} | {
        "RLCTL_HOME": str(fleet.home),
        **env,
    }
    return subprocess.run(
        [*argv, "sh", "-c", f"{shell}\n{shlex.join(fleet.argv(*words))}"],
        cwd=fleet.folder,
        env={name: value for name, value in known.items() if value is not None},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )


@as_root
@pytest.mark.parametrize("words", ALL_VERBS, ids=" ".join)
def test_a_home_that_another_user_prepared_is_not_used(
    cluster: LocalFleet, victim: Path, words: tuple[str, ...]
) -> None:
    home = prepared(cluster)
    (home / "locks" / "limiter.lock").symlink_to(victim)
    (home / "journal" / "limiter.jsonl").symlink_to(victim)
    for path in (home, *home.rglob("*")):
        give_away(path)
    home.chmod(0o777)
    before = files_of(home)
    assert_fails(cluster, *words, code=8, name="refused", says=f"{home} belongs to nobody (uid 65534), mode 0777")
    assert victim.read_text(encoding="utf-8") == "precious\n"
    assert (files_of(home), cluster.processes()) == (before, [])
    assert not (cluster.folder / "out.json").exists()


@as_root
@pytest.mark.parametrize("name", ["fleets", "journal", "locks", "drills", "runbooks", "fleets/limiter"])
def test_a_folder_of_another_user_is_not_used(cluster: LocalFleet, name: str) -> None:
    home = prepared(cluster, name)
    give_away(home / name)
    before = files_of(home)
    assert_fails(cluster, "deploy", "--yes", code=8, name="refused", says=f"{home / name} belongs to nobody")
    assert [path for path in files_of(home) if path not in before] in ([], ["locks/limiter.lock", "state.json"])
    assert cluster.processes() == []


@as_root
def test_a_node_folder_of_another_user_is_not_used(cluster: LocalFleet) -> None:
    cluster.deploy()
    cluster.kill("node-5")
    give_away(cluster.node_folder("node-5"))
    says = f"{cluster.node_folder('node-5')} belongs to nobody"
    for words in (("status",), ("deploy", "--yes")):
        assert_fails(cluster, *words, code=8, name="refused", says=says)
    os.chown(cluster.node_folder("node-5"), 0, 0)
    cluster.deploy()


@as_root
def test_a_file_of_another_user_is_told_by_doctor(cluster: LocalFleet) -> None:
    cluster.deploy()
    own = cluster.node_folder("node-2") / "static.conf"
    give_away(own)
    journal = cluster.home / "journal" / "limiter.jsonl"
    journal.chmod(0o606)
    (cluster.node_folder("node-3") / "link.conf").symlink_to("/dev/null")
    checks = cluster.run("doctor", "-o", "json", expect=12).json()["checks"]
    found = [check for check in checks if check["name"] == "file-modes"]
    assert {check["severity"] for check in found} == {"critical"}
    evidence = "\n".join(check["evidence"] for check in found)
    assert f"{own} belongs to nobody (uid 65534), mode 0600" in evidence
    assert f"other users may write to {journal}" in evidence
    assert "link.conf is a symbolic link of user root" in evidence
    assert_fails(cluster, "history", code=8, name="refused", says=str(journal))


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777], ids=oct)
def test_a_home_that_others_may_write_is_not_used(cluster: LocalFleet, mode: int) -> None:
    home = prepared(cluster)
    home.chmod(mode)
    for words in (("deploy", "--yes"), ("status",), ("doctor",)):
        assert_fails(cluster, *words, code=8, name="refused", says=f"other users may write to {home}: ")
    told = cluster.run("status", expect=8).err
    assert f"`chmod go-w {home}`" in told
    subprocess.run(["chmod", "go-w", str(home)], check=True)
    assert cluster.run("deploy", "--dry-run", expect=10).out


@pytest.mark.parametrize("name", ["locks/limiter.lock", "journal/limiter.jsonl", "fleets/limiter/secrets.json"])
def test_a_link_in_the_home_is_not_followed(cluster: LocalFleet, victim: Path, name: str) -> None:
    link = prepared(cluster, "fleets/limiter") / name
    link.symlink_to(victim)
    assert_fails(cluster, "deploy", "--yes", code=8, name="refused", says=f"{link} is a symbolic link of user")
    assert victim.read_text(encoding="utf-8") == "precious\n"
    assert cluster.processes() == []


@as_root
def test_a_link_of_another_user_to_a_good_home_is_not_followed(cluster: LocalFleet) -> None:
    link = cluster.folder / "link"
    link.symlink_to(prepared(cluster))
    cluster.run("deploy", "--dry-run", expect=10, RLCTL_HOME=str(link))
    give_away(link)
    says = f"{link} is a symbolic link of user nobody"
    assert_fails(cluster, "deploy", "--yes", code=8, name="refused", says=says, RLCTL_HOME=str(link))


def test_links_and_spellings_of_the_operator_work(cluster: LocalFleet) -> None:
    """The home and a parent may be links, and the path may have `..` in it."""
    place = cluster.folder / "disk" / "operators"
    place.mkdir(parents=True)
    (cluster.folder / "parent").symlink_to(cluster.folder / "disk")
    (place / "home").mkdir(mode=0o755)
    (cluster.folder / "home").symlink_to(cluster.folder / "parent" / "operators" / "home")
    cluster.deploy()
    assert cluster.status()["state"] == "healthy"
    spelled = str(cluster.folder / "disk" / ".." / "home")
    assert cluster.run("deploy", "--yes", "-o", "json", RLCTL_HOME=spelled).json()["changed"] is False
    cluster.run("destroy", "--confirm", cluster.name)
    assert cluster.processes() == []


def test_secrets_may_be_links_as_kubernetes_mounts_them(shared_cluster: LocalFleet, tmp_path: Path) -> None:
    data, named = tmp_path / "..2026_01_01", tmp_path / "secrets.json"
    data.mkdir()
    shutil.copy(shared_cluster.home / "fleets" / shared_cluster.name / "secrets.json", data / "secrets.json")
    (data / "secrets.json").chmod(0o644)
    (tmp_path / "..data").symlink_to(data.name)
    named.symlink_to("..data/secrets.json")
    assert shared_cluster.run("status", "--wait", RLCTL_SECRETS=str(named)).out
    elsewhere = {"RLCTL_HOME": str(tmp_path / "elsewhere"), "RLCTL_SECRETS": str(named)}
    assert shared_cluster.run("env", "-o", "json", **elsewhere).json()["nodes"]


@as_root
def test_root_is_told_to_work_without_sudo_on_the_home_of_a_user(cluster: LocalFleet) -> None:
    home = prepared(cluster)
    for path in (home, *home.rglob("*")):
        os.chown(path, OPERATOR, OPERATOR)
    told = cluster.run("status", expect=8).err
    assert f"{home} belongs to uid 4711, mode 0700, and rlctl runs as root (uid 0)" in told
    assert "run rlctl as that user, without sudo" in told


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_parents_of_the_home_are_private_whatever_the_umask_is(cluster: LocalFleet, umask: str) -> None:
    user = cluster.folder / "user"
    user.mkdir()
    ended = started(
        cluster,
        f"umask {umask}",
        *("deploy", "--yes"),
        HOME=str(user),
        RLCTL_HOME=None,
        XDG_DATA_HOME=None,
        RLCTL_REDIS_SERVER=str(cluster.folder / "no-server"),
    )
    assert ended.returncode == 6, ended.stderr
    made = [path for path in user.rglob("*") if path.is_dir()]
    assert user / ".local" / "share" / "rlctl" / "locks" in made
    assert {path: stat.S_IMODE(path.stat().st_mode) for path in made} == dict.fromkeys(made, 0o700)


def test_a_fleet_that_was_deployed_with_umask_0_is_used(cluster: LocalFleet) -> None:
    ended = started(cluster, "umask 000", "deploy", "--yes", "-o", "json")
    assert ended.returncode == 0, ended.stderr
    cluster.kill("node-4")
    assert started(cluster, "umask 000", "deploy", "--yes").returncode == 0
    checks = cluster.run("doctor", "-o", "json", expect=None).json()["checks"]
    assert [check["severity"] for check in checks if check["name"] == "file-modes"] == ["ok"]


@pytest.mark.parametrize("broken", ["a\nb", "a\rb", "a\x1b[31mb"], ids=ascii)
def test_a_line_break_in_the_home_is_refused_before_anything_is_made(cluster: LocalFleet, broken: str) -> None:
    before = files_of(cluster.folder)
    home = str(cluster.folder / broken)
    for words in (("deploy", "--yes"), ("status",), ("destroy", "--confirm", "limiter")):
        assert_fails(cluster, *words, code=2, name="usage", says="line break", RLCTL_HOME=home)
        assert broken not in cluster.run(*words, expect=2, RLCTL_HOME=home).err
    assert files_of(cluster.folder) == before


@as_root
def test_a_full_disk_is_told_with_the_file_that_could_not_be_written(cluster: LocalFleet) -> None:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace can be made here")
    prepared(cluster)
    (cluster.home / "state.json").write_text('{"version": 1}\n', encoding="utf-8")
    kept, home = shlex.quote(str(cluster.folder / "kept")), shlex.quote(str(cluster.home))
    fill = (
        f"cp -a {home} {kept}; mount -t tmpfs -o size=64k,mode=0700 none {home}; cp -a {kept}/. {home}; "
        f"cat /dev/zero >{home}/full 2>/dev/null"
    )
    ended = started(cluster, fill, "deploy", "--yes", argv=["unshare", "--mount"])
    assert ended.returncode == 6, ended.stderr
    lock = cluster.home / "locks" / "limiter.lock"
    assert f"cannot write the lock file {lock}: No space left on device" in ended.stderr
    assert "hint: free some space" in ended.stderr
    assert cluster.processes() == []


@pytest.mark.parametrize("most", [8, 9, 10, 12, 14, 16])
def test_few_open_files_are_told_as_what_they_are(shared_cluster: LocalFleet, most: int) -> None:
    """Either the command works, or rlctl names the limit: no bug, and no node reported as down."""
    ended = started(shared_cluster, f"ulimit -n {most}", "status", "--wait")
    assert ended.returncode in {0, 6}, f"{ended.stdout}\n{ended.stderr}"
    if ended.returncode == 6:
        assert f"rlctl may open {most} files at once" in ended.stderr
        assert "hint: run `ulimit -n 1024`" in ended.stderr
    assert not (shared_cluster.home / "bugs").exists()


@pytest.mark.parametrize("ask", ["link", "answers"])
def test_the_limit_is_not_taken_for_a_closed_port(ask: str) -> None:
    asks: dict[str, Callable[[int], Any]] = {
        "link": lambda port: NodeLink("127.0.0.1", port, Credentials(username=None, password=None)).call("PING"),
        "answers": lambda port: answers("127.0.0.1", port),
    }
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with no_file_left(), pytest.raises(Unreachable, match="files at once"):
            asks[ask](port)


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_a_lowered_maxclients_is_told(kind: str, request: pytest.FixtureRequest) -> None:
    """Lower maxclients, as a server that starts with `ulimit -n 64` does unless it may raise the limit."""
    fleet: LocalFleet = request.getfixturevalue(kind)
    real = shutil.which("redis-server") or shutil.which("valkey-server")
    few = script(
        fleet.folder / "few",
        f'case "$*" in --version|*sentinel*) exec {real} "$@" ;; esac\nexec {real} "$@" --maxclients 32',
    )
    told = fleet.run("deploy", "--yes", RLCTL_REDIS_SERVER=str(few)).err
    assert "maxclients is below 10000 (limit of open files): node-0 32, node-1 32" in told
    checks = fleet.run("doctor", "-o", "json", expect=11).json()["checks"]
    found = [check for check in checks if check["name"] == "maxclients-lowered"]
    assert [check["subject"] for check in found] == [f"node-{number}" for number in range(len(found))]
    assert len(found) == (6 if kind == "cluster" else 3)
    assert {check["severity"] for check in found} == {"warning"}
    assert found[0]["evidence"].startswith("maxclients is 32, not 10000: ")
    assert "ulimit -n 10032" in found[0]["fix"]
    assert "maxclients is below" in fleet.run("deploy", "--yes").err
    assert fleet.status()["state"] == "healthy"
    for number in range(len(found)):
        fleet.connect(f"node-{number}").config_set("maxclients", 10_000)
    assert "maxclients" not in fleet.run("deploy", "--yes").err
