"""Finding the server binary: its family, its age, and what is said when it does not fit."""

from collections.abc import Sequence

import pytest

from rlctl.errors import Refused, RlctlError, Unreachable
from rlctl.system.process import Finished
from rlctl.targets.server_program import dotted, find_server, parse_version
from rlctl.topology.model import Engine, Flavor

REDIS = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0"
VALKEY = "Valkey server v=8.0.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=10cd0dd5a98ea4a"


class FakeRunner:
    """Answers one question."""

    def __init__(self, output: str) -> None:
        self.output = output
        self.asked: list[list[str]] = []

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
        assert timeout_s > 0
        self.asked.append(list(argv))
        return Finished(code=0, output=self.output, errors="")


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLCTL_REDIS_SERVER", "/opt/server")


@pytest.mark.parametrize(
    ("engine", "banner", "flavor", "version"),
    [
        pytest.param(Engine(), REDIS, Flavor.REDIS, (7, 0, 15), id="redis"),
        pytest.param(Engine(flavor=Flavor.VALKEY), VALKEY, Flavor.VALKEY, (8, 0, 1), id="valkey"),
        pytest.param(Engine(version="7.0"), REDIS, Flavor.REDIS, (7, 0, 15), id="the wanted version, in part"),
        pytest.param(Engine(), "warning: x\n" + REDIS, Flavor.REDIS, (7, 0, 15), id="after a warning"),
    ],
)
def test_found(engine: Engine, banner: str, flavor: Flavor, version: tuple[int, ...]) -> None:
    runner = FakeRunner(banner)
    program = find_server(engine, runner)
    assert (program.path, program.flavor, program.version) == ("/opt/server", flavor, version)
    assert runner.asked == [["/opt/server", "--version"]]


@pytest.mark.parametrize(
    ("engine", "banner", "kind", "message"),
    [
        pytest.param(Engine(), VALKEY, Unreachable, "is valkey 8.0.1, the topology says redis", id="family"),
        pytest.param(Engine(), "Redis server v=6.2.1 x", Unreachable, "rlctl needs 7.0 or newer", id="old redis"),
        pytest.param(
            Engine(flavor=Flavor.VALKEY),
            "Valkey server v=7.1 x",
            Unreachable,
            "rlctl needs 7.2 or newer",
            id="old valkey",
        ),
        pytest.param(Engine(version="8"), REDIS, Refused, "is version 7.0.15, the topology says 8", id="version"),
        pytest.param(Engine(), "ls (GNU coreutils) 9.4", Unreachable, "does not answer like", id="another program"),
        pytest.param(Engine(), "", Unreachable, "does not answer like", id="silence"),
    ],
)
def test_refused(engine: Engine, banner: str, kind: type[RlctlError], message: str) -> None:
    with pytest.raises(kind) as caught:
        find_server(engine, FakeRunner(banner))
    assert message in caught.value.message


def test_no_binary_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLCTL_REDIS_SERVER")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unreachable) as caught:
        find_server(Engine(), FakeRunner(REDIS))
    assert "redis-server" in caught.value.message
    assert "RLCTL_REDIS_SERVER" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("7.0.15", (7, 0, 15), id="three numbers"),
        pytest.param("8.0.0-rc1", (8, 0, 0), id="a candidate"),
        pytest.param("255.255.255", (255, 255, 255), id="unstable"),
        pytest.param("unstable", (), id="a word"),
        pytest.param("", (), id="nothing"),
    ],
)
def test_version(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version
    assert text.startswith(dotted(version))
