"""What is said of a host and of its nodes: each finding alone, and nothing where all is well."""

import getpass
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.calling import Answer, Answers, Called, Failed, load, run

CHECK = load("rlctl_check")
FACTS = {"version": "7.0.15", "kernel": {"vm.overcommit_memory": "1"}, "open_files": 65_536}
WELL = {"is-enabled": "enabled", "is-active": "active"}
GIB = 1024**3
NODE = {"name": "node-0", "port": 7000, "bus_port": 17000}


def host(synchronised: str = "yes", **units: Mapping[str, str]) -> Answers:
    def answer(argv: list[str]) -> Answer:
        if argv[0] == "timedatectl":
            return 0, f"{synchronised}\n", ""
        found = {"is-active": "inactive"} | units.get(argv[2].partition(".")[0].replace("-", "_"), {})
        return 0, f"{found[argv[1]]}\n", ""

    return answer


@pytest.fixture(autouse=True)
def _memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 8 * GIB // 4096}
    monkeypatch.setattr(CHECK.os, "sysconf", pages.__getitem__)


def judged(monkeypatch: pytest.MonkeyPatch, answer: Answers, facts: dict[str, Any], **params: Any) -> list[str]:
    """What is unwise; what is wrong fails."""
    result, called = run(CHECK, monkeypatch, answer, facts=FACTS | facts, package="redis-server", **params)
    assert result == {"changed": False, "errors": []}
    return called.warned


@pytest.mark.parametrize(
    ("answer", "facts", "params", "warned"),
    [
        pytest.param(host(), {}, {}, [], id="well"),
        pytest.param(host(), {}, {"kernel": {"vm.overcommit_memory": "1"}}, [], id="as wanted"),
        pytest.param(
            host(), {}, {"kernel": {"vm.overcommit_memory": "2"}}, ["vm.overcommit_memory is 1, not 2"], id="kernel"
        ),
        pytest.param(host(), {"kernel": {"a.b": None}}, {"kernel": {"a.b": "1", "c.d": "1"}}, [], id="no such setting"),
        pytest.param(host(), {}, {"open_files": 65_536}, [], id="just enough files"),
        pytest.param(
            host(), {}, {"open_files": 65_537}, ["servers may open 65536 files, not 65537"], id="too few files"
        ),
        pytest.param(host(), {"open_files": -1}, {"open_files": 65_537}, [], id="files without a limit"),
        pytest.param(
            host(), {"open_files": 0}, {"open_files": 1}, ["servers may open 0 files, not 1"], id="no file at all"
        ),
        pytest.param(host("no"), {}, {}, ["the clock is not synchronised"], id="clock"),
        pytest.param(host(""), {}, {}, [], id="nobody knows of the clock"),
        pytest.param(host(), {}, {"memory_bytes": 8 * GIB}, [], id="just enough memory"),
        pytest.param(host(), {}, {"masked": ["redis-server.service"]}, [], id="the package's own is down"),
        pytest.param(
            host(redis_server={"is-active": "active"}),
            {},
            {"masked": ["redis-server.service"]},
            ["redis-server.service runs beside the fleet"],
            id="the package's own runs",
        ),
    ],
)
def test_what_is_unwise_of_a_host(
    monkeypatch: pytest.MonkeyPatch, answer: Answers, facts: dict[str, Any], params: dict[str, Any], warned: list[str]
) -> None:
    assert [text.partition(";")[0] for text in judged(monkeypatch, answer, facts, **params)] == warned


@pytest.mark.parametrize(
    ("facts", "params", "says"),
    [
        pytest.param(
            {}, {"memory_bytes": 8 * GIB + 1}, "the host has 8192 MiB, its nodes may take 8192 MiB; lower", id="memory"
        ),
        pytest.param({"version": ""}, {}, "there is no package redis-server; check", id="package"),
    ],
)
def test_what_is_wrong_of_a_host(
    monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any], params: dict[str, Any], says: str
) -> None:
    with pytest.raises(Failed, match=says):
        judged(monkeypatch, host(), facts, **params)


def test_without_facts_the_host_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    result, called = run(CHECK, monkeypatch, memory_bytes=100 * GIB)
    assert (result["errors"], called.ran) == ([], [])


