"""Secrets: their files, places where they must not appear, permissions, export and import."""

import json
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rlctl.secrets import generate, to_text
from rlctl.system.tls import new_authority
from tests.local.driver import LocalFleet, cluster_document, sentinel_document, wait_for
from tests.local.failures import assert_failed_cleanly, assert_fails
from tests.local.trees import settled_files, tree

Make = Callable[[dict[str, Any]], LocalFleet]
# Files in which the servers need passwords: their configuration, and files that they write from it.
KEPT_IN = {"secrets.json", "static.conf", "sentinel.conf", "node.conf"}


def own_file(fleet: LocalFleet) -> Path:
    return fleet.home / "fleets" / fleet.name / "secrets.json"


def passwords(fleet: LocalFleet) -> list[str]:
    return list(json.loads(own_file(fleet).read_text(encoding="utf-8"))["users"].values())


def shows(text: str | bytes, secrets: list[str]) -> bool:
    data = text.encode() if isinstance(text, str) else text
    return any(secret.encode() in data for secret in secrets)


def assert_private(folder: Path) -> None:
    """Assert that only the owner can read the files below."""
    for path in (folder, *folder.rglob("*")):
        # Running servers replace their files.
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), f"{path} has mode {mode:o}"


def command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()


@pytest.fixture(scope="module", params=[cluster_document, sentinel_document], ids=["cluster", "sentinel"])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """A fleet that these tests repair, rewrite and run failovers on."""
    fleet = LocalFleet(folder=tmp_path_factory.mktemp("guarded"), document=request.param(name="guarded"))
    fleet.write()
    try:
        fleet.deploy("-v")
        yield fleet
    finally:
        fleet.end_all()


def test_no_secret_in_any_command_line_or_environment(guarded: LocalFleet) -> None:
    secrets = passwords(guarded)
    # With a missing password the rest of the test would be meaningless.
    assert len(secrets) == 5
    servers = guarded.processes()
    assert len(servers) == 6
    for process in servers:
        assert not shows("\0".join(process.cmdline()), secrets)
        assert not shows("\0".join(f"{name}={value}" for name, value in process.environ().items()), secrets)
        assert not any(name.startswith("RLCTL") for name in process.environ())
    assert not any(shows(line, secrets) for line in command_lines())


