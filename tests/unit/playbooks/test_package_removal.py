"""Which packages may be removed from a host, and what is said of those that stay."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.playbooks.calling import load

REMOVAL, PACKAGE = load("rlctl_package_removal"), load("rlctl_package")
SERVER, UNIT = "/usr/bin/redis-server", "/usr/lib/systemd/system/redis-server.service"
FILES = {
    "redis-server": frozenset({SERVER, "/usr/bin/redis-check-rdb", UNIT}),
    "redis-tools": frozenset({"/usr/bin/redis-check-rdb", "/usr/bin/redis-cli"}),
    "liblzf1": frozenset({"/usr/lib/liblzf.so.1"}),
}


def usage(**found: Any) -> Any:
    unused = {"processes": {}, "units": {}, "running": frozenset(), "foreign": {}}
    return REMOVAL.Usage(files=FILES, **unused | found)


@pytest.mark.parametrize(
    ("found", "reasons"),
    [
        pytest.param({}, ["", "", ""], id="nothing uses them"),
        pytest.param(
            {
                "processes": {
                    "redis-server (pid 8)": frozenset({"/usr/bin/redis-check-rdb"}),
                    "sshd (pid 1)": frozenset(),
                }
            },
            ["used by redis-server (pid 8)", "used by redis-server (pid 8)", ""],
            id="a foreign server runs from them",
        ),
        pytest.param(
            {"processes": {"own-redis (pid 9)": frozenset({"/opt/redis", "/usr/lib/liblzf.so.1"})}},
            ["", "", "used by own-redis (pid 9)"],
            id="a foreign program has mapped a library",
        ),
        pytest.param(
            {"units": {"/etc/systemd/system/n.service": frozenset({SERVER, "multi-user.target"})}},
            ["/etc/systemd/system/n.service refers to /usr/bin/redis-server", "", ""],
            id="a unit starts the program",
        ),
        pytest.param(
            {"units": {"/etc/systemd/system/shop.service": frozenset({"redis-server.service"})}},
            ["/etc/systemd/system/shop.service refers to redis-server.service", "", ""],
            id="a unit wants the package's own",
        ),
        pytest.param(
            {"running": frozenset({"redis-server.service", "ssh.service"})},
            ["redis-server.service is active", "", ""],
            id="the package's own unit runs",
        ),
        pytest.param(
            {"foreign": {"redis-server": ("/var/lib/redis/dump.rdb",)}},
            ["/var/lib/redis/dump.rdb is not from a package", "", ""],
            id="data of a neighbour",
        ),
        pytest.param(
            {
                "processes": {f"redis-cli (pid {pid})": frozenset({"/usr/bin/redis-cli"}) for pid in (3, 4, 5)},
                "foreign": {"redis-server": ("/etc/redis/a", "/etc/redis/b", "/etc/redis/c")},
            },
            [
                "/etc/redis/a is not from a package; /etc/redis/b is not from a package",
                "used by redis-cli (pid 3); used by redis-cli (pid 4)",
                "",
            ],
            id="two are enough to know",
        ),
    ],
)
def test_why_a_package_stays(found: dict[str, Any], reasons: list[str]) -> None:
    assert [REMOVAL.reason(name, usage(**found)) for name in FILES] == reasons


def test_packages_that_stay_for_one_reason_are_told_together() -> None:
    kept = {
        "redis-tools": "used by x (pid 1)",
        "liblzf1": "needed by another package",
        "redis-server": "used by x (pid 1)",
    }
    assert REMOVAL.sentences(kept, ["redis-server.service"]) == [
        "redis-server, redis-tools: still installed (used by x (pid 1))",
        "liblzf1: still installed (needed by another package)",
        "redis-server.service: still masked",
    ]
    assert REMOVAL.sentences({"redis-tools": "", "liblzf1": ""}, []) == ["liblzf1, redis-tools: still installed"]
    assert REMOVAL.sentences({}, ["redis-server.service"]) == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param("ExecStart=/usr/bin/redis-server /etc/n.conf", SERVER, id="a program"),
        pytest.param("ExecStart=-!!/usr/bin/redis-server", SERVER, id="behind systemd's own marks"),
        pytest.param("ExecStart=redis-server --port 1", SERVER, id="a program without its path"),
        pytest.param('ExecStart=/bin/sh -c "exec /usr/bin/redis-server x"', SERVER, id="within a shell's words"),
        pytest.param("ExecStart=/bin/sh \\\n  /usr/bin/redis-server", SERVER, id="on a further line"),
        pytest.param("Environment=SERVER=/usr/bin/redis-server", SERVER, id="in a variable"),
        pytest.param("After=network.target redis-server.service", "redis-server.service", id="a unit"),
        pytest.param("Requires=redis-server@shop.service", "redis-server@.service", id="an instance of a template"),
    ],
)
def test_what_a_unit_names_is_found(text: str, named: str) -> None:
    assert named in REMOVAL.words(f"[Service]\n{text}\n")


@pytest.mark.parametrize(
    "text",
    [
        "# ExecStart=/usr/bin/redis-server",
        "; After=redis-server.service",
        "Description=beside redis-server.service, see /usr/bin/redis-server",
        "Documentation=file:/usr/bin/redis-server",
        "ExecStart=/usr/bin/redis-server-of-mine",
        "ExecStart=/opt/usr/bin/redis-server",
        "SyslogIdentifier=redis-server",
    ],
)
def test_what_only_looks_alike_is_not(text: str) -> None:
    assert not REMOVAL.words(text) & {SERVER, "redis-server.service"}


def test_units_of_others_are_read_and_those_of_rlctl_and_of_the_packages_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, wants, dropped_in = (
        tmp_path / "redis-server.service",
        tmp_path / "a.wants",
        tmp_path / "redis-server.service.d",
    )
    for folder in (wants, dropped_in):
        folder.mkdir()
    texts = {
        own: f"ExecStart={SERVER}",
        tmp_path / "rlctl-limiter@.service": f"ExecStart={SERVER}",
        tmp_path / "n.service": f"ExecStart={SERVER}",
        dropped_in / "memory.conf": "LimitNOFILE=9",
    }
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    (wants / "redis-server.service").symlink_to(own)
    (tmp_path / "masked.service").symlink_to("/dev/null")
    (tmp_path / "gone.service").symlink_to(tmp_path / "nowhere")
    monkeypatch.setattr(REMOVAL, "_UNIT_FOLDERS", (str(tmp_path),))
    found = dict(REMOVAL.units(frozenset({str(own)})))
    assert {Path(path).relative_to(tmp_path).as_posix() for path in found} == {
        *("n.service", "gone.service", "a.wants/redis-server.service", "redis-server.service.d/memory.conf")
    }
    assert SERVER in found[str(tmp_path / "n.service")]
    assert "redis-server.service" in found[str(wants / "redis-server.service")]
    assert "redis-server.service" in found[str(dropped_in / "memory.conf")]


def test_files_that_no_package_brought_are_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REMOVAL, "_DATA_FOLDERS", (f"{tmp_path}/etc", f"{tmp_path}/var"))
    for path in (
        "etc/redis/redis.conf",
        "etc/redis/mine.conf",
        "var/redis/dump.rdb",
        "usr/doc/redis/LICENSE",
        "etc/fstab",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    own = frozenset({f"{tmp_path}/etc/redis", f"{tmp_path}/etc/redis/redis.conf", f"{tmp_path}/usr/doc/redis"})
    brought = own | {f"{tmp_path}/usr/doc/redis/LICENSE"}
    found = REMOVAL.foreign("redis-server", own, brought)
    assert [Path(path).name for path in found] == ["mine.conf", "dump.rdb"]


DPKG = """dpkg: error processing package redis-tools (--remove):
 dependency problems - not removing