class Place:
    """Judges nodes of one host: which folders it looks at, and which ports answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, address: str = "10.0.0.1", served: str = "") -> None:
        self.folders: list[tuple[str, str, int]] = []
        self.address = address
        ports = {tuple(one.split(":")) for one in served.split()}
        monkeypatch.setattr(CHECK, "_answers", lambda address, port: (address, str(port)) in ports)
        monkeypatch.setattr(
            CHECK, "check_folder", lambda _report, path, owner, mode: self.folders.append((str(path), owner, mode))
        )

    def errors(self, node: dict[str, Any], **units: Mapping[str, str]) -> list[str]:
        params = {"fleet": "limiter", "address": self.address}
        report = CHECK.Report(Called(params=params, answer=host(**units)))
        CHECK.check_node(report, node)
        return [error.partition(";")[0] for error in report.errors]


SERVED = "10.0.0.1:7000 10.0.0.1:17000"
UNIT = "rlctl-limiter@node-0.service"


def test_a_node_that_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(monkeypatch, served=SERVED)
    assert place.errors(NODE, **{"rlctl_limiter@node_0": WELL}) == []
    assert place.folders == [
        ("/etc/rlctl/limiter/node-0", "root", 0o750),
        ("/var/lib/rlctl/limiter/node-0", "rlctl", 0o700),
    ]


def test_a_sentinel_has_another_unit_and_no_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(monkeypatch, served="10.0.0.1:8000")
    node = {"name": "sentinel-0", "port": 8000}
    assert place.errors(node, **{"rlctl_limiter_sentinel@sentinel_0": WELL}) == []
    assert place.errors(
        node, **{"rlctl_limiter@sentinel_0": WELL, "rlctl_limiter_sentinel@sentinel_0": {"is-enabled": ""}}
    )


@pytest.mark.parametrize(
    ("state", "served", "errors"),
    [
        pytest.param({"is-enabled": "disabled"}, SERVED, [f"{UNIT} is not enabled"], id="not enabled"),
        pytest.param({"is-active": "failed"}, "", [f"{UNIT} does not run"], id="down"),
        pytest.param(
            {}, "10.0.0.1:7000", [f"{UNIT} runs, but nothing listens on 10.0.0.1:17000"], id="nothing on the bus"
        ),
        pytest.param(
            {}, f"{SERVED} 127.0.0.1:7000", ["port 7000 is open on loopback too"], id="a stranger on loopback"
        ),
    ],
)
def test_a_node_that_is_not(
    monkeypatch: pytest.MonkeyPatch, state: dict[str, str], served: str, errors: list[str]
) -> None:
    assert Place(monkeypatch, served=served).errors(NODE, **{"rlctl_limiter@node_0": WELL | state}) == errors


def test_on_loopback_itself_its_ports_are_open_there(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(monkeypatch, address="127.0.0.1", served="127.0.0.1:7000 127.0.0.1:17000")
    assert place.errors(NODE, **{"rlctl_limiter@node_0": WELL}) == []


def findings(folder: Path, owner: str | None = None, mode: int = 0o750) -> list[str]:
    report = CHECK.Report(Called(params={}))
    CHECK.check_folder(report, folder, owner or getpass.getuser(), mode)
    return [error.partition(";")[0] for error in report.errors]


def test_a_folder_is_its_owners(tmp_path: Path) -> None:
    folder = tmp_path / "node-0"
    assert findings(folder) == [f"{folder} is missing"]
    folder.mkdir(mode=0o750)
    assert findings(folder) == []
    assert findings(folder, owner="another") == [f"{folder} does not belong to another with mode 0750"]
    folder.chmod(0o755)
    assert findings(folder) == [f"{folder} does not belong to {getpass.getuser()} with mode 0750"]


@pytest.mark.parametrize(
    ("mode", "is_found"), [(0o600, False), (0o640, False), (0o750, False), (0o644, True), (0o660, True), (0o602, True)]
)
def test_a_file_is_no_more_open_than_its_folder(tmp_path: Path, mode: int, *, is_found: bool) -> None:
    tmp_path.chmod(0o750)
    file = tmp_path / "static.conf"
    file.touch()
    file.chmod(mode)
    assert findings(tmp_path) == ([f"other users may read {file}"] if is_found else [])


def test_only_files_are_judged_within_a_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    (tmp_path / "appendonlydir").mkdir(mode=0o755)
    assert findings(tmp_path) == []


def test_every_node_is_judged_and_all_that_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    Place(monkeypatch, served="")
    nodes = [NODE, NODE | {"name": "node-1"}]
    answer = host(**{f"rlctl_limiter@node_{number}": WELL | {"is-active": "failed"} for number in (0, 1)})
    with pytest.raises(Failed, match=r"node-0.service does not run.*\n.*node-1.service does not run"):
        run(CHECK, monkeypatch, answer, fleet="limiter", address="10.0.0.1", nodes=nodes)


def test_a_port_answers_or_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(where: tuple[str, int], timeout: float) -> Any:
        if where != ("10.0.0.1", 7000) or timeout > 5:
            raise ConnectionRefusedError
        return nullcontext()

    monkeypatch.setattr(CHECK.socket, "create_connection", connect)
    assert CHECK._answers("10.0.0.1", 7000)
    assert not CHECK._answers("10.0.0.1", 7001)
