"""What is read of a host before it is touched."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.playbooks.calling import Answer, Called, load, run

FACTS = load("rlctl_host_facts")
POLICY = "redis-server:\n  Installed: (none)\n  Candidate: {}\n  Version table:\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host below the test's folder."""
    texts = {
        "etc/os-release": 'NAME="Debian"\nID=debian\nVERSION_ID="12"\n# a comment\n',
        "proc/sys/vm/overcommit_memory": "1\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "etc/rlctl/limiter/operators": "10.0.0.9 10.0.0.10\nfe80::1 nonsense\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name in ("etc/rlctl/limiter/node-1", "etc/rlctl/.host", "var/lib/rlctl/limiter/node-0", "var/lib/rlctl/old"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(FACTS, "Path", lambda text: tmp_path / text.lstrip("/"))
    monkeypatch.setattr(FACTS, "CONFIG", tmp_path / "etc/rlctl")
    monkeypatch.setattr(FACTS, "STATE", tmp_path / "var/lib/rlctl")
    monkeypatch.setattr(FACTS.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return tmp_path


def package(installed: str, candidate: str, code: int = 0) -> object:
    def answer(argv: list[str]) -> Answer:
        return (code, installed, "") if argv[0] == "dpkg-query" else (0, POLICY.format(candidate), "")

    return answer


@pytest.mark.parametrize(
    ("installed", "candidate", "code", "versions"),
    [
        ("installed 5:7.0.15-1", "5:7.0.15-1", 0, ("5:7.0.15-1", "5:7.0.15-1")),
        ("installed 5:7.0.15-1", "5:8.0.2-1", 0, ("5:7.0.15-1", "5:8.0.2-1")),
        ("", "5:7.0.15-1", 1, ("", "5:7.0.15-1")),
        ("config-files 5:7.0.15-1", "(none)", 0, ("", "")),
        ("installed 5:7.0.15-1", "(none)", 1, ("", "")),
    ],
)
@pytest.mark.usefixtures("root")
def test_versions_of_a_package(installed: str, candidate: str, code: int, versions: tuple[str, str]) -> None:
    module = Called(params={}, answer=package(installed, candidate, code))  # type: ignore[arg-type]
    assert FACTS.package_versions(module, "redis-server") == versions


def test_a_system_without_apt_has_no_packages(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FACTS.shutil, "which", lambda _name: None)
    module = Called(params={})
    assert (root.exists(), FACTS.package_versions(module, "redis-server"), module.ran) == (True, ("", ""), [])
    assert FACTS.package_versions(Called(params={}, answer=lambda _argv: (0, "", "")), "x") == ("", "")


@pytest.mark.parametrize(
    ("version", "upstream"), [("5:7.0.15-1~deb12u7", "7.0.15"), ("7.0.15-1", "7.0.15"), ("8.0.2", "8.0.2"), ("", "")]
)
def test_upstream(version: str, upstream: str) -> None:
    assert FACTS.upstream(version) == upstream


@pytest.mark.parametrize(
    ("connection", "operators"),
    [
        ("", ["10.0.0.9", "10.0.0.10"]),
        ("9.9.9.9 50000 10.0.0.1 22", ["9.9.9.9", "10.0.0.9", "10.0.0.10"]),
        ("::ffff:9.9.9.9 50000 ::1 22", ["9.9.9.9", "10.0.0.9", "10.0.0.10"]),
        ("fe80::2 50000 fe80::1 22", ["10.0.0.9", "10.0.0.10"]),
        ("10.0.0.9 50000 10.0.0.1 22", ["10.0.0.9", "10.0.0.10"]),
    ],
)
@pytest.mark.usefixtures("root")
def test_operators_are_those_known_and_this_one(
    connection: str, operators: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", connection)
    assert FACTS.operators("limiter") == operators
    assert FACTS.operators("new") == [one for one in operators if one == "9.9.9.9" or connection.startswith(one)]


def test_all_of_a_host(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FACTS.resource, "getrlimit", lambda _which: (1024, 65_536))
    monkeypatch.setattr(FACTS.shutil, "disk_usage", lambda _path: SimpleNamespace(free=77))
    (root / "run/systemd/system").mkdir(parents=True)
    answer = package("installed 5:7.0.15-1", "5:8.0.2-1")
    names = ["vm.overcommit_memory", "vm.no_such"]
    result, _ = run(FACTS, monkeypatch, answer, fleet="limiter", package="redis-server", sysctl=names)  # type: ignore[arg-type]
    kernel = {"vm.overcommit_memory": "1", "vm.no_such": None, "transparent_hugepage": "madvise"}
    assert result == {
        "changed": False,
        "host": {
            "os": "debian",
            "os_version": "12",
            "systemd": True,
            "installed": "7.0.15",
            "version": "7.0.15",
            "fleets": ["limiter", "old"],
            "nodes": ["node-0", "node-1"],
            "operators": ["10.0.0.9", "10.0.0.10"],
            "kernel": kernel,
            "open_files": 65_536,
            "free_bytes": 77,
        },
    }
    assert json.loads(json.dumps(result)) == result


def test_a_host_without_the_package_tells_which_would_come(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = package("", "5:8.0.2-1", code=1)
    result, _ = run(FACTS, monkeypatch, answer, fleet="new", package="redis-server")  # type: ignore[arg-type]
    found = result["host"]
    assert (found["installed"], found["version"], found["systemd"], found["nodes"]) == ("", "8.0.2", False, [])
    (root / "sys/kernel/mm/transparent_hugepage/enabled").unlink()
    assert FACTS.kernel([]) == {"transparent_hugepage": None}