def test_no_secret_in_a_command_line_while_rlctl_works(guarded: LocalFleet) -> None:
    secrets = passwords(guarded)
    guarded.kill("node-2")
    deploying = subprocess.Popen(
        guarded.argv("-v", "deploy", "--yes"),
        env=guarded.env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        while deploying.poll() is None:
            assert not any(shows(line, secrets) for line in command_lines())
        said = deploying.communicate()[0]
    finally:
        deploying.kill()
        deploying.wait()
    assert deploying.returncode == 0, said
    assert not shows(said, secrets)


def test_no_secret_in_anything_that_is_printed(guarded: LocalFleet) -> None:
    secrets = passwords(guarded)
    plan = guarded.folder / "plan.json"
    client = guarded.connect("node-1")
    client.config_set("maxmemory", "50mb")
    client.close()
    for words in (
        ("deploy", "--dry-run", "--plan-out", str(plan)),
        ("deploy", "--yes", "--plan", str(plan)),
        ("deploy", "--yes"),
        ("status",),
        ("doctor",),
        ("history",),
        ("unlock",),
        ("render", "config"),
        ("secrets", "export", str(guarded.folder / "handed.json")),
        ("env", "--as", "limiter", "--help"),
    ):
        for form in ("table", "json"):
            ran = guarded.run("-v", "-o", form, *words, expect=None)
            assert not shows(ran.out + ran.err, secrets), words
    assert not shows(plan.read_text(encoding="utf-8"), secrets)
    (guarded.folder / "handed.json").unlink()
    # The only command that prints passwords prints the one of the requested user and no other.
    shown = guarded.run("env", "--as", "monitor").out
    assert [secret for secret in secrets if secret in shown] == [guarded.access("monitor")["password"]]


def test_secrets_are_in_the_servers_own_files_and_nowhere_else(guarded: LocalFleet) -> None:
    secrets = passwords(guarded)
    rewrite_everything(guarded)
    holding = {Path(name).name for name, (_time, content) in tree(guarded.home).items() if shows(content, secrets)}
    assert {"secrets.json", "static.conf"} <= holding <= KEPT_IN


def rewrite_everything(fleet: LocalFleet) -> None:
    access = fleet.access()
    for process in fleet.processes():
        name = Path(process.cwd()).name
        client = fleet.connect(name, access=access)
        if name.startswith("node-"):
            client.config_rewrite()
            client.acl_save()
        else:
            client.execute_command("SENTINEL", "FLUSHCONFIG")
        client.close()


def test_files_stay_private_through_rewrites_and_a_failover(guarded: LocalFleet) -> None:
    assert_private(guarded.home)
    rewrite_everything(guarded)
    assert_private(guarded.home)
    old = {node["name"] for node in guarded.status()["nodes"] if node["role"] == "primary"}
    fail_over(guarded)

    def moved() -> bool:
        status = guarded.status(expect=None)
        return status["state"] == "healthy" and old != {
            node["name"] for node in status["nodes"] if node["role"] == "primary"
        }

    wait_for(moved, "the failover's end")
    assert_private(guarded.home)
    # A deploy accepts the new roles.
    assert not guarded.deploy().json()["changed"]
    checks = guarded.run("doctor", "-o", "json", expect=None).json()["checks"]
    assert [check["severity"] for check in checks if check["name"] == "file-modes"] == ["ok"]
    if guarded.document["kind"] == "sentinel":
        assert guarded.access()["port"] != guarded.base_port + int(next(iter(old)).removeprefix("node-"))


def fail_over(fleet: LocalFleet) -> None:
    if fleet.document["kind"] == "cluster":
        replica = next(node["name"] for node in fleet.status()["nodes"] if node["role"] == "replica")
        client = fleet.connect(replica)
        client.execute_command("CLUSTER", "FAILOVER")
    else:
        client = fleet.connect("sentinel-0")
        client.execute_command("SENTINEL", "FAILOVER", fleet.name)
    client.close()


def elsewhere(fleet: LocalFleet, folder: Path, **extra_env: str) -> LocalFleet:
    """The same topology file for another operator with another RLCTL_HOME."""
    folder.mkdir()
    other = LocalFleet(folder=folder, document=fleet.document, extra_env=extra_env)
    other.write()
    return other


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_another_operator_carries_on(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    fleet: LocalFleet = request.getfixturevalue(f"shared_{kind}")
    handed = tmp_path / "handed.json"
    assert fleet.run("secrets", "export", str(handed), "-o", "json").json() == {
        "schema": "rlctl.secrets-export/1",
        "name": fleet.name,
        "path": str(handed),
    }
    assert stat.S_IMODE(handed.stat().st_mode) == 0o600
    assert passwords(fleet) == list(json.loads(handed.read_text(encoding="utf-8"))["users"].values())
    before = settled_files(fleet)
    named = elsewhere(fleet, tmp_path / "named", RLCTL_SECRETS=str(handed))
    assert named.status()["state"] == "healthy"
    assert not named.deploy().json()["changed"]
    assert named.access()["password"] == fleet.access()["password"]
    imported = elsewhere(fleet, tmp_path / "imported")
    imported.run("secrets", "import", str(handed))
    imported.run("secrets", "import", str(handed))
    assert_private(imported.home)
    assert imported.status()["state"] == "healthy"
    assert not imported.deploy().json()["changed"]
    assert settled_files(fleet) == before


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_without_secrets_nothing_is_opened_or_made(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    fleet: LocalFleet = request.getfixturevalue(f"shared_{kind}")
    other = elsewhere(fleet, tmp_path / "other")
    before = settled_files(fleet)
    for words in (("status",), ("deploy", "--yes"), ("deploy", "--dry-run")):
        assert_fails(other, *words, code=4, name="access-denied", says="no secrets")
    assert "secrets import" in other.run("status", expect=4).err
    assert list(other.home.rglob("secrets.json")) == []
    assert list((other.home / "fleets").iterdir()) == []
    assert settled_files(fleet) == before
    assert fleet.status()["state"] == "healthy"


def test_secrets_that_were_removed_after_the_deploy(sentinel: LocalFleet) -> None:
    sentinel.deploy()
    own = own_file(sentinel)
    kept = own.rename(sentinel.folder / "kept.json")
    for words in (("status",), ("deploy", "--yes"), ("env",), ("doctor",)):
        assert_fails(sentinel, *words, code=4, name="access-denied", says="its secrets are missing")
    assert not own.exists()
    assert sentinel.run("status", RLCTL_SECRETS=str(kept)).code == 0
    sentinel.run("secrets", "import", str(kept))
    assert sentinel.status()["state"] == "healthy"
    own.unlink()
    # destroy needs no password.
    sentinel.run("destroy", "--confirm", "limiter")
    assert sentinel.processes() == []


def test_the_secrets_of_another_fleet_of_the_same_name(make_fleet: Make, shared_cluster: LocalFleet) -> None:
    """The servers refuse this password, although the file is valid."""
    other = make_fleet(shared_cluster.document)
    text = json.loads(own_file(shared_cluster).read_text(encoding="utf-8"))
    wrong = text | {"users": dict.fromkeys(text["users"], "x" * 43)}
    (other.folder / "wrong.json").write_text(json.dumps(wrong), encoding="utf-8")
    for words in (("deploy", "--yes"), ("scripts", "status"), ("scripts", "history"), ("rules", "status")):
        assert_fails(other, *words, code=4, name="access-denied", RLCTL_SECRETS=str(other.folder / "wrong.json"))
    ran = other.run("status", expect=None, RLCTL_SECRETS=str(other.folder / "wrong.json"))
    assert ran.code in {4, 12}
    assert "Traceback" not in ran.err


def test_export_never_overwrites(shared_cluster: LocalFleet, tmp_path: Path) -> None:
    taken = tmp_path / "taken.json"
    taken.write_text("mine", encoding="utf-8")
    assert_fails(shared_cluster, "secrets", "export", str(taken), code=8, name="refused", says="exists")
    assert taken.read_text(encoding="utf-8") == "mine"
    nowhere = str(tmp_path / "nowhere" / "s.json")
    assert_fails(shared_cluster, "secrets", "export", nowhere, code=6, name="unreachable")


def test_import_refuses_what_is_not_this_fleets(
    shared_cluster: LocalFleet, shared_sentinel: LocalFleet, tmp_path: Path
) -> None:
    handed = tmp_path / "handed.json"
    shared_sentinel.run("secrets", "export", str(handed))
    assert_fails(shared_cluster, "secrets", "import", str(handed), code=8, name="refused", says="fleet watched")
    before = own_file(shared_cluster).read_bytes()
    document = json.loads(handed.read_text(encoding="utf-8"))
    handed.write_text(json.dumps(document | {"name": "shared"}), encoding="utf-8")
    assert_fails(shared_cluster, "secrets", "import", str(handed), code=8, name="refused", says="other secrets")
    assert own_file(shared_cluster).read_bytes() == before
    shared_sentinel.run("secrets", "export", str(tmp_path / "again.json"))
    ran = shared_cluster.run("status", expect=3, RLCTL_SECRETS=str(tmp_path / "again.json"))
    assert_failed_cleanly(ran)
    assert "secrets of fleet 'watched', not of 'shared'" in ran.err


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\xff\xfe\x00",
        b'{"version": 2}',
        b'{"version": 1, "users": {"rlctl": "short"}}',
    ],
    ids=["empty", "torn", "list", "null", "no keys", "binary", "newer", "short password"],
)
def test_garbage_is_no_secrets_file(cluster: LocalFleet, content: bytes) -> None:
    garbage = cluster.folder / "garbage.json"
    garbage.write_bytes(content)
    says = "garbage.json:1"
    assert_fails(cluster, "secrets", "import", str(garbage), code=3, name="invalid-file", says=says)
    assert_fails(cluster, "status", code=3, name="invalid-file", says=says, RLCTL_SECRETS=str(garbage))
    assert not (cluster.home / "fleets").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ca_key": "not a key"}, "ca_key is not a private key"),
        ({"ca_certificate": "not a certificate"}, "ca_certificate is not a certificate"),
        ({"ca_key": new_authority("other").key.reveal()}, "ca_key is not the key of ca_certificate"),
    ],
    ids=["key", "certificate", "pair"],
)
def test_an_authority_that_cannot_sign_is_no_secret_of_a_fleet(
    cluster: LocalFleet, change: dict[str, str], says: str
) -> None:
    right = json.loads(to_text(generate("limiter", new_authority("limiter"))))
    file = cluster.folder / "handed.json"
    file.write_text(json.dumps(right | {"tls": right["tls"] | change}), encoding="utf-8")
    where = f"handed.json:1: not a secrets file: {says}"
    assert_fails(cluster, "secrets", "import", str(file), code=3, name="invalid-file", says=where)
    assert not own_file(cluster).exists()
    cluster.document["security"] = {"tls": True}
    cluster.write()
    assert_fails(cluster, "deploy", "--yes", code=4, name="access-denied", says=says, RLCTL_SECRETS=str(file))
    assert cluster.processes() == []
    file.write_text(json.dumps(right), encoding="utf-8")
    cluster.run("secrets", "import", str(file))


def test_a_secrets_file_that_is_not_there(cluster: LocalFleet) -> None:
    for words in (("status",), ("deploy", "--yes"), ("env",)):
        assert_fails(cluster, *words, code=5, name="not-found", says="RLCTL_SECRETS", RLCTL_SECRETS="nowhere.json")
    assert not cluster.home.exists()