Errors were encountered while processing:
 redis-tools
 libjemalloc2:amd64
"""


class Machine(REMOVAL.Host):  # type: ignore[misc] - the module has no types here
    """A host whose dpkg says what it is told to."""

    def __init__(self, record: Path, state: str, found: Any, said: str = "") -> None:
        super().__init__(SimpleNamespace(params={"record": str(record), "state": state}))
        self.found, self.said = found, said

    def installed(self) -> set[str]:
        return {*FILES, "bash"}

    def usage(self, packages: list[str], others: set[str]) -> Any:
        assert (set(packages), others) == (set(FILES), {"bash"})
        return self.found

    def run(self, *argv: str) -> tuple[int, str]:
        assert argv[:3] == ("dpkg", "--no-act", "--remove")
        return 0, self.said


RECORD = {"packages": [*sorted(FILES), "gone"], "masked": ["redis-server.service"]}
USED = {"processes": {"x (pid 1)": FILES["redis-server"]}}
OWN_DATA = {"foreign": {"redis-server": ("/var/lib/redis/dump.rdb",)}}


@pytest.mark.parametrize(
    ("state", "found", "said", "going", "masked"),
    [
        pytest.param("kept", {}, "", [], True, id="kept"),
        pytest.param("absent", {}, "", ["liblzf1", "redis-server", "redis-tools"], False, id="unused"),
        pytest.param("absent", USED, "", ["liblzf1"], True, id="a process uses some"),
        pytest.param("absent", OWN_DATA, DPKG, ["liblzf1"], True, id="one that stays needs another"),
        pytest.param("absent", {}, DPKG, ["liblzf1", "redis-server"], False, id="a stranger's package needs one"),
    ],
)
def test_what_goes_and_what_is_remembered(
    tmp_path: Path,
    state: str,
    found: dict[str, Any],
    said: str,
    going: list[str],
    masked: bool,  # noqa: FBT001 - one column of the table
) -> None:
    (tmp_path / "packages.json").write_text(json.dumps(RECORD), encoding="utf-8")
    host = Machine(tmp_path / "packages.json", state, usage(**found), said)
    gone, kept, after = REMOVAL.settle(host)
    assert (gone, set(kept)) == (going, set(FILES) - set(going))
    host.write_record(after)
    left = sorted(set(FILES) - set(going))
    expected = {"packages": left, "masked": RECORD["masked"] if masked else [], "kept": True}
    assert json.loads(host.path.read_text(encoding="utf-8")) == expected if left else not host.path.exists()


def test_a_fleet_that_comes_again_takes_the_packages_over(tmp_path: Path) -> None:
    (tmp_path / "packages.json").write_text(json.dumps(RECORD | {"kept": True}), encoding="utf-8")
    host = PACKAGE.Host(SimpleNamespace(params={"record": str(tmp_path / "packages.json")}))
    assert host.is_kept()
    host.add_to_record(set(), set())
    assert not host.is_kept()
    assert host.recorded() == {"packages": sorted(RECORD["packages"]), "masked": RECORD["masked"]}


def test_packages_are_removed_and_never_purged() -> None:
    called: list[list[str]] = []

    def run_command(argv: list[str], **_more: Any) -> tuple[int, str, str]:
        called.append(argv)
        return 0, "", ""

    module = SimpleNamespace(params={"record": "/etc/rlctl/.host/packages.json"}, run_command=run_command)
    host = REMOVAL.Host(module)
    host.without_dependents(["redis-server"])
    host.remove(["redis-server"])
    assert called == [["dpkg", "--no-act", "--remove", "redis-server"], ["dpkg", "--remove", "redis-server"]]
